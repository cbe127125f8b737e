"""Caller's arrays at the kernel's door: numpy or torch in, checked, as an address; the same kind out."""

from __future__ import annotations

import sys
from collections.abc import Callable, Container
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from ..errors import InputError, InputTypeError
from ..ops.dtypes import DTYPES, is_not_computed, numpy_dtype
from .addresses import address_of
from .outputs import Placed, aligned_empty


@dataclass(frozen=True)
class ArrayKind:
    """How one array library's arrays are checked, addressed and allocated.

    Attributes
    ----------
    name : str
    is_ready : callable
        ``(array, dtype, shape) -> bool``: whether it can be used as it is; the fast path of `placed`.
    check : callable
        ``(name, array)``: raises `InputTypeError` for an array of this library that no kernel can take.
    contiguous : callable
        ``(array) -> array``: the array itself when it is dense in row-major order and aligned, else a dense copy.
    address : callable
        ``(array) -> int``: address of its first element.
    dtype : callable
        ``(name) -> dtype`` as the library's arrays have it.
    empty : callable
        ``(shape, dtype) -> (array, address)`` of fresh, uninitialised memory.
    wrap : callable
        ``(array, dtype) -> array``: a numpy array of the `storage_dtype` as an array of this library on its memory.
    written : callable
        ``(array)``: told that the kernel has written into an array of the caller's.
    """

    name: str
    is_ready: Callable[[Any, Any, tuple[int, ...]], bool]
    check: Callable[[str, Any], None]
    contiguous: Callable[[Any], Any]
    address: Callable[[Any], int]
    dtype: Callable[[str], Any]
    empty: Callable[[tuple[int, ...], str], Placed]
    wrap: Callable[[Any, str], Any]
    written: Callable[[Any], None]


class SeenByTorch(Exception):
    """A call that torch records or traces: it must go through an operator that torch knows."""


def is_compiling(array: Any) -> bool:
    """Whether `torch.compile` is reading the call instead of running it."""
    if isinstance(array, np.ndarray):
        return False
    torch = sys.modules.get("torch")
    return torch is not None and torch.compiler.is_compiling()


def kind_of(name: str, array: Any) -> ArrayKind:
    """The array library `array` comes from.

    Raises
    ------
    InputTypeError
        Neither numpy nor torch, or a transform for which kernels have no rule.
    SeenByTorch
        torch traces the call.
    """
    if isinstance(array, np.ndarray):
        return NUMPY
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(array, torch.Tensor):
        if not _is_plain_call():
            _refuse_transforms(name, array)
            raise SeenByTorch
        return TORCH
    raise InputTypeError(f"{name}: must be a numpy array or a torch tensor (got {type(array).__name__}).")


def placed(
    name: str,
    array: Any,
    kind: ArrayKind,
    shape: tuple[int, ...],
    dtype: str,
    forms: Container[tuple[int, ...]] = (),
) -> Placed:
    """`array` dense and aligned, with its address, after checking its kind, dtype, shape and device.

    `forms` are other shapes that mean the same.

    Raises
    ------
    InputTypeError
        Another kind of array, another dtype, a sparse layout or another device.
    InputError
        Another shape.
    SeenByTorch
        A tensor that requires gradients, with gradients enabled.
    """
    if kind.is_ready(array, kind.dtype(dtype), shape):
        address = kind.address(array)
        if address:
            return array, address
    if kind_of(name, array) is not kind:
        raise InputTypeError(
            f"{name}: must be a {kind.name} array like the first argument (got {type(array).__name__})."
        )
    kind.check(name, array)
    if array.dtype != kind.dtype(dtype):
        found = str(array.dtype).removeprefix("torch.")
        hint = f", or load a kernel for {found}" if found in DTYPES else ""
        if is_not_computed(found):
            hint = ": kernels compute floating-point numbers, neither integers nor complex ones"
        raise InputTypeError(f"{name}: must be {dtype} (got {found}). Convert it{hint}.")
    if array.shape != shape and array.shape not in forms:
        raise InputError(f"{name}: must have shape {shape} (got {tuple(array.shape)}).")
    dense = kind.contiguous(array)
    address = kind.address(dense)
    if not address and 0 not in shape:
        raise InputTypeError(f"{name}: must hold data (got {type(array).__name__} without memory).")
    return dense, address


def placed_out(
    array: Any,
    kind: ArrayKind,
    shape: tuple[int, ...],
    dtype: str,
    others: list[Placed],
    forms: Container[tuple[int, ...]] = (),
) -> Placed:
    """The caller's output buffer after the same checks; it must be dense, writable and apart from all others."""
    dense, address = placed("out", array, kind, shape, dtype, forms)
    if dense is not array:
        raise InputError("out: must be contiguous in row-major order (got other strides).")
    if kind is NUMPY and not array.flags.writeable:
        raise InputError("out: must be writable (got a read-only array).")
    for other, begin in others:
        if address < begin + int(other.nbytes) and begin < address + int(array.nbytes):
            raise InputError("out: must not share memory with an input or another output (got overlapping buffers).")
    return array, address


def _check_numpy(name: str, array: Any) -> None:
    if hasattr(array, "mask"):
        raise InputTypeError(f"{name}: must not be masked, kernels read every element (got {type(array).__name__}).")


def _check_torch(name: str, tensor: Any) -> None:
    torch = sys.modules["torch"]
    _refuse_fake(name, tensor)
    if tensor.layout is not torch.strided:
        raise InputTypeError(f"{name}: must be a dense tensor (got layout {tensor.layout}).")
    if tensor.device.type != "cpu":
        raise InputTypeError(f"{name}: must be on the CPU, where this kernel runs (got device {tensor.device}).")
    if _has_tangent(tensor):
        raise InputTypeError(f"{name}: must have no tangent, kernels have no forward-mode derivative (got one).")
    if tensor.requires_grad and torch.is_grad_enabled():
        raise SeenByTorch


def _numpy_is_ready(array: Any, dtype: Any, shape: tuple[int, ...]) -> bool:
    if type(array) is not np.ndarray or array.dtype != dtype or array.shape != shape:
        return False
    flags = array.flags
    return flags.c_contiguous and flags.aligned


def _torch_is_ready(tensor: Any, dtype: Any, shape: tuple[int, ...]) -> bool:
    torch = sys.modules["torch"]
    return (
        type(tensor) in (torch.Tensor, torch.nn.Parameter)
        and tensor.dtype is dtype
        and tensor.shape == shape
        and tensor.is_cpu
        and tensor.layout is torch.strided
        and tensor.is_contiguous()
        and not tensor.is_neg()
        and not (tensor.requires_grad and torch.is_grad_enabled())
        and not _has_tangent(tensor)
    )


def _refuse_fake(name: str, tensor: Any) -> None:
    fake_tensor = sys.modules.get("torch._subclasses.fake_tensor")
    if fake_tensor is not None and isinstance(tensor, fake_tensor.FakeTensor):
        raise InputTypeError(f"{name}: must hold data outside torch.compile (got a FakeTensor).")


def _refuse_transforms(name: str, tensor: Any) -> None:
    """Raise `InputTypeError` under vmap, grad and jvp of torch.func: some would give wrong numbers silently."""
    _refuse_fake(name, tensor)
    innermost = sys.modules["torch"]._C._functorch.peek_interpreter_stack()
    if innermost is not None and innermost.key().name != "Functionalize":
        raise InputTypeError(
            f"{name}: must not be transformed, kernels have no rule for it (got a call under torch.func's "
            f"{innermost.key().name.lower()}). Use torch.autograd, or call it outside."
        )


def _is_plain_call() -> bool:
    """Whether torch merely runs: nothing records operators or swaps tensors, which a call by address would escape."""
    torch_c = sys.modules["torch"]._C
    return (
        torch_c._get_tracing_state() is None
        and torch_c._len_torch_dispatch_stack() == 0
        and torch_c._functorch.peek_interpreter_stack() is None
    )


def _has_tangent(tensor: Any) -> bool:
    """Whether forward-mode differentiation is under way and follows this tensor."""
    forward_ad = sys.modules["torch"].autograd.forward_ad
    return forward_ad._current_level >= 0 and forward_ad.unpack_dual(tensor).tangent is not None


def _numpy_contiguous(array: Any) -> Any:
    dense = array.flags.c_contiguous and array.flags.aligned
    return array if dense else np.array(array, order="C", copy=True)


def _torch_empty(shape: tuple[int, ...], dtype: str) -> Placed:
    tensor = sys.modules["torch"].empty(*shape, dtype=_torch_dtype(dtype))
    return tensor, tensor.data_ptr()


def _torch_over(array: Any, dtype: str) -> Any:
    tensor = sys.modules["torch"].from_numpy(array)
    return tensor.view(_torch_dtype(dtype)) if dtype == "bfloat16" else tensor


@cache
def _torch_dtype(name: str) -> Any:
    return getattr(sys.modules["torch"], name)


NUMPY = ArrayKind(
    name="numpy",
    is_ready=_numpy_is_ready,
    check=_check_numpy,
    contiguous=_numpy_contiguous,
    address=address_of,
    dtype=numpy_dtype,
    empty=aligned_empty,
    wrap=lambda array, dtype: array.view(numpy_dtype(dtype)) if dtype == "bfloat16" else array,
    written=lambda array: None,
)
TORCH = ArrayKind(
    name="torch",
    is_ready=_torch_is_ready,
    check=_check_torch,
    contiguous=lambda tensor: tensor.contiguous().resolve_neg(),
    address=lambda tensor: tensor.data_ptr(),
    dtype=_torch_dtype,
    empty=_torch_empty,
    wrap=_torch_over,
    # A backward pass that saved the tensor must notice, as with every in-place operator of torch.
    written=lambda tensor: sys.modules["torch"].autograd.graph.increment_version(tensor),
)
