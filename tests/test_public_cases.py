"""Small inputs with the right value (`data/public_cases.json`), through `tvm_gnn.load` and with several schedules."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import tvm_gnn
from tvm_gnn.errors import GraphError
from tvm_gnn.graph import Graph
from tvm_gnn.ops.reference import spmm_reference
from tvm_gnn.ops.spmm import SPMM_OPS
from tvm_gnn.testing.odd_graphs import variant
from tvm_gnn.testing.operands import edge_values_shape, problem, used
from tvm_gnn.testing.schedules import space_of
from tvm_gnn.tuning.task import code_spec

DATA = json.loads((Path(__file__).parent / "data" / "public_cases.json").read_text())
CASES = {case["id"]: case for case in DATA["cases"]}
G4 = Graph.from_coo(DATA["G4"]["src"], DATA["G4"]["dst"], num_src=4, num_dst=4)
X = np.array(DATA["G4"]["x"], np.float32)
W = np.array(DATA["G4"]["w"], np.float32)
CHECKS: dict[str, Callable[..., None]] = {}

pytestmark = [
    pytest.mark.usefixtures("quick_builds"),
    pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta:UserWarning"),
]


@pytest.fixture
def kernels(make_kernel: Any, sampled_schedules: Any) -> Callable[..., Iterator[Any]]:
    """Kernels for one question: what `tvm_gnn.load` gives, then those of several schedules."""

    def each(graph: Graph, op: str, feat: Any, schedules: int = 4) -> Iterator[Any]:
        yield tvm_gnn.load(graph, op, feat)
        if graph.num_edges and graph.num_dst and feat:
            for choice in sampled_schedules(feat, schedules, op="copy_u_sum" if op in SPMM_OPS else op):
                yield make_kernel(graph, op, feat, choice)

    return each


def check(case: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    def register(function: Callable[..., None]) -> Callable[..., None]:
        CHECKS[case] = function
        return function

    return register


def floats(values: Any) -> NDArray[np.float32]:
    return np.array(values, np.float32)


@check("copy_sum")
def _(kernels: Any, expect: Any) -> None:
    for kernel in kernels(G4, "copy_u_sum", 2):
        np.testing.assert_array_equal(kernel(X), floats(expect))


@check("max_of_negatives")
def _(kernels: Any, expect: Any) -> None:
    for kernel in kernels(G4, "copy_u_max", 2):
        np.testing.assert_array_equal(kernel(-X), floats(expect))


@check("min")
def _(kernels: Any, expect: Any) -> None:
    for kernel in kernels(G4, "copy_u_min", 2):
        np.testing.assert_array_equal(kernel(X), floats(expect))


@check("float64")
def _() -> None:
    rng = np.random.default_rng(0)
    src, dst = rng.integers(0, 50, (2, 400))
    graph = Graph.from_coo(src, dst, num_src=50, num_dst=50)
    x, w = rng.standard_normal((50, 33)), rng.standard_normal(400)
    for op in ("u_mul_e_sum", "u_add_e_mean", "u_sub_e_max"):
        want = spmm_reference(SPMM_OPS[op], graph.indptr, graph.indices, graph.edge_ids, x, w)
        got = tvm_gnn.load(graph, op, 33, dtype="float64")(x, w)
        np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-12)


@check("edge_order")
def _(kernels: Any, expect: Any) -> None:
    for kernel in kernels(G4, "u_mul_e_sum", 2):
        np.testing.assert_array_equal(kernel(X, W), floats(expect))
    in_order = tvm_gnn.load(G4, "u_mul_e_sum", 2, edge_order="csr")
    np.testing.assert_array_equal(in_order(X, G4.to_csr_order(W)), floats(expect))


@check("direction")
def _(kernels: Any, expect: Any) -> None:
    import scipy.sparse as sp  # type: ignore[import-untyped,unused-ignore]

    src, dst = np.array(DATA["G4"]["src"]), np.array(DATA["G4"]["dst"])
    adjacency = sp.coo_array((np.ones(5), (src, dst)), shape=(4, 4))  # rows are the reverse's destinations
    graphs = [
        Graph.from_edge_index(np.stack([dst, src]), 4),
        Graph.from_coo(dst, src, num_src=4, num_dst=4),
        Graph.from_scipy(adjacency.tocsr()),
        Graph.from_scipy(adjacency),
        G4.reverse(),
    ]
    if find_spec("torch"):
        import torch

        graphs.append(Graph.from_torch(torch.tensor(adjacency.toarray()).to_sparse_csr()))
    for graph in graphs:
        for kernel in kernels(graph, "copy_u_sum", 2, schedules=1):
            np.testing.assert_array_equal(kernel(X), floats(expect))


@check("weighted_mean")
def _(kernels: Any, expect: Any) -> None:
    for kernel in kernels(G4, "u_mul_e_mean", 2):
        np.testing.assert_array_equal(kernel(X, W), floats(expect))
    lonely = Graph.from_coo([], [], num_src=3, num_dst=3)
    for kernel in kernels(lonely, "u_mul_e_mean", 2):
        np.testing.assert_array_equal(kernel(np.ones((3, 2), np.float32), floats([])), np.zeros((3, 2)))


@check("padding_leak")
def _(make_kernel: Any, libraries: Any) -> None:
    given = CASES["padding_leak"]["input"]
    graph = Graph.from_coo(given["src"], given["dst"], num_src=given["num_nodes"], num_dst=given["num_nodes"])
    x, w = np.ones((6, 3), np.float32), np.ones(3, np.float32)
    what = problem("u_mul_e_mean", 3)
    by_code = {json.dumps(code_spec(what, choice)): choice for choice in space_of(what)}
    libraries.paths([code_spec(what, choice) for choice in by_code.values()])  # two at a time
    for choice in by_code.values():
        kernel = make_kernel(graph, "u_mul_e_mean", 3, choice)
        for poison in (np.nan, np.inf):
            x[0] = poison
            assert kernel(x, w).tolist() == [[value] * 3 for value in (0, 0, 1, 0, 0, 1)], choice


@check("parallel_edges")
def _(kernels: Any, expect: Any) -> None:
    graph = Graph.from_coo([1] * 7, [0] * 7, num_src=2, num_dst=2)
    x, w = floats([[5], [2]]), np.arange(1, 8, dtype=np.float32)
    *values, uniform = expect
    for op, value in zip(("u_mul_e_sum", "u_mul_e_mean", "u_mul_e_max"), values, strict=True):
        for kernel in kernels(graph, op, 1):
            assert kernel(x, w).tolist() == [[value], [0]]
    for kernel in kernels(graph, "edge_softmax", 1):
        np.testing.assert_allclose(kernel(np.full(7, 3, np.float32)), np.full(7, uniform), rtol=1e-6)


@check("edge_softmax")
def _(kernels: Any, expect: Any) -> None:
    for kernel in kernels(G4, "edge_softmax", 1):
        np.testing.assert_allclose(kernel(np.log(floats([1, 3, 7, 2, 6]))), expect, rtol=1e-6)


@check("softmax_stable")
def _(kernels: Any, expect: Any) -> None:
    rows = [[1000, 1000, 999], [60000, 60000], [0, -np.inf], [-np.inf] * 3]
    for logits, weights in zip(rows, [*expect[:3], [0] * 3], strict=True):
        graph = Graph.from_coo(np.arange(len(logits)), np.zeros(len(logits), int), num_dst=1)
        for kernel in kernels(graph, "edge_softmax", 1):
            np.testing.assert_allclose(kernel(floats(logits)), weights, atol=1e-5)
        half = tvm_gnn.load(graph, "edge_softmax", 1, dtype="float16")(np.array(logits, np.float16))
        np.testing.assert_allclose(half, weights, atol=2**-11)


@check("gat")
def _(kernels: Any, expect: Any) -> None:
    z = floats([[1, -1], [2, 0], [3, 1], [4, 2]])[:, :, None]
    score_src, score_dst = floats([[0, 1], [1, 0], [2, -1], [3, -2]]), floats([[0, 0], [1, -1], [0, 0], [-1, 2]])
    for kernel in kernels(G4, "gat", (2, 1)):
        np.testing.assert_allclose(kernel(z, score_src, score_dst)[:, :, 0], expect, atol=1e-5)


@check("sddmm_rect")
def _(kernels: Any, expect: Any) -> None:
    graph = Graph.from_coo([2, 0, 1, 0], [1, 0, 0, 1], num_src=3, num_dst=2)
    u, v = floats([[1, 0, 2], [0, 3, 0], [1, 1, 1]]), floats([[1, 2, 3], [-1, 0, 1]])
    for kernel in kernels(graph, "u_dot_v", 3):
        np.testing.assert_array_equal(kernel(u, v), expect)


@check("self_loops")
def _(kernels: Any, expect: Any) -> None:
    graph = Graph.from_coo([0, 1, 1], [1, 0, 1], num_src=3, num_dst=3)
    for kernel in kernels(graph, "copy_u_sum", 1):
        assert kernel(floats([[1], [2], [4]])).ravel().tolist() == expect


@check("odd_widths")
def _(kernels: Any) -> None:
    graph = Graph.from_coo([1, 2, 3, 4, 5], [0] * 5, num_src=6, num_dst=6)
    for feat in (0, 1, 3, 31, 33, 127, 143, 257):
        x = np.add.outer(np.arange(6), np.arange(feat)).astype(np.float32)
        for kernel in kernels(graph, "copy_u_sum", feat, schedules=2):
            y = kernel(x)
            assert y.shape == (6, feat)
            np.testing.assert_array_equal(y[0], 15 + 5 * np.arange(feat))
            assert not y[1:].any()


@check("strided")
def _(kernels: Any, expect: Any) -> None:
    x = np.arange(24, dtype=np.float32).reshape(4, 6)[:, 1::2]
    for kernel in kernels(G4, "copy_u_sum", 3):
        np.testing.assert_array_equal(kernel(x), floats(expect))


@check("empty_shapes")
def _(kernels: Any) -> None:
    for num_src, num_dst in ((0, 0), (3, 0), (3, 3)):
        graph = Graph.from_coo([], [], num_src=num_src, num_dst=num_dst)
        for op in SPMM_OPS:
            w = np.ones(edge_values_shape(SPMM_OPS[op], graph, 5), np.float32)
            given = used(SPMM_OPS[op], np.ones((num_src, 5), np.float32), w)
            for kernel in kernels(graph, op, 5):
                y = kernel(*given)
                assert (y.shape, y.dtype, y.any()) == ((num_dst, 5), np.float32, False)
        ones = [np.ones((rows, *shape), np.float32) for rows in (num_src, num_dst) for shape in ((2, 5), (2,))]
        for kernel in kernels(graph, "gat", (2, 5)):
            y = kernel(ones[0], ones[1], ones[3])
            assert (y.shape, y.dtype, y.any()) == ((num_dst, 2, 5), np.float32, False)
        for kernel in kernels(graph, "edge_softmax", 2):
            weights = kernel(np.ones((0, 2), np.float32))
            assert (weights.shape, weights.dtype) == ((0, 2), np.float32)


@check("requires_grad")
def _(quick_builds: None) -> None:
    torch = pytest.importorskip("torch", reason="needs torch")
    x = torch.tensor(X, requires_grad=True)
    tvm_gnn.load(G4, "copy_u_sum", 2)(x).sum().backward()
    out_degrees = np.bincount(G4.indices, minlength=4)
    np.testing.assert_array_equal(x.grad.numpy(), np.repeat(out_degrees[:, None], 2, axis=1))


@check("int_widths")
def _(kernels: Any, make_kernel: Any) -> None:
    src, dst = np.array(DATA["G4"]["src"]), np.array(DATA["G4"]["dst"])
    graphs = [
        Graph.from_coo(src.astype(a), dst.astype(b), num_src=4, num_dst=4)
        for a in (np.int32, np.int64)
        for b in (np.int32, np.int64)
    ]
    assert G4.edge_ids is not None
    wide = Graph(
        G4.indptr.astype(np.int64), G4.indices.astype(np.int64), num_src=4, edge_ids=G4.edge_ids.astype(np.int64)
    )
    expected = tvm_gnn.load(G4, "u_mul_e_sum", 2)(X, W).tobytes()
    for graph in (*graphs, wide):
        for kernel in kernels(graph, "u_mul_e_sum", 2, schedules=1):
            assert kernel(X, W).tobytes() == expected
    assert wide.index_dtype == variant(G4, "int64", "csr").index_dtype == "int64"


@check("wrapping_id")
def _() -> None:
    with pytest.raises(GraphError, match=r"indices: .*\(got 4294967297 at position 1\)"):
        Graph.from_csr([0, 1, 2, 2], np.array([0, 2**32 + 1]), num_src=3)


@check("out_of_range")
def _(kernels: Any) -> None:
    for bad in (4, -1):
        with pytest.raises(ValueError, match=rf"src: .*\(got {bad} at position 1\)"):
            Graph.from_coo([0, bad], [0, 1], num_src=4, num_dst=4)
    for kernel in kernels(G4, "copy_u_sum", 2, schedules=1):
        np.testing.assert_array_equal(kernel(X), floats(CASES["copy_sum"]["expect"]))


@check("no_exf")
def _(tmp_path: Path) -> None:
    script = Path(__file__).parents[1] / "scripts" / "memory_peak"
    command = [sys.executable, str(script), "--op", "copy_u_sum,gat", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert all(megabytes < 64 for megabytes in json.loads(done.stdout).values()), done.stdout


@check("hub")
def _(kernels: Any) -> None:
    num_nodes = 100_000
    ring = np.arange(num_nodes)
    src = np.concatenate([np.arange(1, num_nodes), ring])
    dst = np.concatenate([np.zeros(num_nodes - 1, int), (ring + 1) % num_nodes])
    graph = Graph.from_coo(src, dst, num_src=num_nodes, num_dst=num_nodes)
    x = np.random.default_rng(0).integers(-3, 4, (num_nodes, 64)).astype(np.float32)
    want = spmm_reference(SPMM_OPS["copy_u_sum"], graph.indptr, graph.indices, None, x).astype(np.float32)
    for kernel in kernels(graph, "copy_u_sum", 64, schedules=3):
        np.testing.assert_array_equal(kernel(x), want)


@check("many_small")
def _(kernels: Any) -> None:
    rng = np.random.default_rng(0)
    src, dst = rng.integers(0, 20, (2, 40))
    one = Graph.from_coo(src, dst, num_src=20, num_dst=20)
    first = 20 * np.arange(10_000)[:, None]
    batch = Graph.from_coo((first + src).ravel(), (first + dst).ravel(), num_src=200_000, num_dst=200_000)
    x = rng.integers(-3, 4, (200_000, 16)).astype(np.float32)
    alone = tvm_gnn.load(one, "copy_u_sum", 16)
    want = np.concatenate([alone(x[start : start + 20]) for start in range(0, 200_000, 20)])
    for kernel in kernels(batch, "copy_u_sum", 16, schedules=2):
        np.testing.assert_array_equal(kernel(x), want)


@check("same_shape")
def _(kernels: Any) -> None:
    x = np.arange(8, dtype=np.float32)[:, None]
    ring = Graph.from_coo(np.arange(8), (np.arange(8) + 1) % 8)
    star = Graph.from_coo(np.arange(8), np.zeros(8, int), num_src=8, num_dst=8)
    for kernel in kernels(ring, "copy_u_sum", 1):
        assert kernel(x).ravel().tolist() == [7, 0, 1, 2, 3, 4, 5, 6]
    for kernel in kernels(star, "copy_u_sum", 1):
        assert kernel(x).ravel().tolist() == [28] + 7 * [0]


@check("dynamic_stream")
def _(monkeypatch: pytest.MonkeyPatch, libraries: Any) -> None:
    built: list[Any] = []

    def build(spec: Any, target: Any, folder: Any) -> Path:
        built.append(spec)
        (path,) = libraries.paths([spec])
        return Path(path)

    monkeypatch.setattr("tvm_gnn.tuning.builder.build_once", build)
    rng = np.random.default_rng(0)
    for _ in range(50):
        num_nodes = int(rng.integers(1, 300))
        src, dst = rng.integers(0, num_nodes, (2, int(rng.integers(1, 2000))))
        graph = Graph.from_coo(src, dst, num_src=num_nodes, num_dst=num_nodes)
        x = rng.integers(-3, 4, (num_nodes, 16)).astype(np.float32)
        want = spmm_reference(SPMM_OPS["copy_u_sum"], graph.indptr, graph.indices, None, x)
        np.testing.assert_array_equal(tvm_gnn.load(graph, "copy_u_sum", 16)(x), want.astype(np.float32))
    assert len(built) <= 1


def test_every_case_has_a_check() -> None:
    assert set(CHECKS) == set(CASES)


@pytest.mark.parametrize("case", CASES)
def test_case(case: str, request: pytest.FixtureRequest) -> None:
    function = CHECKS[case]
    names = function.__code__.co_varnames[: function.__code__.co_argcount]
    function(**{name: CASES[case]["expect"] if name == "expect" else request.getfixturevalue(name) for name in names})
