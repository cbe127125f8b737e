"""The oracle: slow, obviously right float64 implementations on numpy."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .dtypes import DTYPES, arithmetic_dtype
from .messages import REDUCES, Message, Reduce
from .tolerance import rounding_scale

if TYPE_CHECKING:
    from .spmm import SpMM

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
    return _reduced(op.message_op, op.reduce_op, op.message_op.combine, indptr, indices, edge_ids, x, w)


def spmm_error_scale(
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
    reduce = op.reduce_op if adds else REDUCES["max"]
    combine = op.message_op.magnitude or op.message_op.combine
    absolute = (None if array is None else np.abs(array) for array in (x, w))
    magnitudes = _reduced(op.message_op, reduce, combine, indptr, indices, edge_ids, *absolute)
    return rounding_scale(magnitudes, np.diff(indptr) if adds else np.ones(len(indptr) - 1))


def spmm_arg_reference(
    op: SpMM,
    indptr: npt.NDArray[Any],
    indices: npt.NDArray[Any],
    edge_ids: npt.NDArray[Any] | None,
    x: npt.NDArray[Any] | None,
    w: npt.NDArray[Any] | None = None,
) -> npt.NDArray[np.int64]:
    """The edge that a max or min selects for each element: the first in CSR order whose message is the result.

    Messages are computed in the arithmetic of the inputs' dtype: rounding makes some equal that differ in float64.

    Returns
    -------
    arg : int64 array of shape (num_dst, F); edge ids, positions in CSR order without `edge_ids`, -1 in empty rows
    """
    used = (x if op.uses_src else None, w if op.uses_edge else None)
    dtype = np.result_type(*(_arithmetic(array) for array in used if array is not None))
    out = np.full((len(indptr) - 1, _feat(*used)), -1, np.int64)
    for chunk in _chunks(op.message_op, op.message_op.combine, indptr, indices, edge_ids, *used, dtype):
        best = np.repeat(op.reduce_op.ufunc.reduceat(chunk.messages, chunk.starts, axis=0), chunk.degrees, axis=0)
        # NaN wins over numbers, so that a row with one has no other result.
        selected = (chunk.messages == best) | np.isnan(chunk.messages)
        positions = chunk.first_edge + np.arange(len(chunk.messages))[:, None]
        first = np.minimum.reduceat(np.where(selected, positions, len(indices)), chunk.starts, axis=0)
        out[chunk.rows] = first if edge_ids is None else edge_ids[first]
    return out


class _Chunk(NamedTuple):
    """Messages of all edges of some non-empty rows, those of row ``rows[i]`` from ``starts[i]`` on."""

    rows: npt.NDArray[Any]
    starts: npt.NDArray[Any]
    degrees: npt.NDArray[Any]
    first_edge: int
    messages: npt.NDArray[Any]


def _reduced(
    message: Message,
    reduce: Reduce,
    combine: Callable[[Any, Any], Any],
    indptr: npt.NDArray[Any],
    indices: npt.NDArray[Any],
    edge_ids: npt.NDArray[Any] | None,
    x: npt.NDArray[Any] | None,
    w: npt.NDArray[Any] | None,
) -> Float64:
    out = np.zeros((len(indptr) - 1, _feat(x if message.uses_src else None, w)))
    with np.errstate(invalid="ignore", over="ignore"):  # inf and NaN are data here
        for chunk in _chunks(message, combine, indptr, indices, edge_ids, x, w):
            total = reduce.ufunc.reduceat(chunk.messages, chunk.starts, axis=0)
            out[chunk.rows] = total / chunk.degrees[:, None] if reduce.divides_by_degree else total
    return out


def _chunks(
    message: Message,
    combine: Callable[[Any, Any], Any],
    indptr: npt.NDArray[Any],
    indices: npt.NDArray[Any],
    edge_ids: npt.NDArray[Any] | None,
    x: npt.NDArray[Any] | None,
    w: npt.NDArray[Any] | None,
    dtype: npt.DTypeLike = np.float64,
) -> Iterator[_Chunk]:
    features = np.asarray(x, dtype) if message.uses_src else None
    values = np.asarray(w, dtype) if message.uses_edge else None
    if values is not None and values.ndim == 1:
        values = values[:, None]
    feat = _feat(features, values)
    degrees = np.diff(indptr)
    for rows in row_chunks(indptr, feat):
        edges = slice(int(indptr[rows.start]), int(indptr[rows.stop]))
        nonempty = rows.start + np.flatnonzero(degrees[rows])
        if len(nonempty) == 0:
            continue
        u = None if features is None else features[indices[edges]]
        e = None
        if values is not None:
            e = values[edges] if edge_ids is None else values[edge_ids[edges]]
            if e.shape[1] not in (1, feat):
                e = np.repeat(e, feat // e.shape[1], axis=1)
        with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
            messages = combine(u, e)
        # Between the starts of two non-empty rows lie exactly the edges of the first.
        yield _Chunk(nonempty, indptr[nonempty] - edges.start, degrees[nonempty], edges.start, messages)


def _arithmetic(array: npt.NDArray[Any]) -> str:
    name = array.dtype.name
    return arithmetic_dtype(name) if name in DTYPES else "float64"


def _feat(x: npt.NDArray[Any] | None, w: npt.NDArray[Any] | None) -> int:
    """Width of the messages."""
    widest = x if x is not None else w
    return 0 if widest is None else 1 if widest.ndim == 1 else widest.shape[1]


def row_chunks(indptr: npt.NDArray[Any], feat: int) -> list[slice]:
    """Consecutive row ranges with about `CHUNK_BYTES` of float64 messages each (one row may have more)."""
    edges_per_chunk = max(1, CHUNK_BYTES // (8 * max(feat, 1)))
    chunk_of_row = indptr[:-1] // edges_per_chunk
    starts = np.flatnonzero(np.diff(chunk_of_row, prepend=-1))
    stops = np.append(starts, len(indptr) - 1)[1:]  # none where there is no row
    return [slice(int(a), int(b)) for a, b in zip(starts, stops, strict=True)]
