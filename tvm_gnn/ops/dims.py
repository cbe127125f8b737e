"""Shapes of one row of an operand: a feature width, or heads by a width per head."""

from __future__ import annotations

import math
from typing import Any, TypeAlias

from ..arguments import integer
from ..errors import InputError

# () is one number per row, (F,) a vector, (H, D) a vector per head.
RowShape: TypeAlias = tuple[int, ...]

# Loops over features have 32-bit extents.
_LARGEST = 2**31 - 1


def feature_shape(feat: Any) -> RowShape:
    """``feat`` of the public functions as a shape: ``64`` is (64,), ``(4, 16)`` itself.

    Raises
    ------
    InputTypeError
        Neither an integer nor a pair of them.
    InputError
        Negative, or more than 2**31 - 1 numbers per row.
    """
    parts = feat if isinstance(feat, tuple | list) else (feat,)
    if len(parts) not in (1, 2):
        raise InputError(f"feat: must be a width F or a pair (heads, width) (got {feat!r}).")
    shape = tuple(_size("feat", part) for part in parts)
    _check_width("feat", shape)
    return shape


def edge_shape(edge_feat: Any, feat: RowShape) -> RowShape:
    """``edge_feat`` as a shape that broadcasts over `feat`: one value per edge, one per head, or one per feature.

    Raises
    ------
    InputTypeError, InputError
        Not a shape, or one that does not broadcast.
    """
    parts = edge_feat if isinstance(edge_feat, tuple | list) else (edge_feat,)
    shape = tuple(_size("edge_feat", part) for part in parts)
    per_head = (*feat[:-1], 1)
    if shape not in ((), (1,), (1,) * len(feat), per_head, feat):
        allowed = ", ".join(map(str, dict.fromkeys(((), per_head, feat))))
        raise InputError(f"edge_feat: must be one of {allowed} for feat {feat} (got {shape}).")
    return shape


def width(shape: RowShape) -> int:
    """Numbers in a row of this shape."""
    return math.prod(shape)


def _size(name: str, value: Any) -> int:
    size = integer(name, value, "an integer or a pair of them")
    if size < 0:
        raise InputError(f"{name}: must be at least 0 (got {size}).")
    return size


def _check_width(name: str, shape: RowShape) -> None:
    if width(shape) > _LARGEST:
        raise InputError(f"{name}: must be at most {_LARGEST} numbers per row (got {width(shape)}).")
