"""Kernels that another one's gradient needs: other operators on its graph, or on the reversed graph."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...ops.dims import RowShape

if TYPE_CHECKING:
    from ...graph import Graph
    from ..kernel import Kernel


def companion(
    kernel: Kernel, op: str, feat: RowShape, edge_feat: RowShape | None = None, reverse: bool = False
) -> Kernel:
    """The kernel of `op` whose rows of edges are in the order of `kernel`'s; made once and kept with it.

    Parameters
    ----------
    kernel : Kernel
        Made by `tvm_gnn.load`.
    op : str
    feat, edge_feat : shapes
    reverse : bool
        On the graph with every edge turned round: its rows are the sources.
    """
    key = (op, feat, edge_feat, reverse)
    found = kernel.companions.get(key)
    if found is None:
        found = kernel.companions[key] = _loaded(kernel, op, feat, edge_feat, reverse)
    return found


def _loaded(kernel: Kernel, op: str, feat: RowShape, edge_feat: RowShape | None, reverse: bool) -> Kernel:
    graph = in_edge_order(kernel)
    if reverse:
        graph = graph.reverse()
    # One head is a plain width: both have the same kernels.
    width: Any = feat if len(feat) > 1 else feat[0] if feat else 1
    return kernel.load_other(graph, op, width, edge_feat=edge_feat)


def in_edge_order(kernel: Kernel) -> Graph:
    """The graph whose caller's edge order is the one in which `kernel` takes and gives rows of edges."""
    graph = kernel.graph
    if graph.edge_ids is None or kernel.problem.edge_order == "edge_ids" or not kernel.problem.op.uses_edges:
        return graph
    key = ("graph in CSR order",)
    found: Graph | None = kernel.companions.get(key)
    if found is None:
        found = type(graph)(graph.indptr, graph.indices, num_src=graph.num_src, name=graph.name)
        kernel.companions[key] = found
    return found
