"""Kernels called through ctypes: features go in as an address, results appear in a buffer of ours."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from ...errors import InputError
from ..aligned import aligned_zeros
from ..case import Case
from ..entrant import Run


class AddressKernel:
    """``kernel(x)`` for a native function that reads x at an address and writes `out`.

    Parameters
    ----------
    case : Case
    launch : callable
        ``launch(x_address, out_address)``.
    """

    def __init__(self, case: Case, launch: Callable[[int, int], Any]) -> None:
        self.out = aligned_zeros((case.graph.num_dst, case.width))
        self._x_shape = (case.graph.num_src, case.width)
        self._out_address = self.out.ctypes.data
        self._launch = launch

    def __call__(self, x: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        self._launch(self._address(x), self._out_address)
        return self.out

    def bind(self, x: npt.NDArray[np.float32]) -> Run:
        """A call that looks the address up once, as an expert would: numpy takes half a microsecond for it."""
        launch, address, out_address, out = self._launch, self._address(x), self._out_address, self.out

        # The addresses and what `launch` works on live as long as the kernel and x, hence as this call.
        def run(keep_alive: tuple[object, object] = (self, x)) -> npt.NDArray[np.float32]:
            launch(address, out_address)
            return out

        return run

    def _address(self, x: npt.NDArray[np.float32]) -> int:
        if x.dtype != np.float32 or x.shape != self._x_shape or not x.flags.c_contiguous:
            raise InputError(
                f"x: must be C-contiguous float32 of shape {self._x_shape} (got {x.dtype} of shape {x.shape}, "
                f"strides {x.strides})."
            )
        return int(x.ctypes.data)


def bind_address(kernel: Any, x: npt.NDArray[np.float32]) -> Run:
    """`AddressKernel.bind` as the `bind` of a contender."""
    run: Run = kernel.bind(x)
    return run
