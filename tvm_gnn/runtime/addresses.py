"""Address of a numpy array's first element, in a sixth of the time that numpy's own attributes take.

`ndarray.ctypes` and ``__array_interface__`` build objects for every question, 1 µs each, as much as calling a kernel
costs otherwise. The C struct of an array starts with Python's object header and the data pointer, fixed by numpy's ABI
(`PyArrayObject_fields` of ndarraytypes.h); it is read directly where a probe shows that it lies there.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

_DATA_OFFSET = object.__basicsize__


def _from_struct(array: Any) -> int:
    return ctypes.c_void_p.from_address(id(array) + _DATA_OFFSET).value or 0


def _from_interface(array: Any) -> int:
    address: int = array.__array_interface__["data"][0]  # also for read-only arrays
    return address


def _is_readable() -> bool:
    if sys.implementation.name != "cpython":  # elsewhere an id is no address
        return False
    whole = np.empty(3, np.uint8)
    return all(_from_struct(array) == _from_interface(array) for array in (whole, whole[1:], np.broadcast_to(whole, 3)))


address_of: Callable[[Any], int] = _from_struct if _is_readable() else _from_interface
