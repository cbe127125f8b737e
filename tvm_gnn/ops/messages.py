"""Message and reduce operators of g-SpMM: one row per operator, one expression for reference and kernel alike."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Message:
    """What travels along an edge u → v.

    Attributes
    ----------
    name : str
        DGL's name, such as ``u_mul_e``.
    uses_src, uses_edge : bool
        Whether the message reads the source's features, the edge's value.
    combine : callable
        ``combine(u, e)`` on numpy arrays or on TensorIR expressions; the operand that is not used is None.
    flops : int
        Floating-point operations per edge and feature, without the reduction.
    """

    name: str
    uses_src: bool
    uses_edge: bool
    combine: Callable[[Any, Any], Any]
    flops: int


@dataclass(frozen=True)
class Reduce:
    """How the messages that reach a node become one value.

    Attributes
    ----------
    name : str
        ``sum`` or ``mean``.
    divides_by_degree : bool
        Whether the reduced value is divided by the in-degree (the edge count, also for weighted messages).
    """

    name: str
    divides_by_degree: bool


def _registry(*rows: Any) -> dict[str, Any]:
    return {row.name: row for row in rows}


MESSAGES: dict[str, Message] = _registry(
    Message("copy_u", uses_src=True, uses_edge=False, combine=lambda u, e: u, flops=0),
    Message("u_mul_e", uses_src=True, uses_edge=True, combine=lambda u, e: u * e, flops=1),
)
REDUCES: dict[str, Reduce] = _registry(
    Reduce("sum", divides_by_degree=False),
    Reduce("mean", divides_by_degree=True),
)
