"""The two custom operators through which torch sees every kernel: ``tvm_gnn::call`` and its gradient.

A kernel takes part as a `Token` of tensors: its number, and the graph's counts as sizes of tensors without elements.
Tensors are inputs of a compiled graph, so that one compilation serves kernels of any graph; the operator's name and row
shapes are constants of it. What a gradient consists of is decided when it runs, not when it is traced.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from ...errors import InputError, InputTypeError
from ...ops import Problem
from ...ops.operand import Operand
from . import (  # noqa: F401  they register their rules
    attention_gradients,
    product_gradients,
    relational_gradients,
    selection_gradients,
)
from .rules import RULES, gradients

if TYPE_CHECKING:
    from ..kernel import Kernel

_kernels: weakref.WeakValueDictionary[int, Kernel] = weakref.WeakValueDictionary()
_numbers = itertools.count()


class Token(NamedTuple):
    """What stands for a kernel in a traced program.

    Attributes
    ----------
    number : int64 tensor of shape (1,)
    dst, src, edge : tensors of shape (count, 0)
    """

    number: Tensor
    dst: Tensor
    src: Tensor
    edge: Tensor


def token_of(kernel: Kernel) -> Token:
    """A new token of a kernel, valid for as long as the kernel lives."""
    number = next(_numbers)
    _kernels[number] = kernel
    graph = kernel.graph
    sizes = (torch.empty(count, 0) for count in (graph.num_dst, graph.num_src, graph.num_edges))
    return Token(torch.tensor([number]), *sizes)


def call(description: str, token: Token, inputs: tuple[Tensor, ...]) -> list[Tensor]:
    """A kernel's outputs by the custom operator, in their canonical shapes; `description` is its problem's text."""
    results: list[Tensor] = torch.ops.tvm_gnn.call(list(inputs), *token, description)
    return results


def check_tensors(names: Sequence[str], arguments: Sequence[Any]) -> None:
    """Raise `InputTypeError` for an argument of another kind than the tensor that torch records."""
    for name, given in zip(names, arguments, strict=True):
        if not isinstance(given, Tensor):
            found = type(given).__name__
            raise InputTypeError(f"{name}: must be a torch array like the other arguments (got {found}).")


def kept_alive(kernel: Kernel, token: Token) -> Token:
    """The token with a number that keeps the kernel alive, as the backward pass of what is recorded needs it.

    torch keeps a tensor's Python object, and so what hangs on it, for as long as anything refers to the tensor. The
    kernel's own token must not do that: it would keep itself alive.
    """
    number = token.number.clone()
    number.kernel = kernel
    return token._replace(number=number)


@torch.library.custom_op("tvm_gnn::call", mutates_args=())  # type: ignore[untyped-decorator]
def _call(
    inputs: Sequence[Tensor], number: Tensor, dst: Tensor, src: Tensor, edge: Tensor, description: str
) -> list[Tensor]:
    kernel = _kernel(number)
    with torch.no_grad():
        return list(kernel.run_on([each.detach() for each in inputs]))


@_call.register_fake  # type: ignore[untyped-decorator]
def _(inputs: Sequence[Tensor], number: Tensor, dst: Tensor, src: Tensor, edge: Tensor, description: str) -> Any:
    problem = Problem.from_text(description)
    counts = {"src": src.shape[0], "dst": dst.shape[0], "edge": edge.shape[0]}
    for operand, given in zip(problem.inputs, inputs, strict=True):
        _check_fake(operand, given, problem)
    return [
        inputs[0].new_empty((*_rows(counts, operand), *operand.shape), dtype=getattr(torch, problem.dtype_of(operand)))
        for operand in problem.outputs
    ]


@torch.library.custom_op("tvm_gnn::call_backward", mutates_args=())  # type: ignore[untyped-decorator]
def _call_backward(
    inputs: Sequence[Tensor],
    outputs: Sequence[Tensor],
    grads: Sequence[Tensor],
    number: Tensor,
    needed: Sequence[bool],
) -> list[Tensor]:
    kernel = _kernel(number)
    with torch.no_grad():
        found = gradients(kernel, inputs, outputs, grads, needed)
    # A custom operator may return neither its inputs nor one array twice, as the gradient of a sum would.
    taken = {each.untyped_storage().data_ptr() for each in (*inputs, *outputs, *grads)}
    results = []
    for given, gradient in zip(inputs, found, strict=True):
        if gradient is not None:
            result = gradient.reshape(given.shape).contiguous()
            results.append(result.clone() if result.untyped_storage().data_ptr() in taken else result)
            taken.add(result.untyped_storage().data_ptr())
    return results


@_call_backward.register_fake  # type: ignore[untyped-decorator]
def _(
    inputs: Sequence[Tensor],
    outputs: Sequence[Tensor],
    grads: Sequence[Tensor],
    number: Tensor,
    needed: Sequence[bool],
) -> Any:
    return [given.new_empty(given.shape) for given, wanted in zip(inputs, needed, strict=True) if wanted]


def _refuse(ctx: Any, grads: list[Any]) -> tuple[Any, ...]:
    raise InputError("kernel: has no second derivatives (got a backward pass through its gradient).")


_call_backward.register_autograd(_refuse)


def _save(ctx: Any, inputs: tuple[Any, ...], output: list[Tensor]) -> None:
    arguments, number, *_, description = inputs
    found = RULES.get(Problem.from_text(description).op.primitive)
    kept = output if found is not None and found.keeps_outputs else []
    ctx.save_for_backward(*arguments, *kept, number)
    ctx.inputs = len(arguments)
    ctx.needed = [bool(each.requires_grad) for each in arguments]


def _backward(ctx: Any, grads: list[Any]) -> tuple[Any, ...]:
    *saved, number = ctx.saved_tensors
    arguments, outputs = saved[: ctx.inputs], saved[ctx.inputs :]
    found = iter(torch.ops.tvm_gnn.call_backward(arguments, outputs, grads, number, ctx.needed))
    return [next(found) if wanted else None for wanted in ctx.needed], None, None, None, None, None


_call.register_autograd(_backward, setup_context=_save)


def _kernel(number: Tensor) -> Kernel:
    kernel = _kernels.get(int(number))
    if kernel is None:
        raise InputError("kernel: must be alive as long as a program that was traced with it (got one that is gone).")
    return kernel


def _rows(counts: dict[str, Any], operand: Operand) -> tuple[Any, ...]:
    return () if operand.rows == "once" else (counts[operand.rows],)


def _check_fake(operand: Operand, given: Tensor, problem: Problem) -> None:
    # The counts are left to the call itself: comparing them here would tie a compiled program to one graph.
    shape = given.shape[0 if operand.rows == "once" else 1 :]
    if not operand.has_forms and tuple(shape) != operand.shape:
        raise InputError(f"{operand.name}: must have rows of shape {operand.shape} (got {tuple(shape)}).")
    wanted = getattr(torch, problem.dtype_of(operand))
    if given.dtype is not wanted:
        raise InputError(f"{operand.name}: must be {problem.dtype_of(operand)} (got {given.dtype}).")
