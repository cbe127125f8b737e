"""Checks on the arrays a graph is built from; each names the argument, the bad value and its position."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..arguments import integer
from ..errors import GraphError, InputTypeError

IntArray = NDArray[np.integer[Any]]

MAX_INT32 = np.iinfo(np.int32).max
# An indptr for more rows than this exceeds any address space; numpy's own error would name neither argument nor rule.
MAX_NODES = 2**46


def is_tensor(value: object) -> bool:
    """Whether `value` is a torch tensor; never imports torch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def integer_array(value: Any, name: str, ndim: int = 1) -> IntArray:
    """`value` (numpy array, nested list or torch tensor) as an integer numpy array; may share the caller's memory.

    Raises
    ------
    InputTypeError
        The dtype is not an integer type: bool and float are refused even where every value is integral.
    GraphError
        The number of dimensions is not `ndim`, or nested lists are ragged.
    """
    array = _as_numpy(value, name)
    if array.size == 0 and isinstance(value, (list, tuple)):
        array = array.astype(np.int64)
    if not np.issubdtype(array.dtype, np.integer):
        raise InputTypeError(
            f"{name}: must hold integers (got dtype {array.dtype}). Convert it to int32 or int64 without loss first."
        )
    if array.ndim != ndim:
        raise GraphError(f"{name}: must have {ndim} dimension(s) (got shape {array.shape}).")
    return array


def _as_numpy(value: Any, name: str) -> NDArray[Any]:
    if isinstance(value, np.ma.MaskedArray):
        raise InputTypeError(f"{name}: must not be masked, every entry counts (got {type(value).__name__}).")
    try:
        if is_tensor(value):
            value = value.detach().cpu().numpy()
        return np.asarray(value)
    except (TypeError, RuntimeError) as error:
        raise InputTypeError(
            f"{name}: must be a numpy array, a list or a dense torch tensor of integers "
            f"(got {type(value).__name__}: {error})."
        ) from error
    except ValueError as error:
        raise GraphError(f"{name}: must be a regular array of integers (got {error}).") from error


def check_count(value: Any, name: str) -> int:
    """A number of nodes as a plain int: an integer (not bool) in [0, 2**46]."""
    count = integer(name, value)
    if count < 0:
        raise GraphError(f"{name}: must not be negative (got {count}).")
    if count > MAX_NODES:
        raise GraphError(f"{name}: must be at most 2**46 (got {count}). Relabel the nodes to 0 … n-1.")
    return count


def check_ids(ids: IntArray, count: int, name: str, count_name: str) -> None:
    """Every id lies in [0, count); cost: two reductions over `ids` when it holds."""
    if ids.size == 0 or (int(ids.min()) >= 0 and int(ids.max()) < count):
        return
    position = int(np.flatnonzero((ids < 0) | (ids >= count))[0])
    bad = int(ids[position])
    rule = "ids must not be negative" if bad < 0 else f"ids must be below {count_name} = {count}"
    raise GraphError(f"{name}: {rule} (got {bad} at position {position}).")


def check_same_length(one: IntArray, other: IntArray, first: str = "src", second: str = "dst") -> None:
    """Two lists, named `first` and `second`, pair up, one entry of each per edge."""
    if one.size != other.size:
        raise GraphError(
            f"{first} and {second}: must have one entry per edge each (got lengths {one.size} and {other.size})."
        )


def check_indptr(indptr: IntArray, num_indices: int, name: str = "indptr") -> None:
    """`indptr` starts at 0, never falls and ends at the number of indices."""
    if indptr.size == 0:
        raise GraphError(f"{name}: must have num_dst + 1 entries (got length 0). A graph without rows has [0].")
    if indptr[0] != 0:
        raise GraphError(f"{name}: must start at 0 (got {int(indptr[0])} at position 0).")
    falls = indptr[1:] < indptr[:-1]
    if falls.any():
        position = int(np.argmax(falls)) + 1
        raise GraphError(
            f"{name}: must never fall (got {int(indptr[position])} after {int(indptr[position - 1])} "
            f"at position {position})."
        )
    if int(indptr[-1]) != num_indices:
        raise GraphError(
            f"{name}: must end at the number of indices, {num_indices} "
            f"(got {int(indptr[-1])} at position {indptr.size - 1})."
        )


def inferred_count(ids: IntArray, name: str) -> int:
    """Largest id + 1, the number of nodes when the caller gave none; the empty list says nothing and is refused."""
    if ids.size == 0:
        raise GraphError(f"{name}: must be given when there are no edges to infer it from (got None).")
    return check_count(max(int(ids.max()), -1) + 1, name)


def index_dtype_for(*counts: int) -> np.dtype[Any]:
    """int32 when every count fits in it, else int64."""
    return np.dtype(np.int32 if max(counts) <= MAX_INT32 else np.int64)
