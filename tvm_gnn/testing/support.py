"""What is supported, as a Markdown table made from the registries; the README shows it and a test compares the two."""

from __future__ import annotations

from ..ops import OPS, Operator
from ..ops.dims import RowShape
from ..ops.messages import MESSAGES, REDUCES
from ..ops.operand import Dims, Operand
from ..ops.relational import RELATIONAL_MESSAGES
from ..ops.sddmm import COMBINES, TARGETS

_ROWS = {"src": "num_src", "dst": "num_dst", "edge": "num_edges", "once": ""}
# Shapes to show operands with: unlike each other, so that each is recognised in an operand's own shape.
_HEADS, _WIDTH = 5, 7


def support_table() -> list[str]:
    """A row for every primitive: operators, arrays in and out, dtypes."""
    lines = ["| primitive | operators | takes | gives | dtypes |", "|---|---|---|---|---|"]
    by_primitive: dict[str, list[Operator]] = {}
    for op in OPS.values():
        by_primitive.setdefault(op.primitive, []).append(op)
    for primitive, ops in by_primitive.items():
        shown = max(ops, key=lambda op: len(op.inputs(_dims(op))))
        dims = _dims(shown)
        takes = ", ".join(_array(operand) for operand in shown.inputs(dims))
        gives = ", ".join(_array(operand) for operand in shown.outputs(dims))
        names = _families().get(primitive) or ", ".join(f"`{op.name}`" for op in ops)
        lines.append(f"| {primitive} | {names} | {takes} | {gives} | {', '.join(shown.dtypes)} |")
    return lines


def _families() -> dict[str, str]:
    """Operators of primitives with many, told by what their names are made of."""

    def words(names: object) -> str:
        return " ".join(f"`{name}`" for name in names)  # type: ignore[attr-defined]

    return {
        "spmm": f"{words(MESSAGES)} × {words(REDUCES)}, such as `u_mul_e_sum`",
        "sddmm": f"two different ones of {words(TARGETS)} joined by {words(COMBINES)}, such as `u_dot_v`; "
        + words(f"copy_{target}" for target in TARGETS),
        "relational": f"{words(RELATIONAL_MESSAGES)} × {words(REDUCES)} × `across` × {words(REDUCES)}, such as "
        "`copy_u_mean_across_sum`",
    }


def _dims(op: Operator) -> Dims:
    for shape in ((_HEADS, _WIDTH), (64,)):
        try:
            return op.dims(shape, None)
        except ValueError:
            continue
    raise AssertionError(op.name)


def _array(operand: Operand) -> str:
    dims = [_ROWS[operand.rows], *_symbols(operand.shape)]
    return f"{operand.name} ({', '.join(filter(None, dims))})"


def _symbols(shape: RowShape) -> list[str]:
    symbols = {_HEADS: "H", _WIDTH: "D", 64: "F", 32: "k"}
    return [symbols.get(size, str(size)) for size in shape]
