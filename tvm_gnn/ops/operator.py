"""What every operator says of itself; a new primitive is a subclass in a file of its own, and a template."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from .dims import RowShape, width
from .dtypes import DTYPES, itemsize_of
from .operand import Dims, Operand, Structure

Float64 = npt.NDArray[np.float64]

# Of what `Operator.probe` draws.
LARGEST_PROBE = 4


class Operator(ABC):
    """An operator on a graph; immutable.

    Arrays of `reference` and `error_scale` have shape (rows, width): a row of several dims is flattened.
    """

    # By which its template is found.
    primitive: ClassVar[str]
    # Of values, that it is computed for.
    dtypes: ClassVar[tuple[str, ...]] = DTYPES
    # Which output reduces the edges of every destination, so that rows without one may be filled; None if none does.
    reduced: ClassVar[int | None] = None

    @property
    @abstractmethod
    def name(self) -> str:
        """By which `parse_op` finds it."""

    @abstractmethod
    def dims(self, feat: RowShape, edge_feat: RowShape | None) -> Dims:
        """The dims of a call; None asks for the operator's own default. Raises `InputError`."""

    @abstractmethod
    def inputs(self, dims: Dims) -> tuple[Operand, ...]:
        """What a call takes, in order."""

    @abstractmethod
    def outputs(self, dims: Dims) -> tuple[Operand, ...]:
        """What a call returns, in order."""

    @abstractmethod
    def flops(self, dims: Dims, num_dst: int, num_edges: int) -> int:
        """Floating-point operations of one call; an exponential counts as one."""

    @abstractmethod
    def reference(self, dims: Dims, graph: Structure, *inputs: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], ...]:
        """The outputs in float64; what is an index, in int64."""

    @abstractmethod
    def error_scale(self, dims: Dims, graph: Structure, *inputs: npt.NDArray[Any]) -> tuple[Float64, ...]:
        """For each output the rounding error to allow, in units of the dtype's eps (see `tolerance`); of an index 0."""

    def check_graph(self, counts: dict[str, int], num_relations: int | None) -> None:  # noqa: B027  most fit every graph
        """Raise `InputError` for a graph that the operator does not fit.

        `counts` is by kind of `Operand.rows`; `num_relations` is None for a graph that does not know it.
        """

    def probe(self, operand: Operand, rows: int, rng: np.random.Generator) -> Float64:
        """Seeded values for an input that show a wrong kernel: small positive integers, whose sums are exact."""
        return rng.integers(1, LARGEST_PROBE + 1, (rows, operand.width)).astype(np.float64)

    def largest_sum(self, dims: Dims, longest_row: int) -> float:
        """What a sum over `probe` values may reach while every step of it is an exact integer; inf if none is."""
        return math.inf

    def compulsory_bytes(self, dims: Dims, rows: dict[str, int], itemsize: int = 4, index_bytes: int = 4) -> int:
        """Bytes that any execution must move: structure, every input read once, every output written once.

        `rows` counts the rows of each kind of `Operand.rows`.
        """
        structure = (rows["dst"] + 1 + rows["edge"]) * index_bytes
        operands = (*self.inputs(dims), *self.outputs(dims))
        return structure + sum(rows[each.rows] * _row_bytes(each, itemsize, index_bytes) for each in operands)

    def gathered(self, dims: Dims) -> tuple[Operand, ...]:
        """The arrays of which every edge reads a row of its choice: the sources'."""
        return tuple(each for each in self.inputs(dims) if each.rows == "src")

    def gathered_bytes(self, dims: Dims, itemsize: int = 4, index_bytes: int = 4) -> int:
        """Bytes that one edge reads of the gathered arrays."""
        return sum(_row_bytes(each, itemsize, index_bytes) for each in self.gathered(dims))

    def is_empty(self, dims: Dims, rows: dict[str, int]) -> bool:
        """Whether no output element is computed from anything; `rows` counts those of each kind of `Operand.rows`."""
        return rows["edge"] == 0 or rows["dst"] == 0 or width(dims.feat) == 0

    @property
    def uses_edges(self) -> bool:
        """Whether a call takes or gives rows of edges or their positions, so that their order matters."""
        dims = self.dims((1, 1), None)
        return any(
            operand.rows == "edge" or operand.holds_edges for operand in (*self.inputs(dims), *self.outputs(dims))
        )


def _row_bytes(operand: Operand, itemsize: int, index_bytes: int) -> int:
    size = itemsize_of(operand.own_dtype) if operand.own_dtype else None
    return operand.width * (size or (index_bytes if operand.is_index else itemsize))
