"""Heads, edge values of every shape that broadcasts, and copy_e: the shapes a kernel takes and gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tvm_gnn
from tvm_gnn.errors import InputError, InputTypeError
from tvm_gnn.ops.reference import spmm_reference
from tvm_gnn.ops.spmm import SPMM_OPS
from tvm_gnn.testing.odd_graphs import ODD_GRAPHS
from tvm_gnn.testing.operands import used

GRAPH = ODD_GRAPHS["unsorted_edge_list"]()
E = GRAPH.num_edges
RNG = np.random.default_rng(0)


def reference(op: str, x: Any, w: Any, shape: tuple[int, ...]) -> Any:
    flat = x.reshape(len(x), -1)
    values = w.reshape(E, -1)
    result = spmm_reference(SPMM_OPS[op], GRAPH.indptr, GRAPH.indices, GRAPH.edge_ids, flat, values)
    return result.reshape(-1, *shape).astype(np.float32)


@pytest.mark.usefixtures("quick_builds")
@pytest.mark.parametrize(
    ("feat", "edge_feat", "given"),
    [
        ((3, 5), None, [(E, 3, 1), (E, 3)]),
        ((3, 5), (), [(E,), (E, 1), (E, 1, 1)]),
        ((3, 5), (3, 5), [(E, 3, 5)]),
        ((1, 6), None, [(E, 1, 1), (E, 1), (E,)]),
        (8, None, [(E,), (E, 1)]),
        (8, 8, [(E, 8)]),
        ((4, 1), None, [(E, 4, 1), (E, 4)]),
    ],
)
@pytest.mark.parametrize("op", ["u_mul_e_sum", "u_add_e_max"])
def test_edge_values_broadcast_over_features(op: str, feat: Any, edge_feat: Any, given: list[tuple[int, ...]]) -> None:
    kernel = tvm_gnn.load(GRAPH, op, feat, edge_feat=edge_feat)
    shape = feat if isinstance(feat, tuple) else (feat,)
    x = RNG.integers(-4, 5, (GRAPH.num_src, *shape)).astype(np.float32)
    w = RNG.integers(-4, 5, given[0]).astype(np.float32)
    for form in given:
        y = kernel(x, w.reshape(form))
        assert y.shape == (GRAPH.num_dst, *shape)
        np.testing.assert_array_equal(y, reference(op, x, w, shape))


@pytest.mark.usefixtures("quick_builds")
@pytest.mark.parametrize("feat", [7, (2, 5)])
def test_copy_e_takes_edge_values_alone(feat: Any) -> None:
    shape = feat if isinstance(feat, tuple) else (feat,)
    kernel = tvm_gnn.load(GRAPH, "copy_e_mean", feat)
    w = RNG.standard_normal((E, *shape)).astype(np.float32)
    y = kernel(w)
    np.testing.assert_allclose(
        y, reference("copy_e_mean", np.zeros((GRAPH.num_src, 1)), w, shape), rtol=1e-5, atol=1e-6
    )
    assert np.array_equal(kernel(w=w), y)
    with pytest.raises(InputTypeError, match=r"^arguments: copy_e_mean takes kernel\(w\) \(got 2, .* type ndarray\)"):
        kernel(w, w)
    with pytest.raises(InputTypeError, match=r"^w: copy_e_mean takes kernel\(w\), w of shape .* \(got none\)"):
        kernel()


@pytest.mark.usefixtures("quick_builds")
@pytest.mark.torch
def test_torch_tensors_have_the_same_forms() -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    kernel = tvm_gnn.load(GRAPH, "u_mul_e_sum", (3, 5))
    x, w = torch.randn(GRAPH.num_src, 3, 5), torch.randn(E, 3)
    y = kernel(x, w)
    assert y.shape == (GRAPH.num_dst, 3, 5)
    assert torch.equal(kernel(x, w[..., None]), y)
    assert torch.equal(kernel(x, w.T.contiguous().T), y)


@pytest.mark.usefixtures("quick_builds")
@pytest.mark.parametrize("op", ["u_mul_e_sum", "copy_u_max", "u_div_e_mean"])
def test_float64(op: str) -> None:
    kernel = tvm_gnn.load(GRAPH, op, 9, dtype="float64")
    x, w = RNG.standard_normal((GRAPH.num_src, 9)), RNG.standard_normal(E) + 3
    y = kernel(*used(SPMM_OPS[op], x, w))
    assert y.dtype == np.float64
    want = spmm_reference(SPMM_OPS[op], GRAPH.indptr, GRAPH.indices, GRAPH.edge_ids, x, w)
    np.testing.assert_allclose(y, want, rtol=1e-12, atol=1e-12)
    with pytest.raises(InputTypeError, match=r"^x: must be float64 \(got float32\)"):
        kernel(*used(SPMM_OPS[op], x.astype(np.float32), w))


@pytest.mark.parametrize(
    ("op", "feat", "edge_feat", "text"),
    [
        ("u_mul_e_sum", (2, 3, 4), None, r"^feat: must be a width F or a pair"),
        ("u_mul_e_sum", (2, -3), None, r"^feat: must be at least 0 \(got -3\)"),
        ("u_mul_e_sum", (2**20, 2**20), None, r"^feat: must be at most 2147483647 numbers per row"),
        ("u_mul_e_sum", 8, 4, r"^edge_feat: must be one of \(\), \(1,\), \(8,\) for feat \(8,\) \(got \(4,\)\)"),
        ("u_mul_e_sum", (2, 4), (4,), r"^edge_feat: must be one of"),
        ("copy_u_sum", 8, 8, r"^edge_feat: copy_u_sum reads no edge values"),
        ("copy_e_sum", 8, 1, r"^edge_feat: must be feat for copy_e_sum"),
    ],
)
def test_shapes_that_do_not_broadcast(op: str, feat: Any, edge_feat: Any, text: str) -> None:
    with pytest.raises(InputError, match=text):
        tvm_gnn.load(GRAPH, op, feat, edge_feat=edge_feat)
