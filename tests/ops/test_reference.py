"""The float64 reference against two other formulations: scipy's sparse product and a dense numpy product."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp  # type: ignore[import-untyped,unused-ignore]
from numpy.typing import NDArray

from tvm_gnn.graph import Graph
from tvm_gnn.ops import SpMM
from tvm_gnn.ops import reference as reference_module
from tvm_gnn.ops.reference import spmm_error_scale, spmm_reference
from tvm_gnn.ops.spmm import SPMM_OPS
from tvm_gnn.testing.odd_graphs import ODD_GRAPHS, variant


def scipy_spmm(op: SpMM, graph: Graph, x: NDArray[Any], w: NDArray[Any]) -> NDArray[Any]:
    """Scipy sums parallel entries in the product; the mean is left to a division."""
    values = graph.to_csr_order(w) if op.uses_edge else np.ones(graph.num_edges)
    adjacency = sp.csr_array((values, graph.indices, graph.indptr), shape=(graph.num_dst, graph.num_src))
    total: NDArray[Any] = adjacency @ x
    return total / np.maximum(graph.in_degrees, 1)[:, None] if op.reduce == "mean" else total


def dense_spmm(op: SpMM, graph: Graph, x: NDArray[Any], w: NDArray[Any]) -> NDArray[Any]:
    """One edge at a time into a dense adjacency."""
    adjacency = np.zeros((graph.num_dst, graph.num_src))
    for row in range(graph.num_dst):
        for p in range(graph.indptr[row], graph.indptr[row + 1]):
            e = p if graph.edge_ids is None else graph.edge_ids[p]
            adjacency[row, graph.indices[p]] += w[e] if op.uses_edge else 1
    total: NDArray[Any] = adjacency @ x
    for row in range(graph.num_dst):
        if op.reduce == "mean" and graph.in_degrees[row]:
            total[row] /= graph.in_degrees[row]
    return total


def inputs(graph: Graph, feat: int) -> tuple[NDArray[Any], NDArray[Any]]:
    rng = np.random.default_rng(5)
    return rng.standard_normal((graph.num_src, feat)), rng.standard_normal(graph.num_edges)


def one_by_one(op: SpMM, graph: Graph, x: NDArray[Any], w: NDArray[Any]) -> NDArray[Any]:
    """Row by row, feature by feature, in Python's own numbers; a column of w serves its share of the features."""
    feat = x.shape[1]
    combine = {
        "copy_u": lambda u, e: u,
        "copy_e": lambda u, e: e,
        "u_add_e": lambda u, e: u + e,
        "u_sub_e": lambda u, e: u - e,
        "u_mul_e": lambda u, e: u * e,
        "u_div_e": lambda u, e: u / e,
    }[op.message]
    finish = {"sum": sum, "mean": lambda values: sum(values) / len(values), "max": max, "min": min}[op.reduce]
    out = np.zeros((graph.num_dst, feat))
    for row in range(graph.num_dst):
        places = range(graph.indptr[row], graph.indptr[row + 1])
        for k in range(feat if places else 0):
            edges = [p if graph.edge_ids is None else graph.edge_ids[p] for p in places]
            column = k // (feat // w.shape[1])
            messages = [combine(x[graph.indices[p], k], w[e, column]) for p, e in zip(places, edges, strict=True)]
            out[row, k] = finish(messages)
    return out


@pytest.mark.parametrize("edge_width", [1, 2, 4])
@pytest.mark.parametrize("op", SPMM_OPS.values(), ids=list(SPMM_OPS))
@pytest.mark.parametrize(
    "name", ["unsorted_edge_list", "isolated_nodes", "parallel_edges", "wide", "empty", "zero_edges"]
)
def test_equals_plain_python(name: str, op: SpMM, edge_width: int) -> None:
    graph = ODD_GRAPHS[name]()
    rng = np.random.default_rng(6)
    x, w = (
        rng.standard_normal((graph.num_src, 4)),
        rng.standard_normal((graph.num_edges, 4 if not op.uses_src else edge_width)),
    )
    got = spmm_reference(op, graph.indptr, graph.indices, graph.edge_ids, x, w)
    np.testing.assert_allclose(got, one_by_one(op, graph, x, w), rtol=1e-12, atol=1e-12)


def test_nan_wins_a_max_and_infinity_loses_to_nothing() -> None:
    graph = Graph.from_coo([0, 1, 2, 3, 3], [0, 0, 1, 2, 0], num_src=4, num_dst=4)
    x = np.array([[1.0], [np.nan], [-np.inf], [7.0]])
    got = spmm_reference(SPMM_OPS["copy_u_max"], graph.indptr, graph.indices, None, x)[:, 0]
    assert np.isnan(got[0])
    assert got[1:].tolist() == [-np.inf, 7.0, 0.0]


PRODUCTS = [SPMM_OPS[name] for name in ("copy_u_sum", "copy_u_mean", "u_mul_e_sum", "u_mul_e_mean")]


@pytest.mark.parametrize("edge_order", ["csr", "edge_ids"])
@pytest.mark.parametrize("op", PRODUCTS, ids=[op.name for op in PRODUCTS])
@pytest.mark.parametrize("name", ODD_GRAPHS)
def test_equals_scipy_and_the_dense_product(name: str, op: SpMM, edge_order: str) -> None:
    graph = variant(ODD_GRAPHS[name](), "int32", edge_order)
    x, w = inputs(graph, feat=3)
    got = spmm_reference(op, graph.indptr, graph.indices, graph.edge_ids, x, w)
    assert got.dtype == np.float64
    assert got.shape == (graph.num_dst, 3)
    np.testing.assert_allclose(got, scipy_spmm(op, graph, x, w), rtol=1e-12, atol=1e-10)
    np.testing.assert_allclose(got, dense_spmm(op, graph, x, w), rtol=1e-12, atol=1e-10)


@pytest.mark.parametrize("chunk_bytes", [8, 24, 800])
def test_chunks_change_nothing(monkeypatch: pytest.MonkeyPatch, chunk_bytes: int) -> None:
    graph = ODD_GRAPHS["power_law"]()
    x, w = inputs(graph, feat=3)
    arguments = (SPMM_OPS["u_mul_e_mean"], graph.indptr, graph.indices, graph.edge_ids, x, w)
    whole = spmm_reference(*arguments)
    monkeypatch.setattr(reference_module, "CHUNK_BYTES", chunk_bytes)
    assert spmm_reference(*arguments).tobytes() == whole.tobytes()


def test_width_zero() -> None:
    graph = ODD_GRAPHS["power_law"]()
    got = spmm_reference(SPMM_OPS["copy_u_sum"], graph.indptr, graph.indices, None, np.zeros((graph.num_src, 0)))
    assert got.shape == (graph.num_dst, 0)


def test_float32_inputs_are_reduced_in_float64() -> None:
    graph = Graph.from_coo([0, 1, 2], [0, 0, 0])
    x = np.array([[2.0**24], [1.0], [1.0]], np.float32)
    assert spmm_reference(SPMM_OPS["copy_u_sum"], graph.indptr, graph.indices, None, x)[0, 0] == 2.0**24 + 2


def test_nan_and_infinity_are_data() -> None:
    graph = Graph.from_coo([0, 1, 2, 2], [0, 0, 1, 2], num_src=4, num_dst=4)
    x = np.array([[np.inf], [-np.inf], [np.inf], [np.nan]])
    got = spmm_reference(SPMM_OPS["copy_u_sum"], graph.indptr, graph.indices, None, x)[:, 0]
    assert np.isnan(got[0])
    assert got[1:].tolist() == [np.inf, np.inf, 0.0]


def test_error_scale_does_not_cancel() -> None:
    graph = Graph.from_coo([0, 1], [0, 0])
    x = np.array([[1.0], [-1.0]])
    w = np.array([3.0, 3.0])
    assert spmm_reference(SPMM_OPS["u_mul_e_sum"], graph.indptr, graph.indices, None, x, w)[0, 0] == 0
    assert spmm_error_scale(SPMM_OPS["u_mul_e_sum"], graph.indptr, graph.indices, None, x, w)[0, 0] >= 6
