"""The least time that moving a case's bytes takes on this machine, and what share of it a kernel reaches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .bandwidth import Bandwidth
from .case import Case


@dataclass(frozen=True)
class Roofline:
    """Two bounds from memory traffic; arithmetic of these operators is cheaper than either.

    Attributes
    ----------
    compulsory_bytes : int
        Structure, every input read once, every output written once.
    gathered_bytes : int
        A row of each gathered array per edge.
    compulsory_ms : float
        The compulsory bytes at the bandwidth of the level that holds all of them, each thread its share.
    gather_ms : float
        What is gathered, and everything else once, at the bandwidth of the level that holds the gathered arrays, of
        which every thread may need all. An order or a schedule that reuses rows from a closer level can be faster.
    """

    compulsory_bytes: int
    gathered_bytes: int
    compulsory_ms: float
    gather_ms: float

    @property
    def bound_ms(self) -> float:
        """The larger of the two bounds."""
        return max(self.compulsory_ms, self.gather_ms)

    def as_dict(self, ours_ms: float) -> dict[str, Any]:
        """Plain values for JSON, with the shares that a kernel of this time reaches."""
        return {
            "compulsory_bytes": self.compulsory_bytes,
            "gathered_bytes": self.gathered_bytes,
            "compulsory_ms": self.compulsory_ms,
            "gather_ms": self.gather_ms,
            "compulsory_share": self.compulsory_ms / ours_ms,
            "share": self.bound_ms / ours_ms,
        }


def roofline(case: Case, bandwidth: Bandwidth) -> Roofline:
    """The bounds of a case."""
    op, dims, rows = case.op, case.problem.dims, case.graph.row_counts
    sizes = (case.problem.itemsize, case.problem.index_itemsize)
    compulsory, per_edge = op.compulsory_bytes(dims, rows, *sizes), op.gathered_bytes(dims, *sizes)
    arrays, gathered = rows["src"] * per_edge, rows["edge"] * per_edge
    return Roofline(
        compulsory_bytes=compulsory,
        gathered_bytes=gathered,
        compulsory_ms=1e3 * compulsory / bandwidth.at(compulsory / bandwidth.threads),
        gather_ms=1e3 * (gathered + compulsory - arrays) / bandwidth.at(arrays) if per_edge else 0.0,
    )
