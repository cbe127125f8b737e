"""The gradient of every primitive, in terms of other kernels and plain torch.

What flows back to sources is gathered on the reversed graph, what flows back to destinations on the graph itself, so
that no gradient needs atomics and each is as reproducible as the forward pass.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from torch import Tensor

from ...errors import InputError

if TYPE_CHECKING:
    from ..kernel import Kernel

# (kernel, inputs, outputs, gradients of the outputs, which inputs need one) → a gradient for each input that needs one.
# Arrays are in their canonical shapes; outputs are there only for rules that keep them.
Arrays: TypeAlias = "list[Tensor]"
Function: TypeAlias = "Callable[[Kernel, Arrays, Arrays, Arrays, Sequence[bool]], list[Tensor | None]]"


class Rule(NamedTuple):
    """How the gradients of one primitive are computed, and whether that takes the outputs too."""

    function: Function
    keeps_outputs: bool


# By primitive.
RULES: dict[str, Rule] = {}


def rule(primitive: str, keeps_outputs: bool = False) -> Callable[[Function], Function]:
    """Register a function as the rule of a primitive."""

    def register(function: Function) -> Function:
        RULES[primitive] = Rule(function, keeps_outputs)
        return function

    return register


def gradients(
    kernel: Kernel,
    inputs: Sequence[Tensor],
    outputs: Sequence[Tensor],
    grads: Sequence[Tensor],
    needed: Sequence[bool],
) -> list[Tensor | None]:
    """Gradients of the inputs that need one, None for the others; arrays in any form that the kernel takes."""
    problem = kernel.problem
    if problem.op.primitive not in RULES:
        raise InputError(f"op: {problem.op.name} has no gradient. Call it under torch.no_grad().")
    arrays = [
        given.reshape(*([] if operand.rows == "once" else [given.shape[0]]), *operand.shape)
        for operand, given in zip(problem.inputs, inputs, strict=True)
    ]
    return RULES[problem.op.primitive].function(kernel, arrays, list(outputs), list(grads), needed)
