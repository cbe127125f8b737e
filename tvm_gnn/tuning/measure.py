"""Timing and checking one kernel on the workload; runs inside the measuring process."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np

from ..ops.dtypes import itemsize_of, numpy_dtype
from ..ops.tolerance import first_mismatch
from ..runtime.kernel import BoundLibrary, KernelFrame
from ..runtime.library import Library
from ..templates.registry import template_of
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
    """An output array between guard zones, every bit set, so that writes outside it and rows left out both show."""

    def __init__(self, shape: tuple[int, ...], dtype: str) -> None:
        size = int(np.prod(shape)) * itemsize_of(dtype)
        self._bytes = np.full(size + 2 * _GUARD_BYTES + 64, _GUARD, np.uint8)
        start = _GUARD_BYTES + -(self._bytes.ctypes.data + _GUARD_BYTES) % 64
        self._before, self._after = self._bytes[:start], self._bytes[start + size :]
        self.array = self._bytes[start : start + size].view(numpy_dtype(dtype)).reshape(shape)

    def reset(self) -> None:
        """Fill the output with NaN, one of indices with -1."""
        self.array.reshape(-1).view(np.uint8).fill(0xFF)

    def guards_intact(self) -> bool:
        """Whether no byte around the output was written."""
        return bool((self._before == _GUARD).all() and (self._after == _GUARD).all())


class Candidate:
    """A built library with launch parameters on the workload, ready to run.

    Parameters
    ----------
    outputs : list of Output
        Of the workload's problem, in order; candidates that run in turn share them.
    library : Path
    launch : dict
        Launch parameters (`Task.launch`).
    edge_order : str, optional
        The order the library was built for; default: the task's.
    """

    def __init__(
        self,
        workload: Workload,
        outputs: list[Output],
        library: Path,
        launch: dict[str, int],
        edge_order: str | None = None,
    ) -> None:
        problem = replace(workload.problem, edge_order=edge_order or workload.problem.edge_order)
        bound = BoundLibrary(Library(library), template_of(problem).ARGUMENTS, launch)
        self._frame = KernelFrame(bound, workload.graph, problem)
        self._outputs = outputs
        self._expected = workload.expected(problem.edge_order)
        arrays = [*workload.inputs(problem.edge_order), *(output.array for output in outputs)]
        self._addresses = [array.ctypes.data for array in arrays]
        self._dtypes = [problem.dtype_of(each) for each in problem.outputs]
        self._threads = workload.threads

    def run(self) -> None:
        """One call."""
        self._frame.run(self._addresses, self._threads)

    def wrong(self) -> str | None:
        """None when the results are those of the reference and nothing else was written; else what is wrong."""
        for output in self._outputs:
            output.reset()
        self.run()
        for output, expected, dtype in zip(self._outputs, self._expected, self._dtypes, strict=True):
            if not output.guards_intact():
                return "wrote outside its output"
            if np.array_equal(output.array, expected.rounded):
                continue  # the usual case, ten times cheaper than saying how far off it is
            mismatch = first_mismatch(output.array, expected.reference, expected.scale, dtype)
            if mismatch is not None:
                return mismatch
        return None


def outputs_of(workload: Workload) -> list[Output]:
    """Guarded memory for the outputs of a workload's problem."""
    problem = workload.problem
    expected = workload.expected(problem.edge_order)
    return [
        Output(each.rounded.shape, problem.dtype_of(operand))
        for operand, each in zip(problem.outputs, expected, strict=True)
    ]


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
