"""A cell of g-SpMM, one row by one feature tile: where its features lie, what an edge adds to it, how it is finished.

A tile is `vectors` vectors of `lanes` features; where the feature width is not a multiple, the last vector overlaps the
one before it and writes the same values twice, which is cheaper than a scalar tail and needs no mask. Where a head has
an edge value of its own, no vector spans two heads.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..ops import Problem
from ..ops.spmm import SpMM
from .conversion import converted
from .expressions import accumulated
from .space import Value

_CACHE_LINE_BYTES = 64


class Cells:
    """The cells of a problem under a schedule; methods give TensorIR expressions.

    Attributes
    ----------
    lanes, tile, unroll : int
        Features per vector, vectors per cell, neighbours at once.
    tiles, lines : int
        Cells of a row, cache lines of a source that a cell reads.
    tiles_overlap : bool
        Whether the last tile covers vectors that the one before it covers too.
    """

    def __init__(self, problem: Problem, code: Mapping[str, Value]) -> None:
        op = problem.op
        assert isinstance(op, SpMM)
        self.op, self.reduce = op, op.reduce_op
        self.dtype, self.arithmetic = problem.dtype, problem.arithmetic_dtype
        self.width, self.edge_width = problem.width, problem.edge_width
        self.lanes, self.tile, self.unroll = int(code["lanes"]), int(code["vectors"]), int(code["unroll"])
        self._heads, self._head_width = heads_of(self.width, self.edge_width)
        self._per_head = -(-self._head_width // self.lanes)
        self._vectors = self._heads * self._per_head
        self.tiles = -(-self._vectors // self.tile)
        self.tiles_overlap = self._vectors % self.tile != 0
        self._line = _CACHE_LINE_BYTES // problem.itemsize
        self.lines = -(-self.tile * self.lanes // self._line)

    def feature(self, t: Any, v: Any) -> Any:
        """The first feature of vector `v` of tile `t`; the last vector of a head overlaps the one before it."""
        from tvm.script import tirx as T

        width, vector = self._head_width, self._first_vector(t) + v
        start = (vector if self._heads == 1 else vector % self._per_head) * self.lanes
        return self._head(t, v) * width + (start if width % self.lanes == 0 else T.min(start, width - self.lanes))

    def unless_counted(self, t: Any, v: Any, lane: Any, later: Any, earlier: Any) -> Any:
        """`earlier` in lanes of a vector that the one before it covers already, else `later`."""
        from tvm import tirx

        over = self._head_width % self.lanes
        if over == 0:
            return later
        is_last = (self._first_vector(t) + v) % self._per_head == self._per_head - 1
        return tirx.Select(tirx.all(is_last, lane < self.lanes - over), earlier, later)

    def line_start(self, t: Any, p: Any) -> Any:
        """A feature in cache line `p` of tile `t`."""
        from tvm.script import tirx as T

        return T.min(self.feature(t, 0) + p * self._line, self.width - 1)

    def message(self, x: Any, w: Any, source: Any, edge: Any, t: Any, v: Any, lane: Any) -> Any:
        """What an edge sends to a feature; `source` and `edge` are rows of `x` and `w`."""
        u = e = None
        if self.op.message_op.uses_src:
            u = converted(x[source, self.feature(t, v) + lane], self.dtype, self.arithmetic)
        if self.op.message_op.uses_edge:
            column = self.feature(t, v) + lane if self.edge_width == self.width else self._head(t, v)
            e = converted(w[edge, column], self.dtype, self.arithmetic)
        return self.op.message_op.combine(u, e)

    def accumulate(self, total: Any, value: Any) -> Any:
        """A total with one more value."""
        return accumulated(self.reduce, total, value)

    def reduced(self, acc: Any, rest: Any, v: Any, lane: Any) -> Any:
        """The accumulators of one feature as one total."""
        total = acc[0, v, lane]
        for u in range(1, self.unroll):
            total = self.accumulate(total, acc[u, v, lane])
        return self.accumulate(total, rest[v, lane]) if self.unroll > 1 else total

    def finished(self, total: Any, degree: Any) -> Any:
        """A row's total as its result."""
        from tvm.script import tirx as T

        if self.reduce.divides_by_degree:
            total = total / T.Cast(self.arithmetic, T.max(degree, T.int64(1)))
        elif self.reduce.better is not None:
            total = T.Select(degree > 0, total, T.Cast(self.arithmetic, 0))
        return converted(total, self.arithmetic, self.dtype)

    def _first_vector(self, t: Any) -> Any:  # the last tile overlaps the one before it too
        from tvm.script import tirx as T

        tile, vectors = self.tile, self._vectors
        return 0 if self.tiles == 1 else t * tile if vectors % tile == 0 else T.min(t * tile, vectors - tile)

    def _head(self, t: Any, v: Any) -> Any:
        return 0 if self._heads == 1 else (self._first_vector(t) + v) // self._per_head


def heads_of(feat: int, edge_width: int) -> tuple[int, int]:
    """Heads that have an edge value of their own, and the width of each; one head where all or none share it."""
    return (edge_width, feat // edge_width) if 1 < edge_width < feat else (1, feat)


def accumulators(unroll: int) -> int:
    """How many values of one output element a cell keeps: one per neighbour of a group, and one for those left over."""
    return unroll + 1 if unroll > 1 else 1
