"""Message and reduce operators of g-SpMM: one row per operator, one expression for reference and kernel alike."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np


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
    magnitude : callable, optional
        ``magnitude(|u|, |e|)`` bounds the size of the operands of a rounding; default: `combine` itself.
    """

    name: str
    uses_src: bool
    uses_edge: bool
    combine: Callable[[Any, Any], Any]
    flops: int
    magnitude: Callable[[Any, Any], Any] | None = None


@dataclass(frozen=True)
class Reduce:
    """How the messages that reach a node become one value.

    Attributes
    ----------
    name : str
        ``sum``, ``mean``, ``max`` or ``min``.
    ufunc : numpy ufunc
        The reduction of two values in numpy. NaN wins over every number.
    better : callable, optional
        ``better(value, total)`` says which of two numbers a selecting reduction keeps; None: it adds.
    identity : float
        What a reduction starts from. A row without edges is 0 whatever it is.
    divides_by_degree : bool
        Whether the reduced value is divided by the in-degree (the edge count, also for weighted messages).
    """

    name: str
    ufunc: np.ufunc
    better: Callable[[Any, Any], Any] | None = None
    identity: float = 0.0
    divides_by_degree: bool = False


def _registry(*rows: Any) -> dict[str, Any]:
    return {row.name: row for row in rows}


MESSAGES: dict[str, Message] = _registry(
    Message("copy_u", uses_src=True, uses_edge=False, combine=lambda u, e: u, flops=0),
    Message("copy_e", uses_src=False, uses_edge=True, combine=lambda u, e: e, flops=0),
    Message("u_add_e", uses_src=True, uses_edge=True, combine=lambda u, e: u + e, flops=1),
    Message("u_sub_e", uses_src=True, uses_edge=True, combine=lambda u, e: u - e, flops=1, magnitude=operator.add),
    Message("u_mul_e", uses_src=True, uses_edge=True, combine=lambda u, e: u * e, flops=1),
    Message("u_div_e", uses_src=True, uses_edge=True, combine=lambda u, e: u / e, flops=1),
)
REDUCES: dict[str, Reduce] = _registry(
    Reduce("sum", np.add),
    Reduce("mean", np.add, divides_by_degree=True),
    Reduce("max", np.maximum, better=operator.gt, identity=-math.inf),
    Reduce("min", np.minimum, better=operator.lt, identity=math.inf),
)
