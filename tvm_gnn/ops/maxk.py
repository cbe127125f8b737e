"""MaxK: g-SpMM over the k largest features of every source, which the kernel selects and compresses first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from ..arguments import integer
from ..errors import InputError
from .dims import RowShape, edge_shape, width
from .messages import MESSAGES, REDUCES, Message, Reduce
from .operand import Dims, Operand, Rows, Structure
from .operator import LARGEST_PROBE, Float64, Operator
from .options import options_text
from .tolerance import rounding_scale
from .top_k import compressed_sddmm, compressed_spmm, top_columns

# Columns are 16 bits wide at most.
WIDEST = 1 << 16
MAXK_MESSAGES = ("copy_u", "u_mul_e")
MAXK_REDUCES = ("sum", "mean")
# Of what `MaxK.probe` draws for features.
_PROBE_SPREAD, _LARGEST_PROBE = 64, 256


@dataclass(frozen=True)
class MaxK(Operator):
    """MaxK of features, then g-SpMM: ``y[v] = reduce over e = (u → v) of message(topk(x)[u], w[e])``.

    topk keeps the k largest of a row and takes the others out: they meet no edge value, not even an infinite one. NaN
    counts as larger than every number, of equal features the lower column is kept first.

    The kernel takes ``(x, w)``, for copy_u ``(x)``, and gives ``(y, values, columns)``.

    Shapes
    ------
    x : (num_src, F), k <= F <= 65536
    w : (num_edges,), in the caller's edge order
    y : (num_dst, F); rows without an in-edge are 0
    values : (num_src, k), what is kept of x
    columns : (num_src, k) uint8, where F > 256 uint16; the columns of x that `values` come from, ascending
    """

    message: str
    reduce: str
    k: int = 32
    primitive: ClassVar[str] = "maxk"
    reduced: ClassVar[int | None] = 0

    def __post_init__(self) -> None:
        _check_message(self.message)
        if self.reduce not in MAXK_REDUCES:
            raise InputError(f"reduce: must be one of {', '.join(MAXK_REDUCES)} (got {self.reduce!r}).")
        object.__setattr__(self, "k", _checked_k(self.k))

    @property
    def name(self) -> str:
        """``maxk_<message>_<reduce>``, with `k` where it is not 32."""
        return f"maxk_{self.message}_{self.reduce}{options_text(self)}"

    @property
    def message_op(self) -> Message:
        """The row of the message registry."""
        return MESSAGES[self.message]

    @property
    def reduce_op(self) -> Reduce:
        """The row of the reduce registry."""
        return REDUCES[self.reduce]

    @property
    def backward(self) -> MaxKBackward:
        """The operator that gives the gradient of `values`, on the reversed graph."""
        return MaxKBackward(self.message, self.k)

    @property
    def uses_edges(self) -> bool:
        """See `Operator`."""
        return self.message_op.uses_edge

    def dims(self, feat: RowShape, edge_feat: RowShape | None) -> Dims:
        """See `Operator`."""
        return _dims(self, feat, edge_feat)

    def inputs(self, dims: Dims) -> tuple[Operand, ...]:
        """``x``, and ``w`` if the message reads it."""
        return (Operand("x", "src", dims.feat), *_edge_values(self))

    def outputs(self, dims: Dims) -> tuple[Operand, ...]:
        """``y``, ``values`` and ``columns``."""
        return (Operand("y", "dst", dims.feat), Operand("values", "src", (self.k,)), _columns("src", self.k, dims))

    def gathered(self, dims: Dims) -> tuple[Operand, ...]:
        """The compressed form."""
        return tuple(each for each in self.outputs(dims) if each.rows == "src")

    def flops(self, dims: Dims, num_dst: int, num_edges: int) -> int:
        """Per edge and kept feature the message and one add, per output element a mean's division; no comparison."""
        divisions = num_dst * width(dims.feat) if self.reduce_op.divides_by_degree else 0
        return num_edges * self.k * (self.message_op.flops + 1) + divisions

    def is_empty(self, dims: Dims, rows: dict[str, int]) -> bool:
        """See `Operator`; features without an edge are compressed too."""
        return rows["src"] == 0

    def reference(self, dims: Dims, graph: Structure, *inputs: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], ...]:
        """See `Operator`."""
        x, w = np.asarray(inputs[0], np.float64), inputs[1] if self.uses_edges else None
        columns = top_columns(x, self.k)
        values = np.take_along_axis(x, columns, axis=1)
        y = compressed_spmm(graph, values, columns, w, width(dims.feat))
        if self.reduce_op.divides_by_degree:
            y /= np.maximum(np.diff(graph.indptr), 1)[:, None]
        return y, values, columns

    def error_scale(self, dims: Dims, graph: Structure, *inputs: npt.NDArray[Any]) -> tuple[Float64, ...]:
        """See `Operator`."""
        x, w = np.asarray(inputs[0], np.float64), np.abs(inputs[1]) if self.uses_edges else None
        columns = top_columns(x, self.k)
        values = np.abs(np.take_along_axis(x, columns, axis=1))
        degrees = np.diff(graph.indptr)
        magnitudes = compressed_spmm(graph, values, columns, w, width(dims.feat))
        if self.reduce_op.divides_by_degree:
            magnitudes /= np.maximum(degrees, 1)[:, None]
        exact = np.zeros(columns.shape)
        return rounding_scale(magnitudes, degrees), exact, exact

    def probe(self, operand: Operand, rows: int, rng: np.random.Generator) -> Float64:
        """See `Operator`; features are normal, as a selection meets them, and some of a row equal."""
        if operand.rows == "edge":
            return super().probe(operand, rows, rng)
        normal = rng.standard_normal((rows, operand.width), np.float32)
        np.rint(np.clip(normal * _PROBE_SPREAD, -_LARGEST_PROBE, _LARGEST_PROBE, out=normal), out=normal)
        return normal.astype(np.float64)

    def largest_sum(self, dims: Dims, longest_row: int) -> float:
        """See `Operator`."""
        return longest_row * _LARGEST_PROBE * LARGEST_PROBE


@dataclass(frozen=True)
class MaxKBackward(Operator):
    """Gradient of what `MaxK` keeps, on the reversed graph: ``out[u, j] = sum over e = (u → v) of w[e] * gy[v, c]``.

    c is ``columns[u, j]``. Of a mean, `gy` is to be divided by the in-degrees of the graph first. The rows of operands
    are those of the reversed graph: its sources are the v, its destinations the u. The kernel takes
    ``(gy, columns, w)``, for copy_u ``(gy, columns)``.

    Shapes
    ------
    gy : (num_src, F), k <= F <= 65536
    columns : (num_dst, k) uint8, where F > 256 uint16, each less than F; as `MaxK` gives them
    w : (num_edges,), in the caller's edge order
    out : (num_dst, k); rows without an edge are 0
    """

    message: str
    k: int = 32
    primitive: ClassVar[str] = "maxk_backward"

    def __post_init__(self) -> None:
        _check_message(self.message)
        object.__setattr__(self, "k", _checked_k(self.k))

    @property
    def name(self) -> str:
        """``maxk_backward_<message>``, with `k` where it is not 32."""
        return f"maxk_backward_{self.message}{options_text(self)}"

    @property
    def message_op(self) -> Message:
        """The row of the message registry."""
        return MESSAGES[self.message]

    @property
    def uses_edges(self) -> bool:
        """See `Operator`."""
        return self.message_op.uses_edge

    def dims(self, feat: RowShape, edge_feat: RowShape | None) -> Dims:
        """See `Operator`."""
        return _dims(self, feat, edge_feat)

    def inputs(self, dims: Dims) -> tuple[Operand, ...]:
        """``gy``, ``columns``, and ``w`` if the message reads it."""
        return (Operand("gy", "src", dims.feat), _columns("dst", self.k, dims), *_edge_values(self))

    def outputs(self, dims: Dims) -> tuple[Operand, ...]:
        """``out``."""
        return (Operand("out", "dst", (self.k,)),)

    def flops(self, dims: Dims, num_dst: int, num_edges: int) -> int:
        """Per edge and kept feature the message and one add."""
        return num_edges * self.k * (self.message_op.flops + 1)

    def reference(self, dims: Dims, graph: Structure, *inputs: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], ...]:
        """See `Operator`."""
        gy, columns, w = np.asarray(inputs[0], np.float64), inputs[1], inputs[2] if self.uses_edges else None
        return (compressed_sddmm(graph, gy, columns, w),)

    def error_scale(self, dims: Dims, graph: Structure, *inputs: npt.NDArray[Any]) -> tuple[Float64, ...]:
        """See `Operator`."""
        gy, columns, w = np.abs(inputs[0]), inputs[1], np.abs(inputs[2]) if self.uses_edges else None
        magnitudes = compressed_sddmm(graph, np.asarray(gy, np.float64), columns, w)
        return (rounding_scale(magnitudes, np.diff(graph.indptr)),)

    def probe(self, operand: Operand, rows: int, rng: np.random.Generator) -> Float64:
        """See `Operator`; columns ascend, as those of `MaxK`."""
        if not operand.is_index:
            return super().probe(operand, rows, rng)
        bounds = np.arange(self.k + 1) * (operand.below or 1) // self.k
        return rng.integers(bounds[:-1], bounds[1:], (rows, self.k)).astype(np.float64)

    def largest_sum(self, dims: Dims, longest_row: int) -> float:
        """See `Operator`."""
        return longest_row * LARGEST_PROBE**2


def maxk(k: int = 32, message: str = "u_mul_e", reduce: str = "sum") -> MaxK:
    """The MaxK operator that keeps `k` features per source.

    Examples
    --------
    >>> maxk(16, "copy_u", "mean").name
    'maxk_copy_u_mean(k=16)'

    Raises
    ------
    InputError, InputTypeError
        `k` is no positive integer, or the message or reduce is none that MaxK has.
    """
    return MaxK(message, reduce, k)


def _check_message(message: Any) -> None:
    if message not in MAXK_MESSAGES:
        raise InputError(f"message: must be one of {', '.join(MAXK_MESSAGES)} (got {message!r}).")


def _checked_k(k: Any) -> int:
    count = integer("k", k)
    if count < 1:
        raise InputError(f"k: must be at least 1 (got {count}).")
    return count


def _dims(op: MaxK | MaxKBackward, feat: RowShape, edge_feat: RowShape | None) -> Dims:
    if len(feat) != 1:
        raise InputError(f"feat: must be a width for {op.name} (got {feat}).")
    if not op.k <= feat[0] <= WIDEST:
        raise InputError(f"feat: must be from k = {op.k} to {WIDEST} for {op.name} (got {feat[0]}).")
    if edge_feat is not None:
        if not op.message_op.uses_edge:
            raise InputError(f"edge_feat: {op.name} reads no edge values (got {edge_feat}).")
        if width(edge_shape(edge_feat, feat)) != 1:
            raise InputError(f"edge_feat: {op.name} reads one value per edge (got {edge_feat}).")
    return Dims(feat, ())


def _edge_values(op: MaxK | MaxKBackward) -> tuple[Operand, ...]:
    return (Operand("w", "edge", ()),) if op.message_op.uses_edge else ()


def _columns(rows: Rows, k: int, dims: Dims) -> Operand:
    return Operand("columns", rows, (k,), is_index=True, below=width(dims.feat))


MAXK_OPS: dict[str, Operator] = {
    op.name: op
    for op in (
        *(MaxK(message, reduce) for message in MAXK_MESSAGES for reduce in MAXK_REDUCES),
        *(MaxKBackward(message) for message in MAXK_MESSAGES),
    )
}
