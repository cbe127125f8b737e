"""One side of a comparison, ready to run on a case, and the check it must pass before it is timed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np

from ..ops.tolerance import first_mismatch
from .case import Case

# Features of shape (num_src, F) in, something `np.asarray` reads as (num_dst, F) out.
Kernel = Callable[[Any], Any]
Run = Callable[[], Any]
Bind = Callable[[Kernel, Any], Run]
Array = Literal["numpy", "torch"]


@dataclass(frozen=True)
class Entrant:
    """A kernel made for one case, under the name that reports show.

    Attributes
    ----------
    name : str
    kernel : callable
        ``kernel(features)``; C-contiguous float32 of shape (num_src, F) in, (num_dst, F) out. The output may be a
        buffer that the next call overwrites, never the input.
    takes : {"numpy", "torch"}
        Kind of array the kernel reads.
    bind : callable
        ``bind(kernel, features)`` gives a call without arguments. Anything other than `partial` is for a library
        that can take features in once and run on them many times.
    """

    name: str
    kernel: Kernel
    takes: Array = "numpy"
    bind: Bind = partial

    def run_on(self, case: Case) -> Run:
        """A call without arguments that computes the case."""
        return self.bind(self.kernel, features_for(self.takes, case.x))


def features_for(takes: Array, x: Any) -> Any:
    """The features as the numpy array they are, or as a torch tensor on the same memory."""
    if takes == "numpy":
        return x
    import torch

    return torch.from_numpy(x)


def check(case: Case, run: Run) -> str | None:
    """None when the run gives the reference's numbers, else one line that names the worst place."""
    return first_mismatch(np.asarray(run()), case.reference, case.scale, case.dtype)
