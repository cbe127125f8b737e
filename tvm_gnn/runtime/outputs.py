"""Memory of large outputs, used again once the caller has dropped the array: fresh pages cost more than the kernel.

The system gives memory of this size back on every free and clears it, page by page, on every allocation. For an output
of 60 MB that takes several times as long as the SpMM that fills it.
"""

from __future__ import annotations

import math
import sys
import threading
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from ..ops.dtypes import itemsize_of, numpy_dtype
from .addresses import address_of

ALIGN_BYTES = 64
# The C library keeps smaller blocks itself.
RECYCLE_FROM_BYTES = 1 << 20
# Outputs that are alive at once (one per layer of a model) each need their own.
_MOST_BLOCKS = 4

# An array and the address of its first element.
Placed: TypeAlias = tuple[Any, int]


class OutputMemory:
    """Uninitialised output arrays for one kernel; keeps at most four large blocks for as long as the kernel lives.

    A block is handed out again only when nothing refers to it any more: the arrays handed out, their views, torch
    tensors and DLPack capsules made of them all hold a reference to its memory.
    """

    def __init__(self) -> None:
        self._blocks: list[npt.NDArray[np.uint8]] = []
        self._lock = threading.Lock()

    def empty(self, shape: tuple[int, ...], dtype: str) -> Placed:
        """An array of this shape and dtype, aligned to a cache line, and its address."""
        size = _bytes(shape, dtype) + ALIGN_BYTES
        # Never waits: the holder may be the call that a signal handler interrupted, or have stayed behind at a fork.
        if not self._lock.acquire(blocking=False):
            return _aligned_within(np.empty(size, np.uint8), shape, dtype)
        try:
            return _aligned_within(self._take(size), shape, dtype)
        finally:
            self._lock.release()

    def _take(self, size: int) -> npt.NDArray[np.uint8]:
        for index in range(len(self._blocks)):
            # One reference is the list's, one the call's argument.
            if sys.getrefcount(self._blocks[index]) == 2 and self._blocks[index].size == size:
                return self._blocks[index]
        block = np.empty(size, np.uint8)
        if len(self._blocks) < _MOST_BLOCKS:
            self._blocks.append(block)
        return block


def is_recycled(shape: tuple[int, ...], dtype: str) -> bool:
    """Whether an output of this size is worth an `OutputMemory`."""
    return _bytes(shape, dtype) >= RECYCLE_FROM_BYTES


def aligned_empty(shape: tuple[int, ...], dtype: str) -> Placed:
    """A fresh uninitialised array and its address; numpy itself aligns to 16 bytes, where a wide store may straddle two
    cache lines."""
    return _aligned_within(np.empty(_bytes(shape, dtype) + ALIGN_BYTES, np.uint8), shape, dtype)


def _bytes(shape: tuple[int, ...], dtype: str) -> int:
    return math.prod(shape) * itemsize_of(dtype)


def _aligned_within(block: npt.NDArray[np.uint8], shape: tuple[int, ...], dtype: str) -> Placed:
    address = address_of(block)
    start = -address % ALIGN_BYTES
    return np.ndarray(shape, numpy_dtype(dtype), block, start), address + start
