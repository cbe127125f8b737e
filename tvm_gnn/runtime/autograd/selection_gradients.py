"""Gradients of what selects: MaxK and sort pooling. What was not selected gets none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from ...ops.maxk import MaxK, MaxKBackward
from .companions import companion
from .rules import rule

if TYPE_CHECKING:
    from ..kernel import Kernel


@rule("maxk", keeps_outputs=True)
def _maxk(
    kernel: Kernel, inputs: list[Tensor], outputs: list[Tensor], grads: list[Tensor], needed: Sequence[bool]
) -> list[Tensor | None]:
    op = kernel.problem.op
    assert isinstance(op, MaxK)
    _, values, columns = outputs
    gradient = grads[0]
    if op.reduce_op.divides_by_degree:
        degrees = torch.from_numpy(np.maximum(kernel.graph.in_degrees, 1)).to(gradient.dtype)
        gradient = gradient / degrees[:, None]
    feat = kernel.problem.dims.feat
    found: list[Tensor | None] = [None]
    if needed[0]:
        to_kept = companion(kernel, op.backward.name, feat, reverse=True)(gradient, columns, *inputs[1:])
        found[0] = _spread(to_kept + grads[1], columns, feat[0])
    if op.uses_edges:
        kept = _spread(values, columns, feat[0])
        found.append(companion(kernel, "u_dot_v", feat)(kept, gradient) if needed[1] else None)
    return found


@rule("maxk_backward")
def _maxk_backward(
    kernel: Kernel, inputs: list[Tensor], outputs: list[Tensor], grads: list[Tensor], needed: Sequence[bool]
) -> list[Tensor | None]:
    op = kernel.problem.op
    assert isinstance(op, MaxKBackward)
    gy, columns, *w = inputs
    feat = kernel.problem.dims.feat
    gradient = _spread(grads[0], columns, feat[0])
    found: list[Tensor | None] = [None, None]
    if needed[0]:
        found[0] = companion(kernel, f"{op.message}_sum", feat, reverse=True)(gradient, *w)
    if op.uses_edges:
        found.append(companion(kernel, "u_dot_v", feat)(gy, gradient) if needed[2] else None)
    return found


def _spread(kept: Tensor, columns: Tensor, feat: int) -> Tensor:
    """Compressed rows (rows, k) as rows (rows, feat), zero where nothing was kept."""
    return kept.new_zeros(len(kept), feat).scatter_(1, columns.long(), kept)


@rule("sort_pool", keeps_outputs=True)
def _sort_pool(
    kernel: Kernel, inputs: list[Tensor], outputs: list[Tensor], grads: list[Tensor], needed: Sequence[bool]
) -> list[Tensor | None]:
    rows = outputs[1].long()
    taken: Any = rows >= 0
    gradient = torch.zeros_like(inputs[0])
    gradient[rows[taken]] = grads[0][taken]
    return [gradient]
