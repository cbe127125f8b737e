"""Segments and batches: the graphs they become, whose nodes and edges are whose, what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp  # type: ignore[import-untyped,unused-ignore]

from tvm_gnn.errors import GraphError, InputTypeError
from tvm_gnn.graph import Batch, Graph
from tvm_gnn.testing.odd_graphs import ODD_GRAPHS, variant


def dense(graph: Graph, values: Any) -> Any:
    """The adjacency with the caller's edge values, parallel edges summed."""
    rows = np.repeat(np.arange(graph.num_dst), graph.in_degrees)
    in_order = graph.to_csr_order(values)
    return sp.coo_array((in_order, (rows, graph.indices)), (graph.num_dst, graph.num_src)).toarray()


def values_of(graph: Graph, seed: int) -> Any:
    return np.random.default_rng(seed).integers(1, 1000, graph.num_edges)


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.uint8])
def test_segments_are_rows_of_consecutive_edges(dtype: Any) -> None:
    offsets = np.array([0, 3, 3, 4, 9], dtype)
    graph = Graph.from_segments(offsets)
    offsets[1] = 0  # a graph shares no memory with what it was made of
    assert (graph.num_dst, graph.num_src, graph.num_edges) == (4, 9, 9)
    assert graph.indptr.tolist() == [0, 3, 3, 4, 9]
    assert graph.indices.tolist() == list(range(9))
    assert (graph.edge_ids, graph.index_dtype) == (None, "int32")


@pytest.mark.parametrize("offsets", [[0], [0, 0, 0]])
def test_segments_may_hold_nothing(offsets: list[int]) -> None:
    graph = Graph.from_segments(offsets)
    assert (graph.num_dst, graph.num_src, graph.num_edges) == (len(offsets) - 1, 0, 0)


@pytest.mark.parametrize(
    ("offsets", "error", "message"),
    [
        ([], GraphError, r"offsets: must have one entry more than segments \(got length 0\)"),
        ([1, 2], GraphError, r"offsets: must start at 0 \(got 1 at position 0\)"),
        ([0, 3, 2, 4], GraphError, r"offsets: must never fall \(got 2 after 3 at position 2\)"),
        ([0, 2**50], GraphError, r"offsets\[1\]: must be at most 2\*\*46"),
        ([[0, 1]], GraphError, r"offsets: must have 1 dimension"),
        ([0.0, 1.0], InputTypeError, r"offsets: must hold integers"),
        (None, InputTypeError, r"offsets: must "),
    ],
)
def test_what_is_no_segmentation_is_refused(offsets: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        Graph.from_segments(offsets)


BATCHES: dict[str, Callable[[], list[Graph]]] = {
    "nothing": list,
    "one": lambda: [ODD_GRAPHS["unsorted_edge_list"]()],
    "every odd graph": lambda: [build() for build in ODD_GRAPHS.values()],
    "int64": lambda: [variant(build(), "int64", "edge_ids") for build in ODD_GRAPHS.values()],
    "in CSR order": lambda: [variant(build(), "int32", "csr") for build in ODD_GRAPHS.values()],
    "the same graph": lambda: [ODD_GRAPHS["tall"]()] * 3,
}


@pytest.mark.parametrize("graphs", BATCHES.values(), ids=BATCHES)
def test_a_batch_is_the_block_diagonal_union(graphs: Callable[[], list[Graph]]) -> None:
    each = graphs()
    batch = Graph.batch(each)
    graph = batch.graph
    assert len(batch) == len(each)
    assert (graph.num_dst, graph.num_src) == (sum(g.num_dst for g in each), sum(g.num_src for g in each))
    assert {graph.indptr.dtype, graph.indices.dtype} == {np.dtype(np.int32)}  # the counts fit, whatever the parts have
    values = [values_of(one, seed) for seed, one in enumerate(each)]
    whole = dense(graph, np.concatenate([np.zeros(0, int), *values]))
    for i, (one, own) in enumerate(zip(each, values, strict=True)):
        rows = slice(batch.dst_offsets[i], batch.dst_offsets[i + 1])
        columns = slice(batch.src_offsets[i], batch.src_offsets[i + 1])
        assert (whole[rows, columns] == dense(one, own)).all()
        assert batch.edge_offsets[i + 1] - batch.edge_offsets[i] == one.num_edges
    assert whole.sum() == sum(own.sum() for own in values)
    for row in range(graph.num_dst):  # canonical: sources ascend within a row
        assert (np.diff(graph.indices[graph.indptr[row] : graph.indptr[row + 1]]) >= 0).all()
    if graph.edge_ids is not None:
        assert (np.sort(graph.edge_ids) == np.arange(graph.num_edges)).all()


def test_a_batch_of_graphs_in_csr_order_is_in_csr_order() -> None:
    assert Graph.batch([variant(build(), "int32", "csr") for build in ODD_GRAPHS.values()]).graph.edge_ids is None


def test_segments_of_a_batch_are_its_graphs_destinations() -> None:
    batch = Graph.batch(build() for build in (ODD_GRAPHS["tall"], ODD_GRAPHS["empty"], ODD_GRAPHS["wide"]))
    assert isinstance(batch, Batch)
    assert batch.segments.indptr.tolist() == batch.dst_offsets.tolist() == [0, 300, 300, 309]
    assert batch.segments.num_edges == batch.graph.num_dst
    assert batch.segments is batch.segments


@pytest.mark.parametrize(
    ("graphs", "message"),
    [
        (Graph.from_segments([0]), r"graphs: must be a list of graphs \(got Graph\)"),
        (3, r"graphs: must be a list of graphs \(got int\)"),
        ([Graph.from_segments([0]), "karate"], r"graphs: must hold graphs \(got str at position 1\)"),
    ],
)
def test_what_is_no_list_of_graphs_is_refused(graphs: Any, message: str) -> None:
    with pytest.raises(InputTypeError, match=message):
        Graph.batch(graphs)


def test_graphs_of_several_relations_are_refused() -> None:
    one, two = (Graph.from_relations([0], [1], [r], num_relations=r + 1, num_src=2) for r in range(2))
    assert Graph.batch([one, one]).graph.num_src == 4
    with pytest.raises(GraphError, match=r"graphs: must not have several relations \(got 2 at position 1\)"):
        Graph.batch([one, two])
