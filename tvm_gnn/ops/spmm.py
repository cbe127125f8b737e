"""g-SpMM: y[v] = reduce over e = (u → v) of message(x[u], w[e])."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from ..errors import InputError, InputTypeError
from .dims import RowShape, edge_shape, width
from .messages import MESSAGES, REDUCES, Message, Reduce
from .operand import Dims, Operand, Structure
from .operator import LARGEST_PROBE, Float64, Operator
from .options import options_text
from .reference import spmm_arg_reference, spmm_error_scale, spmm_reference


@dataclass(frozen=True)
class SpMM(Operator):
    """A g-SpMM operator, such as ``u_mul_e_sum``.

    The kernel takes ``(x, w)`` when the message reads both, ``(x)`` or ``(w)`` when it reads one. With `arg`, of max
    and min only, it returns ``(y, arg)``, else ``y``.

    Shapes
    ------
    x : (num_src, F) or (num_src, H, D)
    w : (num_edges, *edge_feat), in the caller's edge order; see `default_edge_feat`
    y : (num_dst, F) or (num_dst, H, D); rows without an in-edge are 0
    arg : as y, in the graph's index dtype: the edge whose message each element of y is, in the caller's edge order; of
        equal messages the first in CSR order, of several NaN likewise; -1 in rows without an in-edge
    """

    message: str
    reduce: str
    arg: bool = False
    primitive: ClassVar[str] = "spmm"
    reduced: ClassVar[int | None] = 0

    def __post_init__(self) -> None:
        if not isinstance(self.arg, bool):
            raise InputTypeError(f"arg: must be True or False (got {self.arg!r}).")
        if self.arg and self.reduce_op.better is None:
            selecting = " or ".join(name for name, reduce in REDUCES.items() if reduce.better is not None)
            raise InputError(f"arg: needs a reduce that selects one edge, {selecting} (got {self.reduce}).")

    @property
    def name(self) -> str:
        """DGL's name of the operator, ``<message>_<reduce>``, with `arg` where it is set."""
        return f"{self.message}_{self.reduce}{options_text(self)}"

    @property
    def message_op(self) -> Message:
        """The row of the message registry."""
        return MESSAGES[self.message]

    @property
    def reduce_op(self) -> Reduce:
        """The row of the reduce registry."""
        return REDUCES[self.reduce]

    @property
    def uses_src(self) -> bool:
        """Whether calls take features of the sources."""
        return self.message_op.uses_src

    @property
    def uses_edge(self) -> bool:
        """Whether calls take edge values."""
        return self.message_op.uses_edge

    def default_edge_feat(self, feat: RowShape) -> RowShape:
        """Shape of an edge's values unless the caller says another: one each, one per head, or for copy_e a row."""
        if not self.uses_src:
            return feat
        return () if len(feat) == 1 else (*feat[:-1], 1)

    def dims(self, feat: RowShape, edge_feat: RowShape | None) -> Dims:
        """See `Operator`."""
        if edge_feat is None:
            return Dims(feat, self.default_edge_feat(feat))
        if not self.uses_edge:
            raise InputError(f"edge_feat: {self.name} reads no edge values (got {edge_feat}).")
        shape = edge_shape(edge_feat, feat)
        if not self.uses_src and width(shape) != width(feat):
            raise InputError(f"edge_feat: must be feat for {self.name} (got {shape} and {feat}).")
        return Dims(feat, shape)

    def inputs(self, dims: Dims) -> tuple[Operand, ...]:
        """``x``, ``w``, or both."""
        x, w = Operand("x", "src", dims.feat), Operand("w", "edge", dims.edge_feat)
        return (*([x] if self.uses_src else []), *([w] if self.uses_edge else []))

    def outputs(self, dims: Dims) -> tuple[Operand, ...]:
        """``y``, and ``arg`` if asked for."""
        y = Operand("y", "dst", dims.feat)
        return (y, Operand("arg", "dst", dims.feat, is_index=True, holds_edges=True)) if self.arg else (y,)

    def flops(self, dims: Dims, num_dst: int, num_edges: int) -> int:
        """Per edge and feature the message and one add, per output element a mean's division."""
        feat = width(dims.feat)
        divisions = num_dst * feat if self.reduce_op.divides_by_degree else 0
        return num_edges * feat * (self.message_op.flops + 1) + divisions

    def reference(self, dims: Dims, graph: Structure, *inputs: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], ...]:
        """See `Operator`; which messages are equal is decided in the arithmetic of the inputs' dtype."""
        operands = self._x_and_w(inputs)
        y = spmm_reference(self, *graph[:3], *operands)
        return (y, spmm_arg_reference(self, *graph[:3], *operands)) if self.arg else (y,)

    def error_scale(self, dims: Dims, graph: Structure, *inputs: npt.NDArray[Any]) -> tuple[Float64, ...]:
        """See `Operator`."""
        scale = spmm_error_scale(self, *graph[:3], *self._x_and_w(inputs))
        return (scale, np.zeros_like(scale)) if self.arg else (scale,)

    def probe(self, operand: Operand, rows: int, rng: np.random.Generator) -> Float64:
        """See `Operator`; edge values are powers of two, by which quotients are as exact as products."""
        if operand.rows == "edge":
            return np.exp2(rng.integers(0, 3, (rows, operand.width)))
        return super().probe(operand, rows, rng)

    def largest_sum(self, dims: Dims, longest_row: int) -> float:
        """See `Operator`."""
        return longest_row * LARGEST_PROBE**2

    def _x_and_w(self, inputs: tuple[npt.NDArray[Any], ...]) -> tuple[npt.NDArray[Any] | None, ...]:
        given = iter(inputs)
        return (next(given) if self.uses_src else None, next(given) if self.uses_edge else None)


SPMM_OPS: dict[str, SpMM] = {
    op.name: op for op in (SpMM(message, reduce) for message in MESSAGES for reduce in REDUCES)
}


def spmm(message: str, reduce: str = "sum", arg: bool = False) -> SpMM:
    """The g-SpMM operator with this message and reduce; `arg` also asks for the edges that a max or min selects.

    Examples
    --------
    >>> spmm("u_mul_e", "sum").name
    'u_mul_e_sum'
    >>> spmm("copy_u", "max", arg=True).name
    'copy_u_max(arg=True)'

    Raises
    ------
    InputTypeError, InputError
        The message or the reduce is not in the registry, or `arg` is not for this reduce.
    """
    if message not in MESSAGES:
        raise InputError(f"message: must be one of {', '.join(MESSAGES)} (got {message!r}).")
    if reduce not in REDUCES:
        raise InputError(f"reduce: must be one of {', '.join(REDUCES)} (got {reduce!r}).")
    return SpMM(message, reduce, arg)
