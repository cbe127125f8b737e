"""A benchmark case: one graph, one op, one width, with seeded inputs and the reference result."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ..arguments import integer
from ..errors import InputError
from ..ops.reference import error_scale, spmm_reference
from ..ops.registry import parse_op
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
    op : SpMM or str
        The operator or its name, such as ``u_mul_e_sum``; kept as the operator.
    feat : int
        Feature width F, at least 1.
    dtype : str
        ``float32``, the only one for now.
    seed : int
        Of the inputs; the same seed gives the same numbers.
    """

    graph: Graph
    op: SpMM
    feat: int
    dtype: str = "float32"
    seed: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "op", parse_op(self.op))
        object.__setattr__(self, "feat", integer("feat", self.feat))
        if self.feat < 1:
            raise InputError(f"feat: must be at least 1 (got {self.feat}).")
        if not self.op.uses_src:
            raise InputError(f"op: benchmarks need features of the sources (got {self.op.name}).")
        if self.dtype != "float32":
            raise InputError(f"dtype: benchmarks compare float32 only (got {self.dtype!r}).")

    @property
    def dataset(self) -> str:
        """The graph's name, or ``unnamed``."""
        return self.graph.name or "unnamed"

    @cached_property
    def x(self) -> Float32:
        """Source features, shape (num_src, F), standard normal, starting on a cache line."""
        return self._normal(0, (self.graph.num_src, self.feat))

    @cached_property
    def w(self) -> Float32:
        """Edge values in CSR order, shape (num_edges,), standard normal."""
        return self._normal(1, (self.graph.num_edges,))

    @cached_property
    def matrix_values(self) -> Float32:
        """Values that make the op a product A @ x, in CSR order, shape (num_edges,).

        Ones for copy_u, `w` for u_mul_e; divided by the in-degree of the row for mean.
        """
        values: Float32 = self.w.copy() if self.op.uses_edge else np.ones(self.graph.num_edges, np.float32)
        if self.op.reduce_op.divides_by_degree:
            degrees = np.diff(self.graph.indptr)
            values /= np.repeat(degrees, degrees).astype(np.float32)
        return values

    @cached_property
    def reference(self) -> Float64:
        """The right result in float64, shape (num_dst, F)."""
        return spmm_reference(self.op, *self._structure, self.x, self._edge_values)

    @cached_property
    def scale(self) -> Float64:
        """Magnitudes that rounding errors are proportional to, shape (num_dst, F)."""
        return error_scale(self.op, *self._structure, self.x, self._edge_values)

    @property
    def _structure(self) -> tuple[npt.NDArray[Any], npt.NDArray[Any], None]:
        return self.graph.indptr, self.graph.indices, None  # `w` is in CSR order already

    @property
    def _edge_values(self) -> Float32 | None:
        return self.w if self.op.uses_edge else None

    def _normal(self, stream: int, shape: tuple[int, ...]) -> Float32:
        values = aligned_zeros(shape)
        np.random.default_rng([self.seed, stream]).standard_normal(dtype=np.float32, out=values)
        return values
