"""Many graphs as one: their block-diagonal union, and which nodes and edges are whose."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ..errors import GraphError, InputTypeError
from .graph import Graph
from .validate import IntArray, index_dtype_for


@dataclass(frozen=True, eq=False)
class Batch:
    """Graphs that are computed on together; made by `Graph.batch`.

    Features and edge values of the graphs, concatenated in their order, are those of `graph`.

    Attributes
    ----------
    graph : Graph
        The union of the graphs: graph i's edges connect its own nodes only, its nodes and edges come after those of
        the graphs before it.
    dst_offsets, src_offsets, edge_offsets : (number of graphs + 1,) int64, read-only
        Graph i has the destinations ``dst_offsets[i]`` up to ``dst_offsets[i + 1]``; likewise sources and edges.

    Examples
    --------
    >>> pair, loop = Graph.from_coo([0, 1], [1, 0]), Graph.from_coo([0], [0])
    >>> batch = Graph.batch([pair, loop])
    >>> batch.graph.indices.tolist(), batch.segments.indptr.tolist()
    ([1, 0, 2], [0, 2, 3])
    """

    graph: Graph
    dst_offsets: NDArray[np.int64]
    src_offsets: NDArray[np.int64]
    edge_offsets: NDArray[np.int64]

    def __len__(self) -> int:
        return self.dst_offsets.size - 1

    @cached_property
    def segments(self) -> Graph:
        """One segment per graph: its destination nodes, as `segment_reduce`, `gather` and `sort_pool` take them."""
        return Graph.from_segments(self.dst_offsets)


def batch_of(graphs: Iterable[Graph]) -> Batch:
    """`Graph.batch`."""
    each = _graphs(graphs)
    dst_offsets = _offsets([graph.num_dst for graph in each])
    src_offsets = _offsets([graph.num_src for graph in each])
    edge_offsets = _offsets([graph.num_edges for graph in each])
    num_dst, num_src, num_edges = (int(offsets[-1]) for offsets in (dst_offsets, src_offsets, edge_offsets))
    dtype = index_dtype_for(num_dst, num_src, num_edges)
    indptr = np.zeros(num_dst + 1, dtype)
    np.cumsum(_joined([graph.in_degrees for graph in each]), out=indptr[1:])
    indices = _shifted([graph.indices for graph in each], src_offsets, dtype)
    edge_ids = None
    if any(graph.edge_ids is not None for graph in each):
        own = [np.arange(graph.num_edges) if graph.edge_ids is None else graph.edge_ids for graph in each]
        edge_ids = _shifted(own, edge_offsets, dtype)
    return Batch(Graph(indptr, indices, num_src=num_src, edge_ids=edge_ids), dst_offsets, src_offsets, edge_offsets)


def _graphs(graphs: Iterable[Graph]) -> list[Graph]:
    if isinstance(graphs, Graph) or not isinstance(graphs, Iterable):
        raise InputTypeError(f"graphs: must be a list of graphs (got {type(graphs).__name__}).")
    each = list(graphs)
    for position, graph in enumerate(each):
        if not isinstance(graph, Graph):
            raise InputTypeError(f"graphs: must hold graphs (got {type(graph).__name__} at position {position}).")
        if graph.num_relations not in (None, 1):
            raise GraphError(
                f"graphs: must not have several relations (got {graph.num_relations} at position {position}). Join the "
                "edge lists, with node ids counted on, and give them to Graph.from_relations."
            )
    return each


def _offsets(counts: Sequence[int]) -> NDArray[np.int64]:
    offsets = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=offsets[1:])
    offsets.flags.writeable = False
    return offsets


def _joined(arrays: Sequence[IntArray]) -> IntArray:
    # Without the first one there is nothing to join where there is no graph.
    return np.concatenate([np.zeros(0, np.int64), *arrays])


def _shifted(arrays: Sequence[IntArray], offsets: NDArray[np.int64], dtype: np.dtype[np.generic]) -> IntArray:
    """The arrays joined, each counted on from its offset."""
    shifts = np.repeat(offsets[:-1], [array.size for array in arrays])
    shifted: IntArray = (_joined(arrays) + shifts).astype(dtype, copy=False)
    return shifted
