"""The operands of a g-SpMM call, as many as the operator reads."""

from __future__ import annotations

from typing import Any

from ..graph import Graph
from ..ops.dims import width
from ..ops.spmm import SpMM


def used(op: SpMM, x: Any, w: Any) -> tuple[Any, ...]:
    """Of features and edge values what the operator reads, in the order of a call."""
    return (*((x,) if op.uses_src else ()), *((w,) if op.uses_edge else ()))


def edge_width(op: SpMM, feat: int) -> int:
    """Numbers per edge that the operator reads by default; 1 where it reads none."""
    return width(op.default_edge_feat((feat,))) if op.uses_edge else 1


def edge_values_shape(op: SpMM, graph: Graph, feat: int) -> tuple[int, ...]:
    """Shape of the edge values that the operator reads by default."""
    return (graph.num_edges, *op.default_edge_feat((feat,)))
