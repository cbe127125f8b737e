"""Edges of PyG, DGL and networkx graphs, in the order of each one's edge data; none of them is imported."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import GraphError, InputTypeError
from .sparse_matrices import Entries, from_torch
from .validate import integer_array, is_tensor


@dataclass(frozen=True)
class EdgeList:
    """Sources and destinations, shape (2, num_edges), as the framework has them, and the numbers of both."""

    edge_index: Any
    num_nodes: tuple[int, int]


def from_pyg(data: Any, edge_type: Any = None) -> EdgeList | Entries:
    """Edges of a PyG `Data`, or of one edge type of a `HeteroData`; sources are row 0 of ``edge_index``.

    An ``adj_t`` (torch sparse tensor, or torch_sparse's `SparseTensor`) has rows = destinations, as this package has.
    """
    store, num_nodes = _pyg_store(data, edge_type)
    edge_index, adj_t = _attribute(store, "edge_index"), _attribute(store, "adj_t")
    if edge_index is not None:
        return EdgeList(edge_index, num_nodes)
    if adj_t is None:
        raise InputTypeError(
            f"data: must be a PyG Data with edge_index or adj_t (got {type(data).__name__} without either). "
            "Use from_edge_index for a plain tensor."
        )
    if is_tensor(adj_t):
        return from_torch(adj_t)
    indptr, indices, _ = adj_t.csr()
    rows, columns = adj_t.sparse_sizes()
    entries = (integer_array(indptr, "data.adj_t"), integer_array(indices, "data.adj_t"))
    return Entries("csr", *entries, (int(rows), int(columns)))


def from_dgl(graph: Any, edge_type: Any = None) -> EdgeList:
    """Edges of a DGL graph or block, or of one of its edge types, in the order of DGL's edge ids."""
    if not all(hasattr(graph, name) for name in ("edges", "num_src_nodes", "canonical_etypes")):
        raise InputTypeError(f"graph: must be a DGL graph (got {type(graph).__name__}).")
    if edge_type is None and len(graph.canonical_etypes) != 1:
        raise GraphError(f"edge_type: must name one of {graph.canonical_etypes} of a graph with several (got None).")
    canonical = graph.to_canonical_etype(edge_type) if edge_type is not None else graph.canonical_etypes[0]
    src, dst = graph.edges(order="eid", etype=canonical)
    num_nodes = int(graph.num_src_nodes(canonical[0])), int(graph.num_dst_nodes(canonical[2]))
    return EdgeList(np.stack([integer_array(src, "graph"), integer_array(dst, "graph")]), num_nodes)


def from_networkx(graph: Any) -> EdgeList:
    """Edges of a networkx graph; nodes are numbered in the order of ``graph.nodes``.

    An undirected edge is one edge each way, as in ``graph.to_directed()``, whose edge order is kept.
    """
    if not all(hasattr(graph, name) for name in ("is_directed", "to_directed", "nodes", "edges")):
        raise InputTypeError(f"graph: must be a networkx graph (got {type(graph).__name__}).")
    number = {node: position for position, node in enumerate(graph.nodes)}
    directed = graph if graph.is_directed() else graph.to_directed(as_view=True)
    pairs = np.array([(number[edge[0]], number[edge[1]]) for edge in directed.edges], np.int64).reshape(-1, 2)
    return EdgeList(pairs.T, (len(number), len(number)))


def _pyg_store(data: Any, edge_type: Any) -> tuple[Any, tuple[int, int]]:
    edge_types = _attribute(data, "edge_types")
    if edge_types is None:
        if edge_type is not None:
            raise GraphError(f"edge_type: is for a HeteroData (got {edge_type!r} and {type(data).__name__}).")
        nodes = _attribute(data, "num_nodes")
        if nodes is None:
            raise InputTypeError(f"data: must be a PyG Data (got {type(data).__name__}).")
        return data, (int(nodes), int(nodes))
    if edge_type is None and len(edge_types) != 1:
        raise GraphError(f"edge_type: must name one of {edge_types} of a HeteroData (got None).")
    chosen = edge_types[0] if edge_type is None else tuple(edge_type)
    if chosen not in edge_types:
        raise GraphError(f"edge_type: must be one of {edge_types} (got {edge_type!r}).")
    return data[chosen], (int(data[chosen[0]].num_nodes), int(data[chosen[2]].num_nodes))


def _attribute(data: Any, name: str) -> Any:
    try:
        return getattr(data, name, None)
    except KeyError:  # of PyG's stores, beside AttributeError
        return None
