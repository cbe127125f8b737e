"""Memory that shows what a kernel did to it: poisoned surroundings, odd addresses, guard pages."""

from __future__ import annotations

import ctypes
import math
import mmap
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..ops.dtypes import itemsize_of, numpy_dtype

_MARGIN_BYTES = 1024
# All bits set: NaN as a float, -1 as an index. Whoever reads outside an array gets something that shows.
_POISON = 0xFF


def at_offset(array: NDArray[Any], offset_bytes: int) -> NDArray[Any]:
    """A read-only copy at an address that is `offset_bytes` past a multiple of 64, with poison on both sides."""
    copy = Guarded(array.shape, array.dtype.name, offset_bytes).array
    copy[...] = array
    copy.flags.writeable = False
    return copy


class Guarded:
    """An array between guard zones, at a chosen address modulo 64.

    Parameters
    ----------
    shape : tuple of int
    dtype : str
    offset_bytes : int
        The address is this much past a multiple of 64; a multiple of the item size keeps it element-aligned.

    Attributes
    ----------
    array : array of that shape, every byte 0xFF (NaN for floats)
    """

    def __init__(self, shape: tuple[int, ...], dtype: str, offset_bytes: int = 0) -> None:
        size_bytes = math.prod(shape) * itemsize_of(dtype)
        memory = np.full(size_bytes + 2 * _MARGIN_BYTES + 128, _POISON, np.uint8)
        start = _MARGIN_BYTES + -(memory.ctypes.data + _MARGIN_BYTES) % 64 + offset_bytes
        self._before, self._after = memory[:start], memory[start + size_bytes :]
        self.array: NDArray[Any] = memory[start : start + size_bytes].view(numpy_dtype(dtype)).reshape(shape)

    def reset(self) -> None:
        """Set every byte of the array to 0xFF again."""
        self.array.reshape(-1).view(np.uint8).fill(_POISON)

    def intact(self) -> bool:
        """Whether no byte around the array was written."""
        return bool((self._before == _POISON).all() and (self._after == _POISON).all())


class GuardPage:
    """A copy of an array that touches a page which must not be accessed; going past it is a segmentation fault.

    Parameters
    ----------
    array : array
    side : {"before", "after"}
        Which side the forbidden page is on.

    Attributes
    ----------
    array : the copy
    """

    def __init__(self, array: NDArray[Any], side: str) -> None:
        page = mmap.PAGESIZE
        inner_bytes = max(page, -(-array.nbytes // page) * page)
        self._map = mmap.mmap(-1, inner_bytes + page)
        memory = np.frombuffer(self._map, np.uint8)
        forbidden = memory.ctypes.data + (0 if side == "before" else inner_bytes)
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.mprotect(ctypes.c_void_p(forbidden), ctypes.c_size_t(page), 0) != 0:
            raise OSError(ctypes.get_errno(), "mprotect")
        start = page if side == "before" else inner_bytes - array.nbytes
        self.array: NDArray[Any] = memory[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
        self.array[...] = array
