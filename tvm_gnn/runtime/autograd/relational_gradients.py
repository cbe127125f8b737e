"""Gradients of the aggregation over relations, of sums and means: each edge then has one fixed coefficient."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from ...errors import InputError
from ...ops.dims import width
from ...ops.relational import Relational
from .companions import companion, in_edge_order
from .rules import rule

if TYPE_CHECKING:
    from ..kernel import Kernel


@rule("relational")
def _relational(
    kernel: Kernel, inputs: list[Tensor], outputs: list[Tensor], grads: list[Tensor], needed: Sequence[bool]
) -> list[Tensor | None]:
    op = kernel.problem.op
    assert isinstance(op, Relational)
    if op.reduce_op.better is not None or op.cross_op.better is not None:
        raise InputError(f"op: {op.name} has no gradient yet, sums and means have. Call it under torch.no_grad().")
    total = (width(kernel.problem.dims.feat),)
    gradient = grads[0].reshape(-1, *total)
    share = _shares(kernel, op).to(gradient.dtype)
    weights = share * inputs[1].reshape(-1) if op.message_op.uses_edge else share
    found: list[Tensor | None] = [None] * len(inputs)
    if needed[0]:
        found[0] = companion(kernel, "u_mul_e_sum", total, reverse=True)(gradient, weights)
    if len(inputs) > 1 and needed[1]:
        products = companion(kernel, "u_dot_v", total)(inputs[0].reshape(-1, *total), gradient)
        found[1] = products * share
    return found


def _shares(kernel: Kernel, op: Relational) -> Tensor:
    """What every edge's message counts in the output, by edge id: one over the counts that means divide by."""
    key = ("shares",)
    kept: Tensor | None = kernel.companions.get(key)
    if kept is not None:
        return kept
    graph = in_edge_order(kernel)
    rows = np.repeat(np.arange(graph.num_dst), graph.in_degrees)
    relation = graph.indices.astype(np.int64) // max(1, graph.num_src // op.relations)
    _, pair, sizes = np.unique(rows * op.relations + relation, return_inverse=True, return_counts=True)
    share = np.ones(graph.num_edges)
    if op.reduce_op.divides_by_degree:
        share /= sizes[pair]
    if op.cross_op.divides_by_degree:
        reached = np.bincount(np.unique(np.stack([rows, relation]), axis=1)[0], minlength=graph.num_dst)
        share /= reached[rows]
    found = kernel.companions[key] = torch.from_numpy(graph.from_csr_order(share))
    return found
