"""The operands of a g-SpMM call, as many as the operator reads."""

from __future__ import annotations

from typing import Any

from ..graph import Graph
from ..ops import Problem, parse_op
from ..ops.dims import feature_shape
from ..ops.spmm import SpMM


def problem(
    op: str,
    feat: Any,
    dtype: str = "float32",
    index_dtype: str = "int32",
    edge_order: str = "csr",
    edge_feat: tuple[int, ...] | None = None,
) -> Problem:
    """A problem from plain values."""
    operator = parse_op(op)
    return Problem(operator, operator.dims(feature_shape(feat), edge_feat), dtype, index_dtype, edge_order)


def used(op: SpMM, x: Any, w: Any) -> tuple[Any, ...]:
    """Of features and edge values what the operator reads, in the order of a call."""
    return (*((x,) if op.uses_src else ()), *((w,) if op.uses_edge else ()))


def edge_values_shape(op: SpMM, graph: Graph, feat: int) -> tuple[int, ...]:
    """Shape of the edge values that the operator reads by default."""
    return (graph.num_edges, *op.default_edge_feat((feat,)))
