"""Values between the dtype they are stored in and the one they are computed in.

LLVM makes one instruction of a float16 vector (F16C, AVX-512 and ARM have it) and two shifts of a bfloat16 vector; what
is stored is rounded to nearest even.

What is loaded goes into a buffer before an `expressions.exponential`: in what a Let binds, TVM takes the bits of a
bfloat16 for an integer.
"""

from __future__ import annotations

from typing import Any


def converted(value: Any, given: str, wanted: str) -> Any:
    """A TensorIR expression of dtype `given` as one of dtype `wanted`; itself where they are the same."""
    from tvm.script import tirx as T

    return value if given == wanted else T.Cast(wanted, value)
