"""The oracle: slow, obviously right float64 implementations on numpy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from .spmm import SpMM
from .tolerance import rounding_scale

Float64 = npt.NDArray[np.float64]

# Messages are materialised for this many bytes of edges at a time, so that the oracle also runs on large graphs.
CHUNK_BYTES = 64 << 20


def spmm_reference(
    op: SpMM,
    indptr: npt.NDArray[Any],
    indices: npt.NDArray[Any],
    edge_ids: npt.NDArray[Any] | None,
    x: npt.NDArray[Any] | None,
    w: npt.NDArray[Any] | None = None,
) -> Float64:
    """g-SpMM in float64: gather the messages of some rows, reduce them by row, go on with the next rows.

    Shapes
    ------
    indptr (num_dst + 1,), indices (nnz,), edge_ids (nnz,) or None for CSR order, x (num_src, F) or None for copy_e,
    w (nnz,) or (nnz, W): the value of feature k is in column k // (F / W)

    Returns
    -------
    y : float64 array of shape (num_dst, F); rows without an in-edge are 0
    """
    return _reduced(op, op.message_op.combine, indptr, indices, edge_ids, x, w)


def error_scale(
    op: SpMM,
    indptr: npt.NDArray[Any],
    indices: npt.NDArray[Any],
    edge_ids: npt.NDArray[Any] | None,
    x: npt.NDArray[Any] | None,
    w: npt.NDArray[Any] | None = None,
) -> Float64:
    """Rounding error to allow for each element of `spmm_reference` (see `tolerance.rounding_scale`)."""
    # A max or min is one message, whose rounding is bounded by the largest of the row.
    adds = op.reduce_op.better is None
    sizes = SpMM(op.message, op.reduce if adds else "max")
    combine = op.message_op.magnitude or op.message_op.combine
    absolute = (None if array is None else np.abs(array) for array in (x, w))
    magnitudes = _reduced(sizes, combine, indptr, indices, edge_ids, *absolute)
    return rounding_scale(magnitudes, np.diff(indptr) if adds else np.ones(len(indptr) - 1))


def _reduced(
    op: SpMM,
    combine: Callable[[Any, Any], Any],
    indptr: npt.NDArray[Any],
    indices: npt.NDArray[Any],
    edge_ids: npt.NDArray[Any] | None,
    x: npt.NDArray[Any] | None,
    w: npt.NDArray[Any] | None,
) -> Float64:
    features = np.asarray(x, np.float64) if op.uses_src else None
    values = np.asarray(w, np.float64) if op.uses_edge else None
    if values is not None and values.ndim == 1:
        values = values[:, None]
    feat = features.shape[1] if features is not None else values.shape[1] if values is not None else 0
    degrees = np.diff(indptr)
    out = np.zeros((len(degrees), feat))
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):  # inf and NaN are data here
        for rows in _row_chunks(indptr, feat):
            edges = slice(indptr[rows.start], indptr[rows.stop])
            nonempty = rows.start + np.flatnonzero(degrees[rows])
            if len(nonempty) == 0:
                continue
            u = None if features is None else features[indices[edges]]
            e = None
            if values is not None:
                e = values[edges] if edge_ids is None else values[edge_ids[edges]]
                if e.shape[1] not in (1, feat):
                    e = np.repeat(e, feat // e.shape[1], axis=1)
            # Between the starts of two non-empty rows lie exactly the edges of the first.
            total = op.reduce_op.ufunc.reduceat(combine(u, e), indptr[nonempty] - indptr[rows.start], axis=0)
            out[nonempty] = total / degrees[nonempty, None] if op.reduce_op.divides_by_degree else total
    return out


def _row_chunks(indptr: npt.NDArray[Any], feat: int) -> list[slice]:
    """Consecutive row ranges with about `CHUNK_BYTES` of float64 messages each (one row may have more)."""
    edges_per_chunk = max(1, CHUNK_BYTES // (8 * max(feat, 1)))
    chunk_of_row = indptr[:-1] // edges_per_chunk
    starts = np.flatnonzero(np.diff(chunk_of_row, prepend=-1))
    stops = np.append(starts, len(indptr) - 1)[1:]  # none where there is no row
    return [slice(int(a), int(b)) for a, b in zip(starts, stops, strict=True)]
