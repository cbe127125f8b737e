"""Aggregation over several relations at once (R-GCN): reduce within each relation, then across the relations."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from ..arguments import integer
from ..errors import InputError
from .dims import RowShape
from .messages import MESSAGES, REDUCES, Message, Reduce
from .operand import Dims, Operand, Structure
from .operator import LARGEST_PROBE, Float64, Operator
from .options import options_text
from .tolerance import rounding_scale

RELATIONAL_MESSAGES = ("copy_u", "u_mul_e")


@dataclass(frozen=True)
class Relational(Operator):
    """y[v] = cross over the relations r that reach v of (reduce over e = (u → v) of r of message(x[r, u], w[e])).

    The graph is one of `Graph.from_relations`: its sources are the nodes once for every relation, so that features may
    be transformed by relation beforehand, and one launch serves all relations. A relation without an edge into v takes
    no part: it is no zero among the numbers of a maximum, and does not count in a mean. A node that no relation reaches
    is 0. The kernel takes ``(x)``, or ``(x, w)`` where the message reads edge values.

    Attributes
    ----------
    message : {"copy_u", "u_mul_e"}
    reduce, cross : str
        ``sum``, ``mean``, ``max`` or ``min`` within a relation, and across them.
    relations : int
        Their number R; it divides the number of sources.

    Shapes
    ------
    x : (R * num_nodes, F); relation r's features of node u in row r * num_nodes + u
    w : (num_edges,), in the caller's edge order
    y : (num_dst, F)
    """

    message: str
    reduce: str
    cross: str
    relations: int = 1
    primitive: ClassVar[str] = "relational"
    reduced: ClassVar[int | None] = 0

    def __post_init__(self) -> None:
        count = integer("relations", self.relations)
        if count < 1:
            raise InputError(f"relations: must be at least 1 (got {count}).")
        object.__setattr__(self, "relations", count)

    @property
    def name(self) -> str:
        """``<message>_<reduce>_across_<cross>``, with the number of relations."""
        return f"{self.message}_{self.reduce}_across_{self.cross}{options_text(self)}"

    @property
    def message_op(self) -> Message:
        """The row of the message registry."""
        return MESSAGES[self.message]

    @property
    def reduce_op(self) -> Reduce:
        """The row of the reduce registry for within a relation."""
        return REDUCES[self.reduce]

    @property
    def cross_op(self) -> Reduce:
        """The row of the reduce registry for across the relations."""
        return REDUCES[self.cross]

    def dims(self, feat: RowShape, edge_feat: RowShape | None) -> Dims:
        """See `Operator`; an edge has one value."""
        if edge_feat not in (None, (), (1,)):
            raise InputError(f"edge_feat: must be () for {self.name} (got {edge_feat}).")
        return Dims(feat, ())

    def check_graph(self, counts: dict[str, int], num_relations: int | None) -> None:
        """See `Operator`; the sources must be nodes once for every relation."""
        if num_relations not in (None, self.relations):
            raise InputError(
                f"relations: must be the graph's {num_relations} (got {self.relations}). Ask for "
                f"{replace(self, relations=num_relations).name}."
            )
        if counts["src"] % self.relations:
            raise InputError(
                f"graph: must have a multiple of {self.relations} sources for {self.name} (got {counts['src']}). See "
                "Graph.from_relations."
            )

    def inputs(self, dims: Dims) -> tuple[Operand, ...]:
        """``x``, and ``w`` where the message reads it."""
        x, w = Operand("x", "src", dims.feat), Operand("w", "edge", ())
        return (x, w) if self.message_op.uses_edge else (x,)

    def outputs(self, dims: Dims) -> tuple[Operand, ...]:
        """``y``."""
        return (Operand("y", "dst", dims.feat),)

    def flops(self, dims: Dims, num_dst: int, num_edges: int) -> int:
        """Per edge and feature the message and one add; what is done once per relation is left out."""
        return num_edges * int(np.prod(dims.feat)) * (self.message_op.flops + 1)

    def reference(self, dims: Dims, graph: Structure, *inputs: npt.NDArray[Any]) -> tuple[Float64, ...]:
        """See `Operator`."""
        return (self._reduced(graph, inputs, self.reduce_op, self.cross_op),)

    def error_scale(self, dims: Dims, graph: Structure, *inputs: npt.NDArray[Any]) -> tuple[Float64, ...]:
        """See `Operator`."""
        absolute = tuple(np.abs(each.astype(np.float64)) for each in inputs)
        # Of a max or min of either level the largest magnitude bounds every rounding.
        reduces = (REDUCES["max"] if each.better else each for each in (self.reduce_op, self.cross_op))
        magnitudes = self._reduced(graph, absolute, *reduces)
        return (rounding_scale(magnitudes, np.diff(graph.indptr)),)

    def largest_sum(self, dims: Dims, longest_row: int) -> float:
        """See `Operator`; the quotients of a mean are not exact."""
        exact = not (self.reduce_op.divides_by_degree or self.cross_op.divides_by_degree)
        return longest_row * LARGEST_PROBE**2 if exact else float("inf")

    def runs(
        self, indptr: npt.NDArray[Any], indices: npt.NDArray[Any], num_src: int
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Where the edges of each pair of a row and a relation start, in CSR order, and the row of each pair.

        Sources ascend within a row, and so do their relations: a pair is one run of edges.
        """
        rows = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
        relation = indices.astype(np.int64) // max(1, num_src // self.relations)
        starts = np.flatnonzero((np.diff(rows, prepend=-1) != 0) | (np.diff(relation, prepend=-1) != 0))
        return starts, rows[starts]

    def _reduced(
        self, graph: Structure, inputs: tuple[npt.NDArray[Any], ...], reduce: Reduce, cross: Reduce
    ) -> Float64:
        x = np.asarray(inputs[0], np.float64)
        out = np.zeros((len(graph.indptr) - 1, x.shape[1]))
        num_edges = len(graph.indices)
        if num_edges == 0 or x.shape[1] == 0:
            return out
        starts, rows = self.runs(graph.indptr, graph.indices, graph.num_src)
        values = None
        if self.message_op.uses_edge:
            values = np.asarray(inputs[1], np.float64).reshape(num_edges, 1)
            values = values if graph.edge_ids is None else values[graph.edge_ids]
        with np.errstate(invalid="ignore", over="ignore"):  # inf and NaN are data here
            within = reduce.ufunc.reduceat(self.message_op.combine(x[graph.indices], values), starts, axis=0)
            if reduce.divides_by_degree:
                within = within / np.diff(starts, append=num_edges)[:, None]
            row_starts = np.flatnonzero(np.diff(rows, prepend=-1))
            across = cross.ufunc.reduceat(within, row_starts, axis=0)
            if cross.divides_by_degree:
                across = across / np.diff(row_starts, append=len(starts))[:, None]
        out[rows[row_starts]] = across
        return out


RELATIONAL_OPS: dict[str, Relational] = {
    f"{message}_{reduce}_across_{cross}": Relational(message, reduce, cross)
    for message in RELATIONAL_MESSAGES
    for reduce in REDUCES
    for cross in REDUCES
}


def relational(message: str = "copy_u", reduce: str = "mean", cross: str = "sum", relations: int = 1) -> Relational:
    """The operator that aggregates over `relations` relations in one launch.

    Examples
    --------
    >>> relational("copy_u", "mean", "sum", relations=4).name
    'copy_u_mean_across_sum(relations=4)'

    Raises
    ------
    InputError
        The message or a reduce is unknown, or there is no relation.
    """
    if message not in RELATIONAL_MESSAGES:
        raise InputError(f"message: must be one of {', '.join(RELATIONAL_MESSAGES)} (got {message!r}).")
    for argument, value in (("reduce", reduce), ("cross", cross)):
        if value not in REDUCES:
            raise InputError(f"{argument}: must be one of {', '.join(REDUCES)} (got {value!r}).")
    return Relational(message, reduce, cross, relations)
