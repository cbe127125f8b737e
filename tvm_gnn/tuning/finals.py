"""The last comparison: the best candidates and the default in turn; the default wins unless it is clearly beaten."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from pathlib import Path

from ..templates.space import Decisions
from .runner import Runner, RunResult
from .task import Task

# A winner must be faster in the median and in most of the rounds: the best of several noisy times is optimistic.
MIN_GAIN = 1.01
MIN_ROUNDS_WON = 0.6


@dataclass(frozen=True)
class Final:
    """The schedule to keep, and medians of the final comparison."""

    decisions: Decisions
    library: Path
    best_ms: float
    default_ms: float

    @property
    def speedup(self) -> float:
        """Default time over the winner's; 1 when the default won."""
        return self.default_ms / self.best_ms


def pick_winner(candidates: list[tuple[Decisions, Path]], task: Task, runner: Runner) -> Final | RunResult:
    """Compare `candidates`, the default first; the failure of the default when it cannot be measured any more.

    Another finalist that fails now (it was right before) is left out and the rest is compared again.
    """
    while True:
        times = runner.compare([(library, task.launch(choice)) for choice, library in candidates])
        if not isinstance(times, RunResult):
            return _decide(candidates, times)
        if len(candidates) == 1:
            return times
        runs = [runner.run(library, task.launch(choice)) for choice, library in candidates]
        if runs[0].status != "ok":
            return runs[0]
        sound = [entry for entry, run in zip(candidates, runs, strict=True) if run.status == "ok"]
        # All are fine one by one and fail together: nothing but the default is to be trusted.
        candidates = sound if len(sound) < len(candidates) else candidates[:1]


def _decide(candidates: list[tuple[Decisions, Path]], times: list[list[float]]) -> Final:
    default_times = times[0]
    default_ms = statistics.median(default_times) * 1e3
    winner, best_ms = 0, default_ms
    for index in range(1, len(candidates)):
        median_ms = statistics.median(times[index]) * 1e3
        won = sum(mine < theirs for mine, theirs in zip(times[index], default_times, strict=True))
        beats_default = default_ms / median_ms >= MIN_GAIN and won >= MIN_ROUNDS_WON * len(default_times)
        if beats_default and median_ms < best_ms:
            winner, best_ms = index, median_ms
    choice, library = candidates[winner]
    return Final(choice, library, best_ms, default_ms)
