"""Gradients of g-SpMM and g-SDDMM."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from ...ops.dims import RowShape, width
from ...ops.sddmm import SDDMM
from ...ops.spmm import SpMM
from .companions import companion, in_edge_order
from .rules import rule

if TYPE_CHECKING:
    from ..kernel import Kernel


@rule("spmm")
def _spmm(
    kernel: Kernel, inputs: list[Tensor], outputs: list[Tensor], grads: list[Tensor], needed: Sequence[bool]
) -> list[Tensor | None]:
    op = kernel.problem.op
    assert isinstance(op, SpMM)
    if op.reduce_op.better is not None:
        # Which edges were selected is found out here: the forward pass need not write and keep it.
        feat, edge_feat = kernel.problem.dims
        selecting = f"{op.message}_{op.reduce}(arg=True)"
        _, arg = companion(kernel, selecting, feat, edge_feat if op.uses_edge else None)(*inputs)
        return _selected(kernel, inputs, arg, grads[0], needed)
    x, w = _x_and_w(op, inputs)
    needs = iter(needed)
    needs_x = op.uses_src and next(needs)
    needs_w = op.uses_edge and next(needs)
    feat, edge_feat = kernel.problem.dims
    gradient = grads[0]
    if op.reduce_op.divides_by_degree:
        degrees = torch.from_numpy(np.maximum(kernel.graph.in_degrees, 1)).to(gradient.dtype)
        gradient = gradient / degrees.reshape(-1, *(1,) * len(feat))
    found: list[Tensor | None] = []
    if op.uses_src:
        found.append(_to_sources(kernel, op, gradient, w) if needs_x else None)
    if op.uses_edge:
        found.append(_to_edges(kernel, op, gradient, x, w, feat, edge_feat) if needs_w else None)
    return found


def _to_sources(kernel: Kernel, op: SpMM, gradient: Tensor, w: Tensor | None) -> Tensor:
    feat, edge_feat = kernel.problem.dims
    if op.message in ("u_mul_e", "u_div_e"):
        result: Tensor = companion(kernel, f"{op.message}_sum", feat, edge_feat, reverse=True)(gradient, w)
    else:
        result = companion(kernel, "copy_u_sum", feat, reverse=True)(gradient)
    return result


def _to_edges(
    kernel: Kernel, op: SpMM, gradient: Tensor, x: Tensor | None, w: Tensor | None, feat: RowShape, edge_feat: RowShape
) -> Tensor:
    if op.message in ("u_mul_e", "u_div_e"):
        assert x is not None
        assert w is not None
        product = _products_by_edge(kernel, x, gradient, feat, edge_feat)
        return product if op.message == "u_mul_e" else -product / (w * w)
    per_edge = _summed_to(gradient, feat, edge_feat)
    row = edge_feat or (1,)
    by_edge: Tensor = companion(kernel, "copy_v", (width(row),))(per_edge.reshape(-1, width(row)))
    by_edge = by_edge.reshape(-1, *edge_feat)
    return -by_edge if op.message == "u_sub_e" else by_edge


def _products_by_edge(kernel: Kernel, x: Tensor, y: Tensor, feat: RowShape, edge_feat: RowShape) -> Tensor:
    """Of x[u] * y[v] for every edge the sums that belong to one edge value each."""
    total, per_edge = width(feat), width(edge_feat)
    if per_edge == total:
        result: Tensor = companion(kernel, "u_mul_v", (total,))(x.reshape(-1, total), y.reshape(-1, total))
    else:
        heads = (total,) if per_edge == 1 else (per_edge, total // per_edge)
        result = companion(kernel, "u_dot_v", heads)(x.reshape(-1, *heads), y.reshape(-1, *heads))
    return result.reshape(-1, *edge_feat)


def _summed_to(array: Tensor, feat: RowShape, edge_feat: RowShape) -> Tensor:
    """(rows, *feat) → (rows, *edge_feat), the sums over what one edge value is broadcast to."""
    total, per_edge = width(feat), width(edge_feat)
    if per_edge == total:
        return array.reshape(-1, *edge_feat)
    return array.reshape(-1, per_edge, total // per_edge).sum(2).reshape(-1, *edge_feat)


def _selected(
    kernel: Kernel, inputs: list[Tensor], arg: Tensor, gradient: Tensor, needed: Sequence[bool]
) -> list[Tensor | None]:
    """Of a max or min: everything flows to the one edge that was selected."""
    op = kernel.problem.op
    assert isinstance(op, SpMM)
    feat, edge_feat = kernel.problem.dims
    total, per_edge = width(feat), width(edge_feat)
    x, w = _x_and_w(op, inputs)
    needs = iter(needed)
    needs_x = op.uses_src and next(needs)
    needs_w = op.uses_edge and next(needs)
    winner = arg.reshape(-1, total).long()
    gradient = torch.where(winner >= 0, gradient.reshape(-1, total), 0)
    winner = winner.clamp(min=0)
    column = torch.arange(total).expand(winner.shape)
    edge_column = column // (total // per_edge) if per_edge else column
    source = _sources(kernel)[winner]
    value: Any = None if w is None else w.reshape(-1, per_edge)[winner, edge_column]
    found: list[Tensor | None] = []
    if op.uses_src:
        assert x is not None
        flow = gradient
        if op.message == "u_mul_e":
            flow = gradient * value
        elif op.message == "u_div_e":
            flow = gradient / value
        found.append(gradient.new_zeros(len(x), total).scatter_add_(0, source, flow) if needs_x else None)
    if op.uses_edge:
        assert w is not None
        if needs_w:
            feature: Any = None if x is None else x.reshape(-1, total)[source, column]
            flow = {
                "copy_e": lambda: gradient,
                "u_add_e": lambda: gradient,
                "u_sub_e": lambda: -gradient,
                "u_mul_e": lambda: gradient * feature,
                "u_div_e": lambda: -gradient * feature / (value * value),
            }[op.message]()
            flat = (winner * per_edge + edge_column).reshape(-1)
            found.append(gradient.new_zeros(w.numel()).scatter_add_(0, flat, flow.reshape(-1)))
        else:
            found.append(None)
    return found


def _sources(kernel: Kernel) -> Tensor:
    """The source of every edge, by the edge ids that `kernel` gives."""
    key = ("sources",)
    found: Tensor | None = kernel.companions.get(key)
    if found is None:
        graph = in_edge_order(kernel)
        found = kernel.companions[key] = torch.from_numpy(graph.from_csr_order(graph.indices).astype(np.int64))
    return found


def _x_and_w(op: SpMM, inputs: list[Tensor]) -> tuple[Tensor | None, Tensor | None]:
    given = iter(inputs)
    return (next(given) if op.uses_src else None, next(given) if op.uses_edge else None)


@rule("sddmm")
def _sddmm(
    kernel: Kernel, inputs: list[Tensor], outputs: list[Tensor], grads: list[Tensor], needed: Sequence[bool]
) -> list[Tensor | None]:
    op = kernel.problem.op
    assert isinstance(op, SDDMM)
    gradient = grads[0]
    if op.combine is None:
        return [_back_to(kernel, op.lhs, gradient)]
    targets = (op.lhs, str(op.rhs))
    found: list[Tensor | None] = []
    for side in (0, 1):
        if not needed[side]:
            found.append(None)
            continue
        target, other_target, other = targets[side], targets[1 - side], inputs[1 - side]
        if op.combine == "dot" and target != "e" and other_target != "e":
            found.append(_dot_back(kernel, target, other, gradient))
            continue
        if op.combine == "add":
            flow = gradient
        elif op.combine == "sub":
            flow = -gradient if side else gradient
        else:
            other_by_edge = _by_edge(kernel, other_target, other)
            if op.combine == "div":
                own = _by_edge(kernel, target, inputs[side]) if side else None
                flow = gradient / other_by_edge if own is None else -gradient * other_by_edge / (own * own)
            else:
                flow = (gradient.unsqueeze(-1) if op.reduces else gradient) * other_by_edge
        found.append(_back_to(kernel, target, flow))
    return found


def _dot_back(kernel: Kernel, target: str, other: Tensor, gradient: Tensor) -> Tensor:
    """Gradient of u · v for one of them: the other, weighted by the edges' gradients."""
    feat = kernel.problem.dims.feat
    weights = (*feat[:-1], 1) if len(feat) > 1 else ()
    product = companion(kernel, "u_mul_e_sum", feat, weights, reverse=target == "u")
    result: Tensor = product(other, gradient.reshape(-1, *weights))
    return result


def _by_edge(kernel: Kernel, target: str, values: Tensor) -> Tensor:
    """A node's or an edge's row for every edge, as wide as `feat` or ready to be broadcast."""
    if target == "e":
        feat = kernel.problem.dims.feat
        return values.reshape(*values.shape, *(1,) * (len(feat) + 1 - values.ndim))
    shape = values.shape[1:]
    rows: Tensor = companion(kernel, f"copy_{target}", (width(tuple(shape)),))(values.reshape(len(values), -1))
    return rows.reshape(-1, *shape)


def _back_to(kernel: Kernel, target: str, flow: Tensor) -> Tensor:
    """What flows back along every edge, summed up at the nodes or to the shape of an edge's values."""
    feat, edge_feat = kernel.problem.dims
    if target == "e":
        return _summed_to(flow, feat, edge_feat)
    total = width(feat)
    summed: Tensor = companion(kernel, "copy_e_sum", (total,), reverse=target == "u")(flow.reshape(-1, total))
    return summed.reshape(-1, *feat)
