"""Sort pooling: of every segment the rows that are largest in their last feature, in order, and its reference."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from ..arguments import integer
from ..errors import InputError
from .dims import RowShape
from .operand import Dims, Operand, Structure
from .operator import Float64, Operator
from .options import options_text
from .top_k import largest_first

_LARGEST_WIDTH = 2**31 - 1
# Of what `SortPool.probe` draws.
_PROBE_SPREAD = 64


@dataclass(frozen=True)
class SortPool(Operator):
    """The k rows of each segment with the largest last feature, the largest first; zeros where a segment has fewer.

    NaN counts as larger than every number, of equal rows the lower comes first. On a graph of segments
    (`Graph.from_segments`) rows are its edges; on any other graph likewise, and the edge that is first in CSR order
    counts as the lower. The kernel takes ``(x)`` and gives ``(y, rows)``.

    Shapes
    ------
    x : (rows, F), F >= 1
    y : (segments, k, F)
    rows : (segments, k) in the graph's index dtype; the rows of x that `y` comes from, -1 where there is none
    """

    k: int = 32
    primitive: ClassVar[str] = "sort_pool"

    def __post_init__(self) -> None:
        count = integer("k", self.k)
        if count < 1:
            raise InputError(f"k: must be at least 1 (got {count}).")
        object.__setattr__(self, "k", count)

    @property
    def name(self) -> str:
        """``sort_pool``, with `k` where it is not 32."""
        return f"sort_pool{options_text(self)}"

    @property
    def uses_edges(self) -> bool:
        """See `Operator`."""
        return True

    def dims(self, feat: RowShape, edge_feat: RowShape | None) -> Dims:
        """See `Operator`; `feat` is the shape of a row of x."""
        if len(feat) != 1 or feat[0] < 1:
            raise InputError(f"feat: must be a width of at least 1 for {self.name} (got {feat}).")
        if self.k * feat[0] > _LARGEST_WIDTH:
            raise InputError(f"feat: times k must be at most 2**31 - 1 for {self.name} (got {feat[0]}).")
        if edge_feat is not None and tuple(edge_feat) != feat:
            raise InputError(f"edge_feat: must be feat for {self.name} (got {edge_feat} and {feat}).")
        return Dims(feat, feat)

    def inputs(self, dims: Dims) -> tuple[Operand, ...]:
        """``x``."""
        return (Operand("x", "edge", dims.feat),)

    def outputs(self, dims: Dims) -> tuple[Operand, ...]:
        """``y`` and ``rows``."""
        rows = Operand("rows", "dst", (self.k,), is_index=True, holds_edges=True)
        return (Operand("y", "dst", (self.k, *dims.feat)), rows)

    def flops(self, dims: Dims, num_dst: int, num_edges: int) -> int:
        """None: rows are compared and copied."""
        return 0

    def reference(self, dims: Dims, graph: Structure, *inputs: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], ...]:
        """See `Operator`."""
        x = np.asarray(inputs[0], np.float64)
        num_segments = len(graph.indptr) - 1
        y = np.zeros((num_segments, self.k, *dims.feat))
        rows = np.full((num_segments, self.k), -1, np.int64)
        for segment in range(num_segments):
            edges = np.arange(graph.indptr[segment], graph.indptr[segment + 1])
            ids = edges if graph.edge_ids is None else graph.edge_ids[edges]
            taken = ids[largest_first(x[ids, -1])[: self.k]]
            y[segment, : len(taken)] = x[taken]
            rows[segment, : len(taken)] = taken
        return y.reshape(num_segments, self.k * dims.feat[0]), rows

    def error_scale(self, dims: Dims, graph: Structure, *inputs: npt.NDArray[Any]) -> tuple[Float64, ...]:
        """See `Operator`; rows are copied as they are."""
        num_segments = len(graph.indptr) - 1
        return np.zeros((num_segments, self.k * dims.feat[0])), np.zeros((num_segments, self.k))

    def probe(self, operand: Operand, rows: int, rng: np.random.Generator) -> Float64:
        """See `Operator`; normal values, some of them equal."""
        values: Float64 = np.rint(rng.standard_normal((rows, operand.width)) * _PROBE_SPREAD)
        return values


def sort_pool(k: int = 32) -> SortPool:
    """The operator that keeps the `k` rows of each segment with the largest last feature.

    Examples
    --------
    >>> sort_pool(8).name
    'sort_pool(k=8)'

    Raises
    ------
    InputError, InputTypeError
        `k` is no positive integer.
    """
    return SortPool(k)
