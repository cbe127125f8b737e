"""Caller's arrays at the kernel's door: numpy or torch in, checked, as an address; the same kind out."""

from __future__ import annotations

import sys
from collections.abc import Callable, Container
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from ..errors import InputError, InputTypeError
from ..ops.dims import DTYPES
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
        ``(array) -> array``: a numpy array as an array of this library on the same memory.
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
    wrap: Callable[[Any], Any]
    written: Callable[[Any], None]


def kind_of(name: str, array: Any) -> ArrayKind:
    """The array library `array` comes from; raises `InputTypeError` for any but numpy and torch, and under a tracer."""
    if isinstance(array, np.ndarray):
        return NUMPY
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(array, torch.Tensor):
        if not _is_plain_call():
            raise InputTypeError(
                f"{name}: must not be traced or transformed, torch cannot see into this kernel (got a call under "
                "torch.jit.trace, make_fx, vmap or another mode). Call it outside."
            )
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
        other = f", or load a kernel for {found}" if found in DTYPES else ""
        raise InputTypeError(f"{name}: must be {dtype} (got {found}). Convert it{other}.")
    if array.shape != shape and array.shape not in forms:
        raise InputError(f"{name}: must have shape {shape} (got {tuple(array.shape)}).")
    dense = kind.contiguous(array)
    address = kind.address(dense)
    if not address and 0 not in shape:
        raise InputTypeError(f"{name}: must hold data (got {type(array).__name__} without memory).")
    return dense, address


def placed_out(array: Any, kind: ArrayKind, shape: tuple[int, ...], dtype: str, inputs: list[Placed]) -> Placed:
    """The caller's output buffer after the same checks; it must be dense, writable and apart from the inputs."""
    dense, address = placed("out", array, kind, shape, dtype)
    if dense is not array:
        raise InputError("out: must be contiguous in row-major order (got other strides).")
    if kind is NUMPY and not array.flags.writeable:
        raise InputError("out: must be writable (got a read-only array).")
    for other, begin in inputs:
        if address < begin + int(other.nbytes) and begin < address + int(array.nbytes):
            raise InputError("out: must not share memory with an input (got overlapping buffers).")
    return array, address


def _check_numpy(name: str, array: Any) -> None:
    if hasattr(array, "mask"):
        raise InputTypeError(f"{name}: must not be masked, kernels read every element (got {type(array).__name__}).")


def _check_torch(name: str, tensor: Any) -> None:
    torch = sys.modules["torch"]
    fake_tensor = sys.modules.get("torch._subclasses.fake_tensor")
    if fake_tensor is not None and isinstance(tensor, fake_tensor.FakeTensor):
        raise InputTypeError(f"{name}: must hold data (got a FakeTensor).")
    if tensor.layout is not torch.strided:
        raise InputTypeError(f"{name}: must be a dense tensor (got layout {tensor.layout}).")
    if tensor.device.type != "cpu":
        raise InputTypeError(f"{name}: must be on the CPU, where this kernel runs (got device {tensor.device}).")
    if (tensor.requires_grad and torch.is_grad_enabled()) or _has_tangent(tensor):
        raise InputTypeError(
            f"{name}: must not require gradients, this kernel has no backward pass (got a tensor that does). "
            "Call it under torch.no_grad() or detach the tensor."
        )


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


@cache
def _torch_dtype(name: str) -> Any:
    return getattr(sys.modules["torch"], name)


NUMPY = ArrayKind(
    name="numpy",
    is_ready=_numpy_is_ready,
    check=_check_numpy,
    contiguous=_numpy_contiguous,
    address=address_of,
    dtype=cache(np.dtype),
    empty=aligned_empty,
    wrap=lambda array: array,
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
    wrap=lambda array: sys.modules["torch"].from_numpy(array),
    # A backward pass that saved the tensor must notice, as with every in-place operator of torch.
    written=lambda tensor: sys.modules["torch"].autograd.graph.increment_version(tensor),
)
