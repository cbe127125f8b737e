"""Sorting edges into canonical CSR: rows are destinations, sources ascend, parallel edges keep the caller's order."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .validate import IntArray

Order = NDArray[np.intp]


def stable_order(ids: IntArray, order: Order | None = None) -> Order:
    """Positions that sort `ids` (none negative) stably, starting from `order` instead of 0, 1, 2, ….

    Radix sort on 16-bit digits, numpy's linear-time stable sort: O(E) time and two E-long temporaries whatever the
    number of nodes, where a counting sort would need memory for every node.
    """
    top = int(ids.max()) if ids.size else 0
    shift = 0
    while True:
        current = ids if order is None else ids[order]
        digit = (current >> shift).astype(np.uint16)
        step = np.argsort(digit, kind="stable")
        order = step if order is None else order[step]
        shift += 16
        if top >> shift == 0:
            return order


def csr_from_coo(
    src: IntArray, dst: IntArray, num_dst: int, dtype: np.dtype[Any]
) -> tuple[IntArray, IntArray, IntArray | None]:
    """`indptr`, `indices` and `edge_ids` of a validated edge list; `edge_ids` is None when it is in CSR order already.

    The arrays returned never share memory with `src` and `dst`.
    """
    indptr = _indptr(dst, num_dst, dtype)
    if _is_sorted(src, dst):
        return indptr, src.astype(dtype), None
    order = stable_order(dst, stable_order(src))
    return indptr, src[order].astype(dtype, copy=False), order.astype(dtype, copy=False)


def csr_from_rows(
    indptr: IntArray, indices: IntArray, dtype: np.dtype[Any]
) -> tuple[IntArray, IntArray, IntArray | None]:
    """The same from a validated CSR whose rows may be unsorted; the arrays returned are copies."""
    if _rows_sorted(indptr, indices):
        return indptr.astype(dtype), indices.astype(dtype), None
    order = stable_order(rows_of(indptr, dtype), stable_order(indices))
    return indptr.astype(dtype), indices[order].astype(dtype, copy=False), order.astype(dtype, copy=False)


def transpose(
    indptr: IntArray, indices: IntArray, edge_ids: IntArray | None, num_src: int
) -> tuple[IntArray, IntArray, IntArray | None]:
    """CSR of the reversed edges; its `edge_ids` refer to the same caller order as the ones given."""
    dtype = indptr.dtype
    # CSR order lists every source's destinations in ascending order, so one stable sort by source is enough.
    order = stable_order(indices)
    caller = order.astype(dtype, copy=False) if edge_ids is None else edge_ids[order]
    return _indptr(indices, num_src, dtype), rows_of(indptr, dtype)[order], None if _is_identity(caller) else caller


def rows_of(indptr: IntArray, dtype: np.dtype[Any]) -> IntArray:
    """The row of every position, shape (num_edges,)."""
    return np.repeat(np.arange(indptr.size - 1, dtype=dtype), np.diff(indptr).astype(np.int64, copy=False))


def _indptr(rows: IntArray, num_rows: int, dtype: np.dtype[Any]) -> IntArray:
    indptr = np.zeros(num_rows + 1, dtype)
    indptr[1:] = np.cumsum(np.bincount(rows.astype(np.int64, copy=False), minlength=num_rows))
    return indptr


def _is_sorted(src: IntArray, dst: IntArray) -> bool:
    same_row = dst[1:] == dst[:-1]
    return bool(np.all((dst[1:] > dst[:-1]) | (same_row & (src[1:] >= src[:-1]))))


def _rows_sorted(indptr: IntArray, indices: IntArray) -> bool:
    ascending = indices[1:] >= indices[:-1]
    # A new row may start lower: the pair (p - 1, p) across a row start p is no fault.
    starts = indptr[1:-1]
    starts = starts[(starts > 0) & (starts < indices.size)].astype(np.int64, copy=False)
    ascending[starts - 1] = True
    return bool(ascending.all())


def _is_identity(order: IntArray) -> bool:
    return bool(np.array_equal(order, np.arange(order.size, dtype=order.dtype)))
