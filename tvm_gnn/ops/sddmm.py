"""g-SDDMM: out[e] = op(lhs, rhs) for every edge e = (u → v), the operands being rows of u, of v, or of e itself."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from ..errors import InputError
from .dims import RowShape, edge_shape, width
from .operand import Dims, Operand, Rows, Structure
from .operator import LARGEST_PROBE, Float64, Operator
from .tolerance import rounding_scale

TARGETS: dict[str, Rows] = {"u": "src", "v": "dst", "e": "edge"}


@dataclass(frozen=True)
class Combine:
    """How two rows become one.

    Attributes
    ----------
    name : str
    function : callable
        ``function(lhs, rhs)`` on numpy arrays or on TensorIR expressions, element by element.
    magnitude : callable
        ``magnitude(|lhs|, |rhs|)`` bounds the size of the operands of a rounding.
    reduces : bool
        Whether the last dim is summed up.
    """

    name: str
    function: Callable[[Any, Any], Any]
    magnitude: Callable[[Any, Any], Any]
    reduces: bool = False


COMBINES: dict[str, Combine] = {
    each.name: each
    for each in (
        Combine("add", operator.add, operator.add),
        Combine("sub", operator.sub, operator.add),
        Combine("mul", operator.mul, operator.mul),
        Combine("div", operator.truediv, operator.truediv),
        Combine("dot", operator.mul, operator.mul, reduces=True),
    )
}


@dataclass(frozen=True)
class SDDMM(Operator):
    """A g-SDDMM operator, such as ``u_dot_v``; a copy has no `combine` and no `rhs`.

    The kernel takes ``(lhs, rhs)``, of a copy ``(lhs)``.

    Shapes
    ------
    lhs, rhs : (num_src, *feat), (num_dst, *feat) or (num_edges, *edge_feat) by their targets u, v, e
        `edge_feat` is `feat` by default; one value per head or per edge is broadcast. Edges are in the caller's order.
    out : (num_edges, *feat), of a dot (num_edges, *feat[:-1]), in the caller's edge order
    """

    lhs: str
    combine: str | None = None
    rhs: str | None = None
    primitive: ClassVar[str] = "sddmm"

    @property
    def name(self) -> str:
        """DGL's name of the operator: ``<lhs>_<combine>_<rhs>`` or ``copy_<lhs>``."""
        return f"copy_{self.lhs}" if self.combine is None else f"{self.lhs}_{self.combine}_{self.rhs}"

    @property
    def combine_op(self) -> Combine | None:
        """The row of the registry; None for a copy."""
        return None if self.combine is None else COMBINES[self.combine]

    @property
    def reduces(self) -> bool:
        """Whether the last dim is summed up."""
        return self.combine_op is not None and self.combine_op.reduces

    def dims(self, feat: RowShape, edge_feat: RowShape | None) -> Dims:
        """See `Operator`."""
        if edge_feat is None:
            return Dims(feat, feat)
        if "e" not in (self.lhs, self.rhs):
            raise InputError(f"edge_feat: {self.name} reads no edge values (got {edge_feat}).")
        shape = edge_shape(edge_feat, feat)
        if (self.reduces or self.combine is None) and width(shape) != width(feat):
            raise InputError(f"edge_feat: must be feat for {self.name} (got {shape} and {feat}).")
        return Dims(feat, shape)

    def inputs(self, dims: Dims) -> tuple[Operand, ...]:
        """``lhs`` and ``rhs``."""
        sides = {"lhs": self.lhs, "rhs": self.rhs}
        return tuple(
            Operand(name, TARGETS[target], dims.edge_feat if target == "e" else dims.feat)
            for name, target in sides.items()
            if target is not None
        )

    def outputs(self, dims: Dims) -> tuple[Operand, ...]:
        """``out``."""
        return (Operand("out", "edge", dims.feat[:-1] if self.reduces else dims.feat),)

    def flops(self, dims: Dims, num_dst: int, num_edges: int) -> int:
        """Per edge and feature the operation, and one add where it is a dot product."""
        return num_edges * width(dims.feat) * (int(self.combine is not None) + int(self.reduces))

    def reference(self, dims: Dims, graph: Structure, *inputs: npt.NDArray[Any]) -> tuple[Float64, ...]:
        """See `Operator`."""
        return (self._combined(dims, graph, None if self.combine_op is None else self.combine_op.function, inputs),)

    def error_scale(self, dims: Dims, graph: Structure, *inputs: npt.NDArray[Any]) -> tuple[Float64, ...]:
        """See `Operator`."""
        absolute = tuple(np.abs(each.astype(np.float64)) for each in inputs)
        combine = self.combine_op
        magnitudes = self._combined(dims, graph, None if combine is None else combine.magnitude, absolute)
        terms = dims.feat[-1] if self.reduces else 1
        return (rounding_scale(magnitudes, np.full(len(magnitudes), terms)),)

    def largest_sum(self, dims: Dims, longest_row: int) -> float:
        """See `Operator`."""
        return dims.feat[-1] * LARGEST_PROBE**2

    def _combined(
        self, dims: Dims, graph: Structure, function: Callable[[Any, Any], Any] | None, inputs: tuple[Any, ...]
    ) -> Float64:
        num_edges = len(graph.indices)
        # In CSR order first: edge p goes from indices[p] to the row that holds p.
        rows = {
            "src": graph.indices,
            "dst": np.repeat(np.arange(len(graph.indptr) - 1), np.diff(graph.indptr)),
            "edge": np.arange(num_edges) if graph.edge_ids is None else graph.edge_ids,
        }
        sides = []
        for operand, array in zip(self.inputs(dims), inputs, strict=True):
            gathered = np.asarray(array, np.float64)[rows[operand.rows]]
            repeats = width(dims.feat) // operand.width if operand.width else 1
            sides.append(np.repeat(gathered, repeats, axis=1))
        with np.errstate(invalid="ignore", over="ignore", divide="ignore"):  # inf and NaN are data here
            result = sides[0] if function is None else function(*sides)
            if self.reduces:
                result = result.reshape(num_edges, width(dims.feat[:-1]), dims.feat[-1]).sum(axis=2)
        if graph.edge_ids is None:
            return result
        by_edge = np.empty_like(result)
        by_edge[graph.edge_ids] = result
        return by_edge


SDDMM_OPS: dict[str, SDDMM] = {
    op.name: op
    for op in (
        *(SDDMM(lhs, combine, rhs) for combine in COMBINES for lhs in TARGETS for rhs in TARGETS if lhs != rhs),
        *(SDDMM(target) for target in TARGETS),
    )
}


def sddmm(name: str) -> SDDMM:
    """The g-SDDMM operator of that name.

    Examples
    --------
    >>> sddmm("u_dot_v").combine
    'dot'

    Raises
    ------
    InputError
        There is no such operator.
    """
    if name not in SDDMM_OPS:
        raise InputError(f"name: must be one of {', '.join(SDDMM_OPS)} (got {name!r}).")
    return SDDMM_OPS[name]
