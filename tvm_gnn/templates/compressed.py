"""What MaxK and its gradient share: an edge's message from what was kept, and where a row's sum is kept meanwhile."""

from __future__ import annotations

from typing import Any

from ..ops import Problem
from ..ops.maxk import MaxK, MaxKBackward
from .conversion import converted


class CompressedSums:
    """Sums over edges that stay in the output, or, where its dtype would round them, in a row of ``sums`` per part.

    Methods give TensorIR expressions.

    Attributes
    ----------
    rounds : bool
        Whether the sums are kept apart and rounded into the output at the end of a row.
    width : int
        Of the argument ``sums``; 1 of a stand-in.
    """

    def __init__(self, problem: Problem) -> None:
        assert isinstance(problem.op, MaxK | MaxKBackward)
        self._problem = problem
        self._weighted = problem.op.uses_edges
        self.rounds = problem.dtype != problem.arithmetic_dtype
        self.width = problem.outputs[0].width if self.rounds else 1

    def loaded(self, value: Any) -> Any:
        """A stored value as it is computed with."""
        return converted(value, self._problem.dtype, self._problem.arithmetic_dtype)

    def edge_value(self, w: Any, edge_ids: Any, p: Any) -> Any:
        """Of the edge at position `p`; 1 where none is read."""
        from tvm.script import tirx as T

        if not self._weighted:
            return T.Cast(self._problem.arithmetic_dtype, 1)
        return self.loaded(w[T.Cast("int64", edge_ids[p]) if self._problem.edge_order == "edge_ids" else p, 0])

    def message(self, value: Any, weight: Any) -> Any:
        """What a kept value sends along an edge."""
        return self.loaded(value) * weight if self._weighted else self.loaded(value)

    def buffer(self, output: Any, sums: Any) -> Any:
        """Of the two the buffer that sums are in; called where it is used, for the parser renames what is assigned."""
        return sums if self.rounds else output

    def row(self, row: Any, part: Any) -> Any:
        """The row of it that belongs to a row of the output."""
        return part if self.rounds else row
