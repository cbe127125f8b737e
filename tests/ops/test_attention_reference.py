"""The float64 references of edge softmax, GAT and GATv2 against plain Python, row by row."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from tvm_gnn.errors import InputError, InputTypeError
from tvm_gnn.graph import Graph
from tvm_gnn.ops import edge_softmax, gat, gatv2, reference
from tvm_gnn.ops.operand import Structure
from tvm_gnn.testing.odd_graphs import ODD_GRAPHS, variant

H, D = 2, 3
GRAPHS = ("unsorted_edge_list", "isolated_nodes", "wide", "parallel_edges", "zero_edges", "empty", "no_destination")


def structure_of(graph: Graph) -> Structure:
    return Structure(graph.indptr, graph.indices, graph.edge_ids, graph.num_src)


def softmax(scores: list[float]) -> list[float]:
    """Of finite scores."""
    powers = [math.exp(score - max(scores)) for score in scores]
    return [power / sum(powers) for power in powers]


def rows(graph: Graph) -> list[tuple[int, list[tuple[int, int]]]]:
    """Every destination with (edge, source) of its in-edges."""
    found = []
    for v in range(graph.num_dst):
        places = range(graph.indptr[v], graph.indptr[v + 1])
        ids = places if graph.edge_ids is None else graph.edge_ids[list(places)]
        found.append((v, [(int(e), int(graph.indices[p])) for p, e in zip(places, ids, strict=True)]))
    return found


@pytest.fixture(params=[64, 64 << 20])
def _chunk(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The reference works through few rows at a time, and through all at once."""
    monkeypatch.setattr(reference, "CHUNK_BYTES", request.param)


@pytest.mark.usefixtures("_chunk")
@pytest.mark.parametrize("edge_order", ["csr", "edge_ids"])
@pytest.mark.parametrize("graph_name", GRAPHS)
def test_edge_softmax(graph_name: str, edge_order: str) -> None:
    graph = variant(ODD_GRAPHS[graph_name](), "int32", edge_order)
    logits = np.random.default_rng(0).normal(0, 3, (graph.num_edges, H))
    want = np.zeros(logits.shape)
    for _, edges in rows(graph):
        for h in range(H):
            for (e, _), weight in zip(edges, softmax([float(logits[e, h]) for e, _ in edges]), strict=True):
                want[e, h] = weight
    op = edge_softmax()
    (got,) = op.reference(op.dims((H,), None), structure_of(graph), logits)
    np.testing.assert_allclose(got, want, rtol=1e-13)


@pytest.mark.usefixtures("_chunk")
@pytest.mark.parametrize("slope", [0.2, -0.5, 2.0])
@pytest.mark.parametrize("version", [gat, gatv2])
@pytest.mark.parametrize("edge_order", ["csr", "edge_ids"])
@pytest.mark.parametrize("graph_name", GRAPHS)
def test_attention(graph_name: str, edge_order: str, version: Any, slope: float) -> None:
    graph = variant(ODD_GRAPHS[graph_name](), "int32", edge_order)
    op = version(slope, attention=True)
    dims = op.dims((H, D), None)
    rng = np.random.default_rng(0)
    inputs = [rng.standard_normal((graph.row_counts[each.rows], each.width)) for each in op.inputs(dims)]

    def score(u: int, v: int, h: int) -> float:
        if version is gat:
            x = inputs[1][u, h] + inputs[2][v, h]
            return float(x if x > 0 else slope * x)
        total = 0.0
        for k in range(h * D, (h + 1) * D):
            x = inputs[0][u, k] + inputs[1][v, k]
            total += inputs[2][0, k] * (x if x > 0 else slope * x)
        return total

    y, attention = np.zeros((graph.num_dst, H * D)), np.zeros((graph.num_edges, H))
    for v, edges in rows(graph):
        for h in range(H):
            for (e, u), weight in zip(edges, softmax([score(u, v, h) for _, u in edges]), strict=True):
                attention[e, h] = weight
                y[v, h * D : (h + 1) * D] += weight * inputs[0][u, h * D : (h + 1) * D]
    got = op.reference(dims, structure_of(graph), *inputs)
    scales = op.error_scale(dims, structure_of(graph), *inputs)
    for output, want, scale in zip(got, (y, attention), scales, strict=True):
        np.testing.assert_allclose(output, want, rtol=1e-12, atol=1e-14)
        assert scale.shape == want.shape
        assert (scale >= np.abs(want)).all()
    without = version(slope)
    (alone,) = without.reference(dims, structure_of(graph), *inputs)
    np.testing.assert_array_equal(alone, got[0])


def test_special_scores() -> None:
    graph = Structure(np.array([0, 2, 4, 6, 8]), np.zeros(8, int), None, 1)
    inf, nan = np.inf, np.nan
    logits = np.array([0, -inf, -inf, -inf, 1, nan, 1, inf])[:, None]
    op = edge_softmax()
    (got,) = op.reference(op.dims((1,), None), graph, logits)
    np.testing.assert_array_equal(got[:, 0], [1, 0, 0, 0, nan, nan, nan, nan])


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda: gat("0.2"), InputTypeError, r"^negative_slope: must be a number \(got '0.2' of type str\)"),
        (lambda: gat(True), InputTypeError, r"^negative_slope: must be a number \(got True of type bool\)"),
        (lambda: gatv2(math.nan), InputError, r"^negative_slope: must be finite \(got nan\)"),
        (lambda: gat(attention=1), InputTypeError, r"^attention: must be True or False \(got 1\)"),
        (lambda: gat().dims((2, 3), (2,)), InputError, r"^edge_feat: gat reads no edge values \(got \(2,\)\)"),
        (lambda: gatv2(attention=True).dims((2, 0), None), InputError, r"^feat: must be at least 1 wide for gatv2"),
        (lambda: edge_softmax().dims((2,), (3,)), InputError, r"^edge_feat: must be"),
    ],
)
def test_what_is_refused(make: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        make()
