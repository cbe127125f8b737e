"""The arrays of an operator's call: what they are named, which rows they have, what a row looks like."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy.typing as npt

from .dims import RowShape, width

# One row per source node, per destination node, per edge, or one for the whole graph.
Rows = Literal["src", "dst", "edge", "once"]


class Dims(NamedTuple):
    """Shapes of a row of node features and of an edge's values; what each means for an operand, the operator says."""

    feat: RowShape
    edge_feat: RowShape


class Structure(NamedTuple):
    """A graph as kernels and references read it.

    Shapes
    ------
    indptr (num_dst + 1,), indices (nnz,), edge_ids (nnz,) or None where edge rows are in CSR order
    """

    indptr: npt.NDArray[Any]
    indices: npt.NDArray[Any]
    edge_ids: npt.NDArray[Any] | None
    num_src: int


@dataclass(frozen=True)
class Operand:
    """One array of a call.

    Attributes
    ----------
    name : str
        The argument's name.
    rows : {"src", "dst", "edge", "once"}
        What its rows belong to; rows of edges are in the caller's edge order.
    shape : tuple of int
        Of one row.
    is_index : bool
        Whether it holds positions instead of values, in the graph's index dtype unless `below` is given.
    holds_edges : bool
        Whether those are edges, in the order in which rows of edges come, -1 for none.
    below : int, optional
        Of positions whose range the graph has no part in: what each is less than, at most 65536. They are as narrow as
        it allows.
    like : str, optional
        Of an output: the input whose form (trailing ones left out or added) it takes.
    ones_optional : bool
        Of other rows than those of edges: whether trailing ones of a row's shape may be left out or added in calls, as
        they always may be with edges.
    """

    name: str
    rows: Rows
    shape: RowShape
    is_index: bool = False
    holds_edges: bool = False
    below: int | None = None
    like: str | None = None
    ones_optional: bool = False

    @property
    def has_forms(self) -> bool:
        """Whether trailing ones of a row's shape may be left out or added in calls."""
        return self.rows == "edge" or self.ones_optional

    @property
    def width(self) -> int:
        """Numbers in a row."""
        return width(self.shape)

    @property
    def of_nothing(self) -> int:
        """What an output holds where there is nothing to compute it from."""
        return -1 if self.holds_edges else 0

    @property
    def own_dtype(self) -> str | None:
        """The dtype, where it is the same for every graph and whatever the dtype of values."""
        if self.below is None:
            return None
        return "uint8" if self.below <= 1 << 8 else "uint16"
