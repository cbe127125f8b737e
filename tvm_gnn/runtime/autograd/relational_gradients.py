"""Gradients of the aggregation over relations.

Of sums and means each edge has one fixed coefficient. Where a max or min takes part, the two reduces are two products:
edges to pairs of a row and a relation, pairs to rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from ...ops.dims import width
from ...ops.relational import Relational
from .companions import companion, in_edge_order
from .rules import gradients, rule

if TYPE_CHECKING:
    from ..kernel import Kernel


@rule("relational")
def _relational(
    kernel: Kernel, inputs: list[Tensor], outputs: list[Tensor], grads: list[Tensor], needed: Sequence[bool]
) -> list[Tensor | None]:
    op = kernel.problem.op
    assert isinstance(op, Relational)
    if op.reduce_op.better is not None or op.cross_op.better is not None:
        return _through_pairs(kernel, op, inputs, grads[0], needed)
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


def _through_pairs(
    kernel: Kernel, op: Relational, inputs: list[Tensor], gradient: Tensor, needed: Sequence[bool]
) -> list[Tensor | None]:
    total = width(kernel.problem.dims.feat)
    to_pairs, to_rows = _two_products(kernel, op, total)
    within = to_pairs(inputs[0].reshape(-1, total), *inputs[1:])
    (of_pairs,) = gradients(to_rows, [within], [], [gradient.reshape(-1, total)], [True])
    assert of_pairs is not None
    found = gradients(to_pairs, [inputs[0].reshape(-1, total), *inputs[1:]], [], [of_pairs], needed)
    return [None if each is None else each.reshape(given.shape) for each, given in zip(found, inputs, strict=True)]


def _two_products(kernel: Kernel, op: Relational, total: int) -> tuple[Kernel, Kernel]:
    """The reduce within relations and the one across them, as kernels over pairs of a row and a relation."""
    key = ("two products",)
    kept: tuple[Kernel, Kernel] | None = kernel.companions.get(key)
    if kept is not None:
        return kept
    graph = in_edge_order(kernel)
    starts, rows = op.runs(graph.indptr, graph.indices, graph.num_src)
    dtype = graph.indptr.dtype
    bounds = np.append(starts, graph.num_edges).astype(dtype)
    make = type(graph)
    pairs = make(bounds, graph.indices, num_src=graph.num_src, edge_ids=graph.edge_ids)
    of_rows = np.searchsorted(rows, np.arange(graph.num_dst + 1)).astype(dtype)
    across = make(of_rows, np.arange(starts.size, dtype=dtype), num_src=starts.size)
    found = (
        kernel.load_other(pairs, f"{op.message}_{op.reduce}", total),
        kernel.load_other(across, f"copy_u_{op.cross}", total),
    )
    kernel.companions[key] = found
    return found


def _shares(kernel: Kernel, op: Relational) -> Tensor:
    """What every edge's message counts in the output, by edge id: one over the counts that means divide by."""
    key = ("shares",)
    kept: Tensor | None = kernel.companions.get(key)
    if kept is not None:
        return kept
    graph = in_edge_order(kernel)
    starts, rows = op.runs(graph.indptr, graph.indices, graph.num_src)
    sizes = np.diff(starts, append=graph.num_edges)
    of_pair = np.ones(starts.size)
    if op.reduce_op.divides_by_degree:
        of_pair /= sizes
    if op.cross_op.divides_by_degree:
        of_pair /= np.bincount(rows, minlength=graph.num_dst)[rows]
    share = np.repeat(of_pair, sizes)
    found = kernel.companions[key] = torch.from_numpy(graph.from_csr_order(share))
    return found
