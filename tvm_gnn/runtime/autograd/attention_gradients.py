"""Gradients of edge softmax and of attention layers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ...ops.attention import GAT, Attention, heads_of
from .companions import companion
from .rules import rule

if TYPE_CHECKING:
    from ..kernel import Kernel


@rule("edge_softmax", keeps_outputs=True)
def _edge_softmax(
    kernel: Kernel, inputs: list[Tensor], outputs: list[Tensor], grads: list[Tensor], needed: Sequence[bool]
) -> list[Tensor | None]:
    heads = kernel.problem.outputs[0].width
    weights, gradient = outputs[0].reshape(-1, heads), grads[0].reshape(-1, heads)
    return [through_softmax(kernel, weights, gradient)]


@rule("gat")
@rule("gatv2")
def _attention(
    kernel: Kernel, inputs: list[Tensor], outputs: list[Tensor], grads: list[Tensor], needed: Sequence[bool]
) -> list[Tensor | None]:
    """The softmax is computed once more: keeping it from the forward pass would take memory for every edge."""
    op = kernel.problem.op
    assert isinstance(op, Attention)
    heads, width = heads_of(kernel.problem.dims)
    shape = (heads, width)
    z = inputs[0].reshape(-1, *shape)
    gradient = grads[0].reshape(-1, *shape)
    softmax = companion(kernel, type(op)(op.negative_slope, attention=True).name, kernel.problem.dims.feat)
    weights = softmax(*inputs)[1]
    found: list[Tensor | None] = [None] * 3
    if needed[0]:
        found[0] = companion(kernel, "u_mul_e_sum", shape, (heads, 1), reverse=True)(gradient, weights)
    if isinstance(op, GAT) and not any(needed[1:]):
        return found
    of_weights = companion(kernel, "u_dot_v", shape)(z, gradient)
    if op.attention:
        of_weights = of_weights + grads[1].reshape(-1, heads)
    of_scores = through_softmax(kernel, weights, of_weights)
    if isinstance(op, GAT):
        return [found[0], *_gat_scores(kernel, op, inputs, of_scores, needed)]
    return _gatv2_scores(kernel, op, inputs, of_scores, needed, found[0])


def through_softmax(kernel: Kernel, weights: Tensor, gradient: Tensor) -> Tensor:
    """Gradient of the logits: weights * (gradient - the row's sum of weights * gradient), all (num_edges, H)."""
    heads = weights.shape[1]
    weighted = weights * gradient
    sums = companion(kernel, "copy_e_sum", (heads,))(weighted)
    shared: Tensor = companion(kernel, "v_mul_e", (heads,))(sums, weights)
    return weighted.sub_(shared)


def _gat_scores(
    kernel: Kernel, op: GAT, inputs: list[Tensor], of_scores: Tensor, needed: Sequence[bool]
) -> list[Tensor | None]:
    heads = of_scores.shape[1]
    before = companion(kernel, "u_add_v", (heads,))(*(each.reshape(-1, heads) for each in inputs[1:]))
    flow = torch.where(before > 0, of_scores, of_scores * op.negative_slope)
    return [
        companion(kernel, "copy_e_sum", (heads,), reverse=reverse)(flow) if wanted else None
        for reverse, wanted in zip((True, False), needed[1:], strict=True)
    ]


def _gatv2_scores(
    kernel: Kernel,
    op: Attention,
    inputs: list[Tensor],
    of_scores: Tensor,
    needed: Sequence[bool],
    of_z: Tensor | None,
) -> list[Tensor | None]:
    heads, width = heads_of(kernel.problem.dims)
    shape = (heads, width)
    z_src, z_dst, attn = (each.reshape(-1, *shape) for each in inputs)
    before = companion(kernel, "u_add_v", shape)(z_src, z_dst)
    slope = torch.where(before > 0, 1.0, op.negative_slope).to(before.dtype)
    per_edge = of_scores.unsqueeze(-1)
    flow = per_edge * attn * slope
    total = (heads * width,)
    found: list[Tensor | None] = [None] * 3
    if needed[0]:
        back = companion(kernel, "copy_e_sum", total, reverse=True)(flow.reshape(-1, *total)).reshape(-1, *shape)
        found[0] = back if of_z is None else of_z + back
    if needed[1]:
        found[1] = companion(kernel, "copy_e_sum", total)(flow.reshape(-1, *total))
    if needed[2]:
        found[2] = (per_edge * slope * before).sum(0)
    return found
