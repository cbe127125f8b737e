"""The oracle: slow, obviously right float64 implementations on numpy."""

from __future__ import annotations

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
    x: npt.NDArray[Any],
    w: npt.NDArray[Any] | None = None,
) -> Float64:
    """g-SpMM in float64: gather the messages of some rows, reduce them by row, go on with the next rows.

    Shapes
    ------
    indptr (num_dst + 1,), indices (nnz,), edge_ids (nnz,) or None for CSR order, x (num_src, F), w (nnz,)

    Returns
    -------
    y : float64 array of shape (num_dst, F); rows without an in-edge are 0
    """
    features = np.asarray(x, np.float64)
    weights = None if w is None or not op.uses_edge else np.asarray(w, np.float64)
    if weights is not None and edge_ids is not None:
        weights = weights[edge_ids]
    degrees = np.diff(indptr)
    out = np.zeros((len(degrees), features.shape[1]))
    with np.errstate(invalid="ignore", over="ignore"):  # inf and NaN are data here
        for rows in _row_chunks(indptr, features.shape[1]):
            edges = slice(indptr[rows.start], indptr[rows.stop])
            nonempty = rows.start + np.flatnonzero(degrees[rows])
            if len(nonempty) == 0:
                continue
            e = None if weights is None else weights[edges, None]
            messages = op.message_op.combine(features[indices[edges]], e)
            # Between the starts of two non-empty rows lie exactly the edges of the first.
            total = np.add.reduceat(messages, indptr[nonempty] - indptr[rows.start], axis=0)
            out[nonempty] = total / degrees[nonempty, None] if op.reduce_op.divides_by_degree else total
    return out


def error_scale(
    op: SpMM,
    indptr: npt.NDArray[Any],
    indices: npt.NDArray[Any],
    edge_ids: npt.NDArray[Any] | None,
    x: npt.NDArray[Any],
    w: npt.NDArray[Any] | None = None,
) -> Float64:
    """Rounding error to allow for each element of `spmm_reference` (see `tolerance.rounding_scale`)."""
    magnitudes = spmm_reference(op, indptr, indices, edge_ids, np.abs(x), None if w is None else np.abs(w))
    return rounding_scale(magnitudes, np.diff(indptr))


def _row_chunks(indptr: npt.NDArray[Any], feat: int) -> list[slice]:
    """Consecutive row ranges with about `CHUNK_BYTES` of float64 messages each (one row may have more)."""
    edges_per_chunk = max(1, CHUNK_BYTES // (8 * max(feat, 1)))
    chunk_of_row = indptr[:-1] // edges_per_chunk
    starts = np.flatnonzero(np.diff(chunk_of_row, prepend=-1))
    stops = np.append(starts, len(indptr) - 1)[1:]  # none where there is no row
    return [slice(int(a), int(b)) for a, b in zip(starts, stops, strict=True)]
