"""Dtypes of values: what each is computed in, how it is rounded, and what it is in numpy; the one table of them."""

from __future__ import annotations

import sys
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..errors import DependencyError, InputError


class Dtype(NamedTuple):
    """What is known of a dtype.

    Attributes
    ----------
    itemsize : int
        Bytes.
    arithmetic : str
        The dtype of every operation and every sum; results are rounded to the dtype itself once, when they are stored.
    """

    itemsize: int
    arithmetic: str


_TABLE = {
    "float32": Dtype(4, "float32"),
    "float64": Dtype(8, "float64"),
    "float16": Dtype(2, "float32"),
    "bfloat16": Dtype(2, "float32"),
}
DTYPES = tuple(_TABLE)


def check_dtype(dtype: Any) -> None:
    """Raise `InputError` for what is no dtype of values."""
    if not isinstance(dtype, str) or dtype not in _TABLE:
        raise InputError(f"dtype: must be one of {', '.join(DTYPES)} (got {dtype!r}).")


def dtype_name(dtype: Any) -> Any:
    """The name of a dtype given as numpy's or torch's (``np.float32``, ``np.dtype``, ``torch.bfloat16``).

    Anything else is returned as it is, for `check_dtype` to refuse.
    """
    if isinstance(dtype, np.dtype):
        return dtype.name
    if isinstance(dtype, type) and issubclass(dtype, np.generic):
        return np.dtype(dtype).name
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(dtype, torch.dtype):
        return str(dtype).removeprefix("torch.")
    return dtype


def is_not_computed(dtype: str) -> bool:
    """Whether this names a dtype of integers, truth values or complex numbers."""
    return dtype.startswith(("int", "uint", "bool", "complex"))


def itemsize_of(dtype: str) -> int:
    """Bytes of a value or an index."""
    return _TABLE[dtype].itemsize if dtype in _TABLE else np.dtype(dtype).itemsize


def arithmetic_dtype(dtype: str) -> str:
    """The dtype that values of this one are computed and summed in."""
    return _TABLE[dtype].arithmetic


def largest_number(dtype: str) -> float:
    """The largest finite number of a dtype."""
    # bfloat16 has the exponents of float32, and the upper half of its bits.
    return (2 - 2.0**-7) * 2.0**127 if dtype == "bfloat16" else float(np.finfo(dtype).max)


@cache
def numpy_dtype(dtype: str) -> np.dtype[Any]:
    """The numpy dtype of that name.

    Raises
    ------
    DependencyError
        It is bfloat16, which numpy itself lacks, and the package that adds it is not installed.
    """
    if dtype != "bfloat16":
        return np.dtype(dtype)
    try:
        import ml_dtypes
    except ImportError:
        raise DependencyError(
            "bfloat16: numpy arrays of it need the package ml_dtypes (not installed). Install it or pass torch tensors."
        ) from None
    half: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)
    return half


def storage_dtype(dtype: str) -> str:
    """A dtype of numpy's own for the same bytes, in which arrays can be saved and shared with torch."""
    return "int16" if dtype == "bfloat16" else dtype


def rounded(values: npt.NDArray[np.float64], dtype: str) -> npt.NDArray[Any]:
    """Float64 results as a kernel gives them: in the arithmetic's precision, then rounded to nearest even."""
    with np.errstate(over="ignore"):  # what passes the largest number is infinite
        return values.astype(arithmetic_dtype(dtype)).astype(numpy_dtype(dtype))
