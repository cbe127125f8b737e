"""All operators by name, with default options; the command line, the tests and the README's tables walk this."""

from __future__ import annotations

from difflib import get_close_matches

from ..errors import InputError, InputTypeError
from .attention import GAT, GATv2
from .maxk import MAXK_OPS
from .operator import Operator
from .options import with_options
from .relational import RELATIONAL_OPS
from .sddmm import SDDMM_OPS
from .softmax import EdgeSoftmax
from .sort_pool import SortPool
from .spmm import SPMM_OPS

OPS: dict[str, Operator] = {
    **SPMM_OPS,
    **SDDMM_OPS,
    **{op.name: op for op in (EdgeSoftmax(), GAT(), GATv2(), SortPool())},
    **MAXK_OPS,
    **RELATIONAL_OPS,
}

# For one who does not know the names.
_EXAMPLES = ("copy_u_sum", "u_mul_e_mean", "u_dot_v", "edge_softmax", "gat")


def parse_op(op: str | Operator) -> Operator:
    """The operator of that name, with options such as ``copy_u_max(arg=True)`` or without, or the operator itself.

    Examples
    --------
    >>> parse_op("copy_u_mean").reduce
    'mean'
    >>> parse_op("copy_u_max(arg=True)").arg
    True
    >>> parse_op("maxk_copy_u_sum(k=8)").k
    8

    Raises
    ------
    InputTypeError, InputError
        Not a name, an unknown one, or an option that the operator does not have or a wrong value of one.
    """
    if isinstance(op, Operator):
        return op
    if not isinstance(op, str):
        raise InputTypeError(f"op: must be an operator or its name (got {type(op).__name__}).")
    name, parenthesis, options = op.partition("(")
    if name not in OPS or (parenthesis and not options.endswith(")")):
        raise InputError(f"op: must be the name of an operator (got {op!r}). {_suggestion(name)}")
    return with_options(OPS[name], name, options[:-1]) if parenthesis else OPS[name]


def _suggestion(name: str) -> str:
    """What may be meant; all the names are too many to read."""
    close = [name] if name in OPS else get_close_matches(name.lower(), OPS, n=3)
    if close:
        return f"Did you mean {' or '.join(close)}?"
    return f"tvm_gnn.ops.OPS holds them, such as {', '.join(_EXAMPLES)}."
