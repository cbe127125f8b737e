"""The tolerance accepts what rounding does and nothing else."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tvm_gnn.graph import Graph
from tvm_gnn.ops import SpMM
from tvm_gnn.ops.reference import spmm_error_scale, spmm_reference
from tvm_gnn.ops.spmm import SPMM_OPS
from tvm_gnn.ops.tolerance import first_mismatch

OP = SPMM_OPS["u_mul_e_sum"]


def float32_sums(op: SpMM, graph: Graph, x: NDArray[Any], w: NDArray[Any], order: str = "forward") -> NDArray[Any]:
    """Every row's messages added one after the other in float32, in CSR order, backwards or shuffled."""
    rng = np.random.default_rng(0)
    out = np.zeros((graph.num_dst, x.shape[1]), np.float32)
    for row in range(graph.num_dst):
        edges = np.arange(graph.indptr[row], graph.indptr[row + 1])
        edges = {"forward": edges, "backward": edges[::-1], "shuffled": rng.permutation(edges)}[order]
        if edges.size:
            e = w[edges, None] if op.uses_edge else None
            # A running sum, where `sum` would add pairwise.
            out[row] = np.cumsum(op.message_op.combine(x[graph.indices[edges]], e), axis=0, dtype=np.float32)[-1]
    return out


def judged(op: SpMM, graph: Graph, x: NDArray[Any], w: NDArray[Any], got: NDArray[Any]) -> str | None:
    arguments = (op, graph.indptr, graph.indices, None, x, w)
    return first_mismatch(got, spmm_reference(*arguments), spmm_error_scale(*arguments))


@pytest.fixture(scope="module")
def graph() -> Graph:
    """About forty edges a row, in CSR order."""
    rng = np.random.default_rng(1)
    built = Graph.from_coo(rng.integers(0, 100, 4000), rng.integers(0, 100, 4000), num_src=100, num_dst=100)
    return Graph(built.indptr, built.indices, num_src=100)


@pytest.fixture(scope="module")
def values(graph: Graph) -> tuple[NDArray[Any], NDArray[Any]]:
    rng = np.random.default_rng(2)
    return rng.standard_normal((100, 5)).astype(np.float32), rng.standard_normal(graph.num_edges).astype(np.float32)


@pytest.mark.parametrize("order", ["forward", "backward", "shuffled"])
def test_any_order_of_adding_is_right(graph: Graph, values: tuple[NDArray[Any], NDArray[Any]], order: str) -> None:
    assert judged(OP, graph, *values, float32_sums(OP, graph, *values, order)) is None


@pytest.mark.parametrize("degree", [1_000, 10_000, 100_000])
@pytest.mark.parametrize("kind", ["uniform", "normal"])
def test_the_honest_sum_of_a_hub_is_right(degree: int, kind: str) -> None:
    """Float32 sums of many terms drift; no kernel is to blame."""
    rng = np.random.default_rng(3)
    x = (rng.random((degree, 4)) if kind == "uniform" else rng.standard_normal((degree, 4))).astype(np.float32)
    hub = Graph.from_coo(np.arange(degree), np.zeros(degree, int), num_src=degree, num_dst=1)
    none = np.zeros(degree, np.float32)
    assert judged(SPMM_OPS["copy_u_sum"], hub, x, none, float32_sums(SPMM_OPS["copy_u_sum"], hub, x, none)) is None


def test_a_dropped_edge_is_wrong(graph: Graph, values: tuple[NDArray[Any], NDArray[Any]]) -> None:
    x, w = values
    for row in range(0, 100, 7):
        dropped = w.copy()
        dropped[graph.indptr[row]] = 0
        assert f"first at row {row}," in (judged(OP, graph, x, w, float32_sums(OP, graph, x, dropped)) or "")


@pytest.mark.parametrize("degree", [1_000, 10_000])
def test_a_dropped_edge_of_a_hub_is_wrong(degree: int) -> None:
    rng = np.random.default_rng(4)
    x = rng.uniform(0.5, 1.5, (degree, 4)).astype(np.float32)
    hub = Graph.from_coo(np.arange(degree), np.zeros(degree, int), num_src=degree, num_dst=1)
    exact = spmm_reference(SPMM_OPS["copy_u_sum"], hub.indptr, hub.indices, None, x)
    assert judged(SPMM_OPS["copy_u_sum"], hub, x, x[:, 0], (exact - x[7]).astype(np.float32)) is not None


def test_a_swapped_weight_is_wrong(graph: Graph, values: tuple[NDArray[Any], NDArray[Any]]) -> None:
    x, w = values
    swapped = w.copy()
    swapped[[10, 11]] = w[[11, 10]]
    assert judged(OP, graph, x, w, float32_sums(OP, graph, x, swapped)) is not None


def test_a_row_not_written_is_wrong(graph: Graph, values: tuple[NDArray[Any], NDArray[Any]]) -> None:
    got = float32_sums(OP, graph, *values)
    got[42] = np.nan
    assert "5 of 500 elements differ, first at row 42, feature 0: got nan" in (judged(OP, graph, *values, got) or "")


@pytest.mark.parametrize(
    ("got", "want", "right"),
    [
        (np.nan, np.nan, True),
        (np.inf, np.inf, True),
        (-np.inf, np.inf, False),
        (np.inf, 1.0, False),
        (1.0, np.inf, False),
        (np.nan, np.inf, False),
        (np.nan, 0.0, False),
        (0.0, np.nan, False),
        (-0.0, 0.0, True),
        (1e-45, 0.0, True),  # a denormal that another order of operations leaves
        (1e-30, 0.0, False),
        (np.inf, 1e39, True),  # what float64 holds and float32 does not
    ],
)
def test_special_values(got: float, want: float, right: bool) -> None:
    scale = np.zeros((1, 1)) if np.isfinite(want) else np.full((1, 1), np.inf)
    with np.errstate(over="ignore"):
        mismatch = first_mismatch(np.full((1, 1), got, np.float32), np.full((1, 1), want), scale)
    assert (mismatch is None) is right


def test_infinity_in_one_element_does_not_excuse_another() -> None:
    want, scale = np.array([[np.inf, 1.0]]), np.array([[np.inf, 1.0]])
    assert "feature 1" in (first_mismatch(np.array([[np.inf, 1.1]], np.float32), want, scale) or "")


def test_another_shape_is_wrong() -> None:
    assert "shape (2, 1), expected (1, 2)" in (
        first_mismatch(np.zeros((2, 1), np.float32), np.zeros((1, 2)), np.zeros((1, 2))) or ""
    )


def test_cancelling_sums_are_judged_by_their_terms() -> None:
    scale = np.array([[2e6]])
    assert first_mismatch(np.array([[0.1]], np.float32), np.array([[0.0]]), scale) is None
    assert first_mismatch(np.array([[10.0]], np.float32), np.array([[0.0]]), scale) is not None
