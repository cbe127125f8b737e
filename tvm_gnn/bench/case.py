"""A benchmark case: one graph, one op, one width, with seeded inputs and the reference result."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from ..errors import InputError
from ..ops import Operator, Problem, parse_op
from ..ops.dims import feature_shape
from ..ops.operand import Structure
from ..ops.spmm import SpMM
from .aligned import aligned_zeros

if TYPE_CHECKING:
    from ..graph import Graph

Float32 = npt.NDArray[np.float32]
Float64 = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Case:
    """What every contender of a comparison computes.

    Inputs and reference are made at first use, kept, and shared by all contenders, none of which writes to them.

    Attributes
    ----------
    graph : Graph
    op : Operator or str
        The operator or its name, such as ``u_mul_e_sum``; kept as the operator.
    feat : int or (int, int)
        Feature width F, at least 1, or heads and width per head.
    dtype : str
        ``float32``, the only one for now.
    seed : int
        Of the inputs; the same seed gives the same numbers.
    problem : Problem
        Made of the others; rows of edges are in CSR order.
    """

    graph: Graph
    op: Operator
    feat: int | tuple[int, int]
    dtype: str = "float32"
    seed: int = 0
    problem: Problem = field(init=False)

    def __post_init__(self) -> None:
        op = parse_op(self.op)
        shape = feature_shape(self.feat)
        if 0 in shape:
            raise InputError(f"feat: must be at least 1 (got {self.feat}).")
        if self.dtype != "float32":
            raise InputError(f"dtype: benchmarks compare float32 only (got {self.dtype!r}).")
        object.__setattr__(self, "op", op)
        object.__setattr__(self, "feat", shape[0] if len(shape) == 1 else shape)
        object.__setattr__(self, "problem", Problem(op, op.dims(shape, None), self.dtype, self.graph.index_dtype))

    @property
    def dataset(self) -> str:
        """The graph's name, or ``unnamed``."""
        return self.graph.name or "unnamed"

    @property
    def width(self) -> int:
        """Numbers in a row of features."""
        return self.problem.width

    @property
    def spmm(self) -> SpMM:
        """The operator, for contenders that compute g-SpMM only."""
        assert isinstance(self.op, SpMM)
        return self.op

    @cached_property
    def inputs(self) -> tuple[Float32, ...]:
        """The operator's inputs, each of shape (rows, *row shape), standard normal, starting on a cache line."""
        counts = self.graph.row_counts
        return tuple(
            self._normal(stream, (*(() if each.rows == "once" else (counts[each.rows],)), *each.shape))
            for stream, each in enumerate(self.problem.inputs)
        )

    @property
    def arguments(self) -> tuple[Float32, ...]:
        """What changes from call to call: of a product's inputs the features, else all; edge values are the graph's."""
        return self.inputs[:1] if isinstance(self.op, SpMM) else self.inputs

    @property
    def x(self) -> Float32:
        """The first input, shape (num_src, F): the features of g-SpMM's sources."""
        return self.inputs[0]

    @property
    def w(self) -> Float32:
        """The edge values of g-SpMM, shape (num_edges,)."""
        return self.inputs[1]

    @cached_property
    def matrix_values(self) -> Float32:
        """Values that make the op a product A @ x, in CSR order, shape (num_edges,).

        Ones for copy_u, `w` for u_mul_e; divided by the in-degree of the row for mean.
        """
        values: Float32 = self.w.copy() if self.spmm.uses_edge else np.ones(self.graph.num_edges, np.float32)
        if self.spmm.reduce_op.divides_by_degree:
            degrees = np.diff(self.graph.indptr)
            values /= np.repeat(degrees, degrees).astype(np.float32)
        return values

    @cached_property
    def reference(self) -> Float64:
        """The right first output in float64, shape (rows, width)."""
        return self.op.reference(self.problem.dims, self._structure, *self._rows)[0]

    @cached_property
    def scale(self) -> Float64:
        """Magnitudes that rounding errors are proportional to, of that shape."""
        return self.op.error_scale(self.problem.dims, self._structure, *self._rows)[0]

    @property
    def _structure(self) -> Structure:
        return Structure(self.graph.indptr, self.graph.indices, None, self.graph.num_src)

    @property
    def _rows(self) -> list[Float32]:
        return [array.reshape(-1, each.width) for each, array in zip(self.problem.inputs, self.inputs, strict=True)]

    def _normal(self, stream: int, shape: tuple[int, ...]) -> Float32:
        values = aligned_zeros(shape)
        np.random.default_rng([self.seed, stream]).standard_normal(dtype=np.float32, out=values)
        return values
