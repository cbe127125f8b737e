"""What callers give, as the plain values that the rest of the package works with."""

from __future__ import annotations

import operator
import reprlib
from typing import Any

from .errors import InputTypeError


def integer(name: str, value: Any, rule: str = "an integer") -> int:
    """A plain int from any integer, numpy's included; raises `InputTypeError` for a bool and anything else.

    Examples
    --------
    >>> import numpy as np
    >>> integer("trials", np.int64(3))
    3
    """
    # numpy's bool has an index in old versions.
    if not isinstance(value, bool) and type(value).__name__ not in ("bool_", "bool"):
        try:
            return operator.index(value)
        except TypeError:
            pass
    raise InputTypeError(f"{name}: must be {rule} (got {reprlib.repr(value)} of type {type(value).__name__}).")


def printable(text: str) -> str:
    """The text with line ends, escape sequences and other signs that are not to be seen as their escapes.

    Examples
    --------
    >>> print(printable("a\\nb → \\x1b[31m"))
    a\\nb → \\x1b[31m
    """
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)
