"""All operators by name; the command line, the tests and the README's tables walk this."""

from __future__ import annotations

from ..errors import InputError, InputTypeError
from .messages import MESSAGES, REDUCES
from .spmm import SpMM

Op = SpMM

OPS: dict[str, Op] = {op.name: op for op in (SpMM(message, reduce) for message in MESSAGES for reduce in REDUCES)}


def parse_op(op: str | Op) -> Op:
    """The operator of that name (``u_mul_e_sum``), or the operator itself.

    Examples
    --------
    >>> parse_op("copy_u_mean").reduce
    'mean'
    """
    if isinstance(op, SpMM):
        return op
    if not isinstance(op, str):
        raise InputTypeError(f"op: must be an operator or its name (got {type(op).__name__}).")
    if op not in OPS:
        raise InputError(f"op: must be one of {', '.join(OPS)} (got {op!r}).")
    return OPS[op]
