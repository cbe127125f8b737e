"""Small graphs on which sparse kernels go wrong, by name; a new one is one function here."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..graph import Graph

ODD_GRAPHS: dict[str, Callable[[], Graph]] = {}


def _odd(build: Callable[[], Graph]) -> Callable[[], Graph]:
    ODD_GRAPHS[build.__name__] = build
    return build


@_odd
def empty() -> Graph:
    """No node at all."""
    return Graph.from_coo([], [], num_src=0, num_dst=0)


@_odd
def no_destination() -> Graph:
    """Three sources, no row."""
    return Graph.from_coo([], [], num_src=3, num_dst=0)


@_odd
def one_node() -> Graph:
    """One node with a loop."""
    return Graph.from_coo([0], [0])


@_odd
def zero_edges() -> Graph:
    """Nodes, but no edge."""
    return Graph.from_coo([], [], num_src=3, num_dst=5)


@_odd
def one_edge() -> Graph:
    """One edge between the last nodes of a rectangle."""
    return Graph.from_coo([6], [2], num_src=7, num_dst=3)


@_odd
def star_in() -> Graph:
    """Every other node points to node 0: all work in the first row."""
    leaves = np.arange(1, 80)
    return Graph.from_coo(leaves, np.zeros_like(leaves), num_src=80, num_dst=80)


@_odd
def star_out() -> Graph:
    """Node 0 points to every other node: rows of one edge, one source for all."""
    leaves = np.arange(1, 80)
    return Graph.from_coo(np.zeros_like(leaves), leaves, num_src=80, num_dst=80)


@_odd
def isolated_nodes() -> Graph:
    """Edges among the odd nodes only: every other row is empty, the first one too."""
    rng = np.random.default_rng(1)
    src, dst = 2 * rng.integers(0, 30, (2, 150)) + 1
    return Graph.from_coo(src, dst, num_src=61, num_dst=61)


@_odd
def trailing_empty_rows() -> Graph:
    """The last rows are empty, and the last sources unused."""
    rng = np.random.default_rng(2)
    src, dst = rng.integers(0, 10, (2, 40))
    return Graph.from_coo(src, dst, num_src=50, num_dst=70)


@_odd
def power_law() -> Graph:
    """A few rows hold most edges."""
    rng = np.random.default_rng(3)
    dst = rng.permutation(200)[np.minimum(rng.zipf(1.6, 1500) - 1, 199)]
    return Graph.from_coo(rng.integers(0, 200, 1500), dst, num_src=200, num_dst=200)


@_odd
def wide() -> Graph:
    """Few destinations, many sources."""
    rng = np.random.default_rng(4)
    return Graph.from_coo(rng.integers(0, 300, 200), rng.integers(0, 9, 200), num_src=300, num_dst=9)


@_odd
def tall() -> Graph:
    """Many destinations, few sources."""
    rng = np.random.default_rng(5)
    return Graph.from_coo(rng.integers(0, 9, 200), rng.integers(0, 300, 200), num_src=9, num_dst=300)


@_odd
def parallel_edges() -> Graph:
    """Every pair several times over."""
    rng = np.random.default_rng(6)
    pairs = rng.integers(0, 12, (2, 20))
    src, dst = pairs[:, rng.integers(0, 20, 130)]
    return Graph.from_coo(src, dst, num_src=12, num_dst=12)


@_odd
def self_loops() -> Graph:
    """A ring, with a loop at every third node."""
    ring = np.arange(30)
    src, dst = np.concatenate([ring, ring[::3]]), np.concatenate([(ring + 1) % 30, ring[::3]])
    return Graph.from_coo(src, dst)


@_odd
def long_row() -> Graph:
    """One row with more edges than all others together and more than any prefetch distance or unrolling."""
    rng = np.random.default_rng(7)
    dst = np.concatenate([np.full(4003, 17), rng.integers(0, 40, 97)])
    return Graph.from_coo(rng.integers(0, 500, dst.size), dst, num_src=500, num_dst=40)


@_odd
def unsorted_edge_list() -> Graph:
    """A random edge list whose order is far from CSR order, so that `edge_ids` matters everywhere."""
    rng = np.random.default_rng(8)
    src, dst = rng.integers(0, 60, (2, 400))
    return Graph.from_coo(src, dst, num_src=60, num_dst=60)


def variant(graph: Graph, index_dtype: str, edge_order: str, seed: int = 0) -> Graph:
    """The same adjacency with this index dtype and, for ``"edge_ids"``, edge values in a random caller's order.

    Parameters
    ----------
    index_dtype : {"int32", "int64"}
    edge_order : {"csr", "edge_ids"}
        ``"csr"``: position p is the caller's edge p; ``"edge_ids"``: `edge_ids` is a permutation, never None.
    """
    edge_ids = None
    if edge_order == "edge_ids":
        edge_ids = np.random.default_rng(seed).permutation(graph.num_edges).astype(index_dtype)
    return Graph(
        graph.indptr.astype(index_dtype),
        graph.indices.astype(index_dtype),
        num_src=graph.num_src,
        edge_ids=edge_ids,
        name=graph.name,
    )
