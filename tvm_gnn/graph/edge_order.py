"""Edge values between the caller's edge order and CSR order, numpy or torch."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import GraphError
from .validate import IntArray, is_tensor


def gather_edges(values: Any, order: IntArray | None, num_edges: int) -> Any:
    """``values[order]`` along the first axis; `values` itself when `order` is None.

    Raises
    ------
    GraphError
        The first axis is not `num_edges` long.
    """
    if not is_tensor(values):
        values = np.asarray(values)
    if values.ndim == 0 or values.shape[0] != num_edges:
        raise GraphError(
            f"values: the first axis must be the {num_edges} edges of the graph (got shape {tuple(values.shape)})."
        )
    if order is None:
        return values
    if not is_tensor(values):
        return np.take(values, order, axis=0)
    import torch

    # torch.tensor copies: sharing a read-only array with torch would let a caller write through it.
    return values.index_select(0, torch.tensor(order, device=values.device))


def inverse_order(order: IntArray) -> IntArray:
    """The permutation that undoes `order`."""
    inverse = np.empty_like(order)
    inverse[order] = np.arange(order.size, dtype=order.dtype)
    return inverse
