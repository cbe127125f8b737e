"""MaxK and sort pooling through `load`: their outputs, their gradients in float64, segments and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tvm_gnn
from tvm_gnn.errors import InputError
from tvm_gnn.graph import Graph
from tvm_gnn.ops.maxk import MAXK_OPS
from tvm_gnn.testing.odd_graphs import ODD_GRAPHS

pytestmark = pytest.mark.usefixtures("quick_builds")

GRAPHS = ("isolated_nodes", "unsorted_edge_list", "wide")


def distinct(shape: tuple[int, ...], seed: int = 0) -> Any:
    """Values between 0.5 and 1.5, no two alike."""
    size = int(np.prod(shape))
    return (0.5 + (np.random.default_rng(seed).permutation(size) + 0.5) / max(size, 1)).reshape(shape)


def test_what_maxk_keeps() -> None:
    graph = Graph.from_coo([0, 1, 1], [0, 0, 1])
    x = np.array([[1, 3, 3, -1], [np.nan, -np.inf, 2, np.nan]], np.float32)
    y, values, columns = tvm_gnn.load(graph, tvm_gnn.maxk(2, "copy_u"), 4)(x)
    assert columns.dtype == np.uint8
    assert columns.tolist() == [[1, 2], [0, 3]]
    np.testing.assert_array_equal(values, [[3, 3], [np.nan, np.nan]])
    np.testing.assert_array_equal(y, [[np.nan, 3, 3, np.nan], [np.nan, 0, 0, np.nan]])


def test_what_is_not_kept_meets_no_edge_value() -> None:
    graph = Graph.from_coo([0], [0])
    y, *_ = tvm_gnn.load(graph, tvm_gnn.maxk(1), 2)(np.array([[0, 1]], np.float32), np.array([np.inf], np.float32))
    assert y.tolist() == [[0, np.inf]]


def test_features_without_an_edge_are_compressed_too() -> None:
    graph = Graph.from_coo([], [], num_src=3, num_dst=2)
    x = np.arange(900, dtype=np.float32).reshape(3, 300)
    y, values, columns = tvm_gnn.load(graph, "maxk_copy_u_sum(k=2)", 300)(x)
    assert not y.any()
    assert columns.dtype == np.uint16
    assert columns.tolist() == [[298, 299]] * 3
    np.testing.assert_array_equal(values, x[:, 298:])


@pytest.mark.parametrize(
    ("op", "feat", "options", "message"),
    [
        ("maxk_copy_u_sum", 31, {}, r"feat: must be from k = 32 to 65536 .* \(got 31\)"),
        ("maxk_copy_u_sum(k=0)", 8, {}, r"k: must be at least 1 \(got 0\)"),
        ("maxk_copy_u_sum(k=4)", (2, 4), {}, r"feat: must be a width"),
        ("maxk_copy_u_sum(k=4)", 8, {"edge_feat": ()}, r"edge_feat: .* reads no edge values"),
        ("maxk_u_mul_e_sum(k=4)", 8, {"edge_feat": (8,)}, r"edge_feat: .* reads one value per edge"),
        ("sort_pool(k=4)", 0, {}, r"feat: must be a width of at least 1"),
        ("sort_pool(k=0)", 4, {}, r"k: must be at least 1 \(got 0\)"),
    ],
)
def test_what_is_refused(op: str, feat: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        tvm_gnn.load(ODD_GRAPHS["wide"](), op, feat, **options)


def check_gradient(graph: Graph, op: str, feat: int, **options: Any) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    kernel = tvm_gnn.load(graph, op, feat, dtype="float64", **options)
    arrays = []
    for slot in kernel._inputs:
        if slot.name == "columns":
            rows = [np.random.default_rng(row).permutation(feat)[: slot.shape[1]] for row in range(slot.shape[0])]
            arrays.append(torch.from_numpy(np.sort(np.array(rows), axis=1).astype(slot.dtype)))
        else:
            arrays.append(torch.tensor(distinct(slot.shape), requires_grad=True))
    torch.manual_seed(0)
    assert torch.autograd.gradcheck(kernel, arrays, fast_mode=True)


@pytest.mark.parametrize("op", MAXK_OPS)
@pytest.mark.parametrize("name", GRAPHS)
def test_gradcheck_of_maxk(name: str, op: str) -> None:
    check_gradient(ODD_GRAPHS[name](), f"{op}(k=3)", 9)


def test_gradcheck_of_maxk_with_edges_in_csr_order() -> None:
    check_gradient(ODD_GRAPHS["unsorted_edge_list"](), "maxk_u_mul_e_sum(k=3)", 9, edge_order="csr")


@pytest.mark.parametrize("name", GRAPHS)
def test_gradcheck_of_sort_pool(name: str) -> None:
    check_gradient(ODD_GRAPHS[name](), "sort_pool(k=3)", 4)


@pytest.mark.parametrize(("op", "feat"), [("copy_e_sum", 3), ("copy_e_mean", 3), ("copy_e_max", 3), ("copy_v", 3)])
def test_gradcheck_on_segments(op: str, feat: int) -> None:
    check_gradient(Graph.from_segments([0, 3, 3, 4, 9]), op, feat)


def test_sort_pool_of_segments() -> None:
    x = np.array([[1, 5], [2, np.nan], [3, 5], [4, 9], [5, -np.inf]], np.float32)
    y, rows = tvm_gnn.load(Graph.from_segments([0, 4, 4, 5]), tvm_gnn.sort_pool(3), 2)(x)
    assert rows.tolist() == [[1, 3, 0], [-1, -1, -1], [4, -1, -1]]
    np.testing.assert_array_equal(y, np.where(rows[..., None] >= 0, x[rows], 0))


def test_sort_pool_of_nothing() -> None:
    y, rows = tvm_gnn.load(Graph.from_segments([0, 0]), tvm_gnn.sort_pool(2), 3)(np.zeros((0, 3), np.float32))
    assert (y.tolist(), rows.tolist()) == ([[[0, 0, 0]] * 2], [[-1, -1]])
