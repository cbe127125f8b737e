"""Edge softmax, GAT and GATv2 kernels follow the written semantics: empty rows, NaN, infinities, huge scores."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tvm_gnn as tg
from tvm_gnn.errors import InputError, InputTypeError
from tvm_gnn.graph import Graph
from tvm_gnn.ops import parse_op
from tvm_gnn.ops.operand import Structure
from tvm_gnn.ops.tolerance import first_mismatch
from tvm_gnn.testing.odd_graphs import ODD_GRAPHS

pytestmark = pytest.mark.usefixtures("quick_builds")

# Rows shorter than a chunk of edges, and with more than one chunk.
LENGTHS = (1, 2, 5, 23, 40)
GRAPH = ODD_GRAPHS["unsorted_edge_list"]()


def rows_of(lengths: tuple[int, ...]) -> Graph:
    """A row of each length; every edge has a source of its own, in order."""
    dst = np.repeat(np.arange(len(lengths)), lengths)
    return Graph.from_coo(np.arange(dst.size), dst, num_src=dst.size, num_dst=len(lengths))


def inputs(graph: Graph, op: str, feat: Any, seed: int = 0) -> list[Any]:
    operator = parse_op(op)
    shape = feat if isinstance(feat, tuple) else (feat,)
    rng = np.random.default_rng(seed)
    operands = operator.inputs(operator.dims(shape, None))
    counts = {each.name: () if each.rows == "once" else (graph.row_counts[each.rows],) for each in operands}
    return [rng.standard_normal((*counts[each.name], *each.shape)).astype(np.float32) for each in operands]


def differs(graph: Graph, op: str, feat: Any, given: list[Any], got: Any) -> str | None:
    """From the float64 reference."""
    operator = parse_op(op)
    dims = operator.dims(feat if isinstance(feat, tuple) else (feat,), None)
    structure = Structure(graph.indptr, graph.indices, graph.edge_ids, graph.num_src)
    flat = [array.reshape(-1, each.width) for array, each in zip(given, operator.inputs(dims), strict=True)]
    found = got if isinstance(got, tuple) else (got,)
    wanted, scales = (getattr(operator, name)(dims, structure, *flat) for name in ("reference", "error_scale"))
    for each, want, scale in zip(found, wanted, scales, strict=True):
        wrong = first_mismatch(np.asarray(each).reshape(want.shape), want, np.nan_to_num(scale, posinf=0))
        if wrong is not None:
            return wrong
    return None


@pytest.fixture
def kernels(make_kernel: Any, sampled_schedules: Any) -> Callable[..., Iterator[Any]]:
    """The default kernel and those of some schedules."""

    def each(graph: Graph, op: str, feat: Any, count: int = 3) -> Iterator[Any]:
        for choice in sampled_schedules(feat, count, op=op):
            yield make_kernel(graph, op, feat, choice)

    return each


@pytest.mark.parametrize("heads", [1, 3, 8, 20])
def test_softmax_of_special_logits(kernels: Any, heads: int) -> None:
    """Every kind of row, in one head of many, at every length."""
    graph = rows_of(LENGTHS)
    for kernel in kernels(graph, "edge_softmax", heads):
        for special in (np.nan, np.inf, -np.inf):
            for head in {0, heads - 1}:
                for place in (0, -1):
                    (logits,) = inputs(graph, "edge_softmax", heads)
                    clean = kernel(logits)
                    for row in range(graph.num_dst):
                        logits[graph.indptr[row] if place == 0 else graph.indptr[row + 1] - 1, head] = special
                    got = kernel(logits)
                    others = np.arange(heads) != head
                    assert got[:, others].tobytes() == clean[:, others].tobytes()
                    assert differs(graph, "edge_softmax", heads, [logits], got) is None


@pytest.mark.parametrize("feat", [(1, 1), (3, 5), (8, 8), (2, 33)])
def test_rows_of_nothing_but_minus_infinity_are_zero(kernels: Any, feat: tuple[int, int]) -> None:
    graph = rows_of(LENGTHS)
    for kernel in kernels(graph, "edge_softmax", feat[0]):
        assert not kernel(np.full((graph.num_edges, feat[0]), -np.inf, np.float32)).any()
    for kernel in kernels(graph, "gat(attention=True)", feat):
        z, score_src, score_dst = inputs(graph, "gat", feat)
        score_src[:] = -np.inf
        y, attention = kernel(z, score_src, score_dst)
        assert not y.any()
        assert not attention.any()


@pytest.mark.parametrize("slope", [0.2, -0.2, 0.0])
def test_gat_with_special_scores(kernels: Any, slope: float) -> None:
    graph, feat = rows_of(LENGTHS), (3, 5)
    op = f"gat(negative_slope={slope}, attention=True)"
    for kernel in kernels(graph, op, feat):
        clean = kernel(*inputs(graph, op, feat))
        for special in (np.nan, np.inf, -np.inf):
            given = inputs(graph, op, feat)
            for row in range(graph.num_dst):
                given[1][graph.indptr[row] + row % (graph.indptr[row + 1] - graph.indptr[row]), 1] = special
            got = kernel(*given)
            assert got[0][:, [0, 2]].tobytes() == clean[0][:, [0, 2]].tobytes()
            assert got[1][:, [0, 2]].tobytes() == clean[1][:, [0, 2]].tobytes()
            assert differs(graph, op, feat, given, got) is None
            if np.isnan(special):
                assert np.isnan(got[0][:, 1]).all()
                assert np.isnan(got[1][:, 1]).all()


def test_gat_with_a_special_destination(kernels: Any) -> None:
    graph, feat, op = rows_of(LENGTHS), (3, 5), "gat(attention=True)"
    for kernel in kernels(graph, op, feat):
        for special in (np.nan, np.inf, -np.inf):
            given = inputs(graph, op, feat)
            given[2][2, 1] = special
            assert differs(graph, op, feat, given, kernel(*given)) is None


@pytest.mark.parametrize("op", ["gat", "gatv2"])
@pytest.mark.parametrize("feat", [(3, 5), (2, 33), (1, 300)])
def test_a_nan_feature_stays_in_its_column(kernels: Any, op: str, feat: tuple[int, int]) -> None:
    """Of GATv2 it is also in the score of its head, so that it reaches all of the row's head."""
    head, column = feat[0] - 1, feat[1] - 1
    for kernel in kernels(GRAPH, op, feat):
        for special in (np.nan, np.inf) if op == "gat" else (np.nan,):
            given = inputs(GRAPH, op, feat)
            clean = kernel(*given)
            given[0][7, head, column] = special
            got = kernel(*given)
            changed = np.zeros(got.shape, bool)
            for v in range(GRAPH.num_dst):
                if 7 in GRAPH.indices[GRAPH.indptr[v] : GRAPH.indptr[v + 1]]:
                    changed[v, head, column if op == "gat" else slice(None)] = True
            assert changed.any()
            assert (got[~changed] == clean[~changed]).all()
            assert not np.isfinite(got[changed]).any()


@pytest.mark.parametrize("slope", [0.2, -0.2, 0.0])
@pytest.mark.parametrize("special", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("feat", [(3, 5), (2, 33)])
def test_gatv2_with_special_scores(kernels: Any, feat: tuple[int, int], special: float, slope: float) -> None:
    """The scores of single edges, from a source that is special in one feature; the attention gives it a sign."""
    graph, op = rows_of(LENGTHS), f"gatv2(negative_slope={slope}, attention=True)"
    for kernel in kernels(graph, op, feat):
        for sign in (-1, 1):
            given = inputs(graph, op, feat)
            given[2][:] = sign * np.abs(given[2])
            for row in range(1, graph.num_dst):
                given[0][graph.indptr[row] + row % 2, 1, 2] = special
            got = kernel(*given)
            assert differs(graph, op, feat, given, got) is None


@pytest.mark.parametrize("op", ["gat(attention=True)", "gatv2(attention=True)"])
@pytest.mark.parametrize("size", [1e4, 1e30])
def test_huge_scores_are_stable(kernels: Any, op: str, size: float) -> None:
    graph, feat = rows_of(LENGTHS), (3, 5)
    for kernel in kernels(graph, op, feat):
        given = inputs(graph, op, feat)
        scaled = (1, 2) if op.startswith("gat(") else (2,)
        for at in scaled:
            given[at] *= np.float32(size)
        y, attention = kernel(*given)
        assert np.isfinite(y).all()
        sums = np.add.reduceat(attention, graph.indptr[:-1])
        np.testing.assert_allclose(sums, np.ones(sums.shape), rtol=1e-5)
        if size == 1e4:
            assert differs(graph, op, feat, given, (y, attention)) is None


def test_huge_logits_are_stable(kernels: Any) -> None:
    graph = rows_of(LENGTHS)
    for kernel in kernels(graph, "edge_softmax", 3):
        for size in (1e4, 3e38):
            logits = np.float32(size) * np.sign(inputs(graph, "edge_softmax", 3)[0])
            assert differs(graph, "edge_softmax", 3, [logits], kernel(logits)) is None


@pytest.mark.parametrize("op", ["gat", "gatv2"])
@pytest.mark.parametrize("name", ["isolated_nodes", "trailing_empty_rows", "tall"])
def test_empty_rows_are_zero(kernels: Any, op: str, name: str) -> None:
    graph = ODD_GRAPHS[name]()
    empty = graph.in_degrees == 0
    assert empty.any()
    for kernel in kernels(graph, op, (3, 5)):
        given = inputs(graph, op, (3, 5))
        given[-2 if op == "gatv2" else -1][empty] = np.nan
        y = kernel(*given)
        assert not y[empty].any()
        assert np.isfinite(y[~empty]).all()


@pytest.mark.parametrize("op", ["gat(attention=True)", "gatv2(attention=True)"])
def test_without_an_edge_all_is_zero(op: str) -> None:
    for num_src, num_dst in ((0, 0), (3, 0), (3, 2)):
        graph = Graph.from_coo([], [], num_src=num_src, num_dst=num_dst)
        y, attention = tg.load(graph, op, (2, 5))(*inputs(graph, op, (2, 5)))
        assert (y.shape, attention.shape, y.any()) == ((num_dst, 2, 5), (0, 2), False)


def test_logits_in_every_form_of_one_head() -> None:
    kernel = tg.load(GRAPH, "edge_softmax", 1)
    (logits,) = inputs(GRAPH, "edge_softmax", 1)
    want = kernel(logits)
    assert want.shape == (GRAPH.num_edges, 1)
    flat = kernel(logits.reshape(-1))
    assert flat.shape == (GRAPH.num_edges,)
    assert flat.tobytes() == want.tobytes()


def test_logits_with_a_trailing_one() -> None:
    kernel = tg.load(GRAPH, "edge_softmax", (4, 1))
    (logits,) = inputs(GRAPH, "edge_softmax", (4, 1))
    want = kernel(logits)
    assert want.shape == (GRAPH.num_edges, 4, 1)
    assert kernel(logits[:, :, 0]).shape == (GRAPH.num_edges, 4)
    assert kernel(logits[:, :, 0]).tobytes() == want.tobytes()


@pytest.mark.parametrize("op", ["gat", "gatv2"])
def test_one_head_with_and_without_its_dim(op: str) -> None:
    given = inputs(GRAPH, op, 7)
    want = tg.load(GRAPH, op, 7)(*given)
    with_head = [each.reshape(*each.shape[:-1], 1, 7) if each.shape[-1] == 7 else each for each in given]
    got = tg.load(GRAPH, op, (1, 7))(*with_head)
    assert (want.shape, got.shape) == ((GRAPH.num_dst, 7), (GRAPH.num_dst, 1, 7))
    assert want.tobytes() == got.tobytes()


@pytest.mark.parametrize("op", ["edge_softmax", "u_dot_v", "gat(attention=True)", "gatv2(attention=True)"])
def test_strided_inputs_and_out(op: str) -> None:
    feat = (3, 5)
    kernel = tg.load(GRAPH, op, feat)
    given = inputs(GRAPH, op, feat)
    wanted = kernel(*given)
    wanted = wanted if isinstance(wanted, tuple) else (wanted,)
    strided = [np.repeat(each, 2, axis=-1)[..., ::2] for each in given]
    before = [each.copy() for each in strided]
    out = tuple(np.full(each.shape, np.nan, np.float32) for each in wanted)
    got = kernel(*strided, out=out if len(out) > 1 else out[0])
    for each, same, want in zip(out, got if isinstance(got, tuple) else (got,), wanted, strict=True):
        assert same is each
        np.testing.assert_array_equal(each, want)
    for each, old in zip(strided, before, strict=True):
        np.testing.assert_array_equal(each, old)


def test_out_must_hold_all_outputs() -> None:
    op = "gat(attention=True)"
    kernel, given = tg.load(GRAPH, op, (3, 5)), inputs(GRAPH, op, (3, 5))
    y = np.empty((GRAPH.num_dst, 3, 5), np.float32)
    for out in (y, (y,)):
        with pytest.raises(InputTypeError, match=r"^out: must be a tuple of 2 buffers, \(y, attention\)"):
            kernel(*given, out=out)


@pytest.mark.torch
@pytest.mark.parametrize("op", ["edge_softmax", "u_dot_v", "e_sub_v", "gat(attention=True)", "gatv2(attention=True)"])
def test_torch_tensors_give_the_same_bits(op: str) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    kernel, given = tg.load(GRAPH, op, (3, 5)), inputs(GRAPH, op, (3, 5))
    wanted, got = kernel(*given), kernel(*map(torch.from_numpy, given))
    pairs = zip(wanted, got, strict=True) if isinstance(wanted, tuple) else [(wanted, got)]
    for want, each in pairs:
        assert isinstance(each, torch.Tensor)
        assert each.numpy().tobytes() == want.tobytes()
    transposed = [
        torch.from_numpy(each).mT.contiguous().mT if each.ndim > 1 else torch.from_numpy(each) for each in given
    ]
    again = kernel(*transposed)
    first = again[0] if isinstance(again, tuple) else again
    assert first.numpy().tobytes() == (wanted[0] if isinstance(wanted, tuple) else wanted).tobytes()


@pytest.mark.torch
def test_edge_softmax_and_gat_agree_with_torch() -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    graph = rows_of((40, 40, 40))
    (logits,) = inputs(graph, "edge_softmax", 3)
    want = torch.from_numpy(logits.reshape(3, 40, 3)).softmax(dim=1).reshape(120, 3)
    np.testing.assert_allclose(tg.load(graph, "edge_softmax", 3)(logits), want, rtol=1e-5, atol=1e-7)
    z, score_src, score_dst = inputs(graph, "gat", (3, 5))
    scores = torch.nn.functional.leaky_relu(
        torch.from_numpy(score_src.reshape(3, 40, 3) + score_dst[:, None]), negative_slope=0.2
    )
    y = torch.einsum("veh,vehd->vhd", scores.softmax(dim=1), torch.from_numpy(z.reshape(3, 40, 3, 5)))
    np.testing.assert_allclose(tg.load(graph, "gat", (3, 5))(z, score_src, score_dst), y, rtol=1e-5, atol=1e-6)


def test_scores_of_one_head_in_every_form() -> None:
    kernel = tg.load(GRAPH, "gat", 7)
    z, score_src, score_dst = inputs(GRAPH, "gat", 7)
    wanted = kernel(z, score_src, score_dst)
    for shape in ((-1,), (-1, 1)):
        np.testing.assert_array_equal(kernel(z, score_src.reshape(shape), score_dst.reshape(shape)), wanted)
    with pytest.raises(InputError, match=r"score_src: must have shape"):
        kernel(z, score_src[:-1, 0], score_dst)
    with pytest.raises(InputError, match=r"score_dst: must have shape"):
        tg.load(GRAPH, "gat", (2, 7))(*inputs(GRAPH, "gat", (2, 7))[:2], score_dst[:, 0])
