"""Operators on rows in segments (`Graph.from_segments`): those of edges, of which a segments graph has one per row."""

from __future__ import annotations

from .sddmm import SDDMM, sddmm
from .spmm import SpMM, spmm


def segment_reduce(reduce: str = "sum") -> SpMM:
    """The operator that reduces the rows of each segment to one; a segment without rows gives 0.

    Its kernel takes ``(w)``, the rows, and reads no indices.

    Shapes
    ------
    w : (rows, F) or (rows, H, D)
    y : (segments, F) or (segments, H, D)

    Examples
    --------
    >>> segment_reduce("mean").name
    'copy_e_mean'

    Raises
    ------
    InputError
        The reduce is not in the registry.
    """
    return spmm("copy_e", reduce)


def gather() -> SDDMM:
    """The operator that gives every row the values of its segment: ``out[r] = lhs[segment of r]``.

    Shapes
    ------
    lhs : (segments, F) or (segments, H, D)
    out : (rows, F) or (rows, H, D)

    Examples
    --------
    >>> gather().name
    'copy_v'
    """
    return sddmm("copy_v")
