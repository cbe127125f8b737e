"""g-SpMM: y[v] = reduce over e = (u → v) of message(x[u], w[e])."""

from __future__ import annotations

from dataclasses import dataclass

from ..errors import InputError
from .messages import MESSAGES, REDUCES, Message, Reduce


@dataclass(frozen=True)
class SpMM:
    """A g-SpMM operator, such as ``u_mul_e_sum``.

    The kernel takes ``(x, w)`` when the message reads both, ``(x)`` or ``(w)`` when it reads one.

    Shapes
    ------
    x : (num_src, F) or (num_src, H, D)
    w : (num_edges, *edge_feat), in the caller's edge order; see `default_edge_feat`
    y : (num_dst, F) or (num_dst, H, D); rows without an in-edge are 0
    """

    message: str
    reduce: str
    primitive: str = "spmm"

    @property
    def name(self) -> str:
        """DGL's name of the operator, ``<message>_<reduce>``."""
        return f"{self.message}_{self.reduce}"

    @property
    def message_op(self) -> Message:
        """The row of the message registry."""
        return MESSAGES[self.message]

    @property
    def reduce_op(self) -> Reduce:
        """The row of the reduce registry."""
        return REDUCES[self.reduce]

    @property
    def uses_src(self) -> bool:
        """Whether calls take features of the sources."""
        return self.message_op.uses_src

    @property
    def uses_edge(self) -> bool:
        """Whether calls take edge values."""
        return self.message_op.uses_edge

    def default_edge_feat(self, feat: tuple[int, ...]) -> tuple[int, ...]:
        """Shape of an edge's values unless the caller says another: one each, one per head, or for copy_e a row."""
        if not self.uses_src:
            return feat
        return () if len(feat) == 1 else (*feat[:-1], 1)

    def flops(self, num_dst: int, num_edges: int, feat: int) -> int:
        """Floating-point operations of one call: per edge and feature the message and one add."""
        divisions = num_dst * feat if self.reduce_op.divides_by_degree else 0
        return num_edges * feat * (self.message_op.flops + 1) + divisions

    def compulsory_bytes(
        self, num_dst: int, num_src: int, num_edges: int, feat: int, itemsize: int = 4, index_bytes: int = 4
    ) -> int:
        """Bytes that any execution must move: structure, edge values, features read once, output written once."""
        structure = (num_dst + 1 + num_edges) * index_bytes
        values = num_edges * itemsize if self.uses_edge else 0
        return structure + values + (num_src + num_dst) * feat * itemsize


def spmm(message: str, reduce: str = "sum") -> SpMM:
    """The g-SpMM operator with this message and reduce.

    Examples
    --------
    >>> spmm("u_mul_e", "sum").name
    'u_mul_e_sum'

    Raises
    ------
    InputError
        The message or the reduce is not in the registry.
    """
    if message not in MESSAGES:
        raise InputError(f"message: must be one of {', '.join(MESSAGES)} (got {message!r}).")
    if reduce not in REDUCES:
        raise InputError(f"reduce: must be one of {', '.join(REDUCES)} (got {reduce!r}).")
    return SpMM(message, reduce)
