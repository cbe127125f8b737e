"""Timing and checking one kernel on the workload; runs inside the measuring process."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from ..ops.tolerance import first_mismatch
from ..runtime.library import Library
from ..runtime.spmm_kernel import SpMMFrame
from .workload import Workload

WARM_S = 0.002
BLOCK_S = 0.002
ROUNDS = 7
# Finals are worth more care than trials.
FINAL_BLOCK_S = 0.004
FINAL_ROUNDS = 15
# One slow candidate must not eat the budget of ten.
MOST_S = 0.4

_GUARD_BYTES = 4096
_GUARD = 0xA5


class Output:
    """An output array between guard zones, filled with NaN, so that writes outside it and rows left out both show."""

    def __init__(self, shape: tuple[int, int], dtype: str) -> None:
        size = int(np.prod(shape)) * np.dtype(dtype).itemsize
        self._bytes = np.full(size + 2 * _GUARD_BYTES + 64, _GUARD, np.uint8)
        start = _GUARD_BYTES + -(self._bytes.ctypes.data + _GUARD_BYTES) % 64
        self._before, self._after = self._bytes[:start], self._bytes[start + size :]
        self.array = self._bytes[start : start + size].view(dtype).reshape(shape)

    def reset(self) -> None:
        """Fill the output with NaN."""
        self.array.fill(np.nan)

    def guards_intact(self) -> bool:
        """Whether no byte around the output was written."""
        return bool((self._before == _GUARD).all() and (self._after == _GUARD).all())


class Candidate:
    """A built library with launch parameters on the workload, ready to run.

    Parameters
    ----------
    library : Path
    launch : dict
        Launch parameters (`Task.launch`).
    edge_order : str, optional
        The order the library was built for; default: the task's.
    """

    def __init__(
        self, workload: Workload, output: Output, library: Path, launch: dict[str, int], edge_order: str | None = None
    ) -> None:
        edge_order = edge_order or workload.edge_order
        self._frame = SpMMFrame(
            Library(library),
            workload.graph,
            workload.feat,
            workload.dtype,
            edge_order,
            workload.op,
            workload.edge_width,
            launch,
        )
        self._output = output
        self._workload = workload
        self._addresses = (
            workload.x.ctypes.data,
            workload.w[edge_order].ctypes.data if workload.op.uses_edge else None,
            output.array.ctypes.data,
            workload.threads,
        )

    def run(self) -> None:
        """One call."""
        self._frame.run(*self._addresses)

    def wrong(self) -> str | None:
        """None when the result is that of the reference and nothing else was written; else what is wrong."""
        self._output.reset()
        self.run()
        if not self._output.guards_intact():
            return "wrote outside its output"
        workload = self._workload
        if np.array_equal(self._output.array, workload.rounded_reference):
            return None  # the usual case, ten times cheaper than saying how far off it is
        return first_mismatch(self._output.array, workload.reference, workload.rounding_scale, workload.dtype)


def time_interleaved(
    runs: list[Callable[[], None]], rounds: int = ROUNDS, block_s: float = BLOCK_S, most_s: float = MOST_S
) -> list[list[float]]:
    """Seconds per call of each, one sample per round: A B C A B C …, each a block of calls lasting `block_s`.

    Rounds are cut short, but not below three, once `most_s` per run is used up.
    """
    calls = [_calls_per_block(run, block_s) for run in runs]
    samples: list[list[float]] = [[] for _ in runs]
    deadline = time.perf_counter() + most_s * len(runs)
    for done in range(rounds):
        if done >= 3 and time.perf_counter() > deadline:
            break
        for run, count, sample in zip(runs, calls, samples, strict=True):
            run()  # the block before may have been another kernel's
            start = time.perf_counter()
            for _ in range(count):
                run()
            sample.append((time.perf_counter() - start) / count)
    return samples


def _calls_per_block(run: Callable[[], None], block_s: float) -> int:
    count = 0
    start = time.perf_counter()
    while (elapsed := time.perf_counter() - start) < WARM_S or count == 0:
        run()
        count += 1
    return max(1, round(block_s / (elapsed / count)))
