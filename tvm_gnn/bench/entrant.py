"""One side of a comparison, ready to run on a case, and the check it must pass before it is timed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np

from ..ops.tolerance import first_mismatch
from .case import Case

# `Case.arguments` in, something `np.asarray` reads as the case's first output out.
Kernel = Callable[..., Any]
Run = Callable[[], Any]
Bind = Callable[..., Run]
Array = Literal["numpy", "torch"]


@dataclass(frozen=True)
class Entrant:
    """A kernel made for one case, under the name that reports show.

    Attributes
    ----------
    name : str
    kernel : callable
        ``kernel(*arguments)`` with `Case.arguments`, C-contiguous float32. The output may be a buffer that the next
        call overwrites, never an input.
    takes : {"numpy", "torch"}
        Kind of array the kernel reads.
    bind : callable
        ``bind(kernel, *arguments)`` gives a call without arguments. Anything other than `partial` is for a library
        that can take arrays in once and run on them many times.
    """

    name: str
    kernel: Kernel
    takes: Array = "numpy"
    bind: Bind = partial

    def run_on(self, case: Case) -> Run:
        """A call without arguments that computes the case."""
        return self.bind(self.kernel, *(taken_as(self.takes, array) for array in case.arguments))


def taken_as(takes: Array, array: Any) -> Any:
    """The numpy array itself, or a torch tensor on the same memory."""
    if takes == "numpy":
        return array
    import torch

    return torch.from_numpy(array)


def check(case: Case, run: Run) -> str | None:
    """None when the run gives the reference's numbers, else one line that names the worst place."""
    got = np.asarray(run())
    expected = case.reference.shape[:1] + case.problem.outputs[0].shape
    # Some libraries keep a trailing one.
    if got.size == case.reference.size and got.shape[: len(expected)] == expected:
        got = got.reshape(case.reference.shape)
    return first_mismatch(got, case.reference, case.scale, case.dtype)
