"""References around the k largest of a row: which columns they are, and g-SpMM over rows compressed to them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from .operand import Structure

Float64 = npt.NDArray[np.float64]

# What is gathered of some rows or edges at a time, so that the oracle also runs on large graphs.
_CHUNK_BYTES = 64 << 20


def largest_first(x: Float64) -> npt.NDArray[np.int64]:
    """Positions along the last axis from the largest value to the smallest; NaN first, of equal values the lower."""
    # The last key is the first to be compared by; -0.0 and 0.0 compare equal, and the sort is stable.
    order: npt.NDArray[np.int64] = np.lexsort((-x, ~np.isnan(x)), axis=-1)
    return order


def top_columns(x: Float64, k: int) -> npt.NDArray[np.int64]:
    """Columns of the k largest of each row, ascending: (rows, F) → (rows, k)."""
    columns = np.zeros((len(x), k), np.int64)
    for rows in _chunks(len(x), x.shape[1]):
        columns[rows] = np.sort(largest_first(x[rows])[:, :k], axis=1)
    return columns


def compressed_spmm(
    graph: Structure, values: Float64, columns: npt.NDArray[Any], w: npt.NDArray[Any] | None, feat: int
) -> Float64:
    """Sum over e = (u → v) of w[e] * values[u], each value in its column.

    Shapes
    ------
    values, columns (num_src, k), w (num_edges, 1) or None → (num_dst, feat)
    """
    num_dst, k = len(graph.indptr) - 1, values.shape[1]
    rows = np.repeat(np.arange(num_dst), np.diff(graph.indptr))
    total = np.zeros(num_dst * feat)
    for edges in _chunks(len(rows), k):
        sources = graph.indices[edges]
        messages = values[sources]
        if w is not None:
            with np.errstate(invalid="ignore", over="ignore"):  # inf and NaN are data here
                messages = messages * edge_values(graph, w)[edges]
        places = rows[edges, None] * feat + columns[sources]
        with np.errstate(invalid="ignore", over="ignore"):
            total += np.bincount(places.ravel(), messages.ravel(), num_dst * feat)
    return total.reshape(num_dst, feat)


def compressed_sddmm(graph: Structure, gy: Float64, columns: npt.NDArray[Any], w: npt.NDArray[Any] | None) -> Float64:
    """Sum over e = (v → u) of w[e] * gy[v], of which each row u takes its own columns.

    Shapes
    ------
    gy (num_src, feat), columns (num_dst, k), w (num_edges, 1) or None → (num_dst, k)
    """
    num_dst, k = columns.shape
    rows = np.repeat(np.arange(num_dst), np.diff(graph.indptr))
    total = np.zeros((num_dst, k))
    for edges in _chunks(len(rows), k):
        messages = gy[graph.indices[edges, None], columns[rows[edges]]]
        with np.errstate(invalid="ignore", over="ignore"):
            if w is not None:
                messages = messages * edge_values(graph, w)[edges]
            np.add.at(total, rows[edges], messages)
    return total


def edge_values(graph: Structure, w: npt.NDArray[Any]) -> Float64:
    """Edge values in CSR order, shape (num_edges, 1)."""
    in_order = w if graph.edge_ids is None else w[graph.edge_ids]
    return np.asarray(in_order, np.float64).reshape(-1, 1)


def _chunks(rows: int, width: int) -> Iterator[slice]:
    step = max(1, _CHUNK_BYTES // (8 * max(width, 1)))
    return (slice(start, start + step) for start in range(0, rows, step))
