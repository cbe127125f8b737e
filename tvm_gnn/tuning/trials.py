"""The trials of one run: measures what was built, keeps what each came to, has it recorded and told."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from ..templates.space import Decisions
from .budget import Budget
from .builder import BuildResult
from .history import History
from .recording import Recorder
from .report import Observer, TrialEvent
from .runner import RUN_TIMEOUT_S, Runner, RunResult
from .search import Frozen, frozen
from .task import Task

_LEAST_TIMEOUT_S = 5.0


class Trials:
    """What is known of the schedules so far.

    Parameters
    ----------
    task : Task
    budget : Budget
    recorder : Recorder
    observer : Observer
    warn : callable
        Told why the default schedule failed.

    Attributes
    ----------
    default_s : float or None
        The default schedule's time, once it is known.
    default_library : Path or None
        Its library: candidates are timed in turn with it where it is set.
    reused : int
        Trials of earlier runs.
    statuses : Counter of str
        Trials of this run by status.
    first_candidate_s : float or None
        From the start of the budget to the first right candidate of this run.
    """

    def __init__(
        self, task: Task, budget: Budget, recorder: Recorder, observer: Observer, warn: Callable[[str], None]
    ) -> None:
        self._task = task
        self._budget = budget
        self._recorder = recorder
        self._observer = observer
        self._warn = warn
        self._ok: dict[Frozen, tuple[Decisions, float]] = {}
        self.default_s: float | None = None
        self.default_library: Path | None = None
        self.reused = 0
        self.statuses: Counter[str] = Counter()
        self.first_candidate_s: float | None = None

    @property
    def measured(self) -> int:
        """Trials of this run."""
        return self.statuses.total()

    @property
    def finished(self) -> int:
        """Trials of all runs."""
        return self.reused + self.measured

    def best(self, count: int) -> list[Decisions]:
        """The fastest schedules so far."""
        return [choice for choice, _ in sorted(self._ok.values(), key=lambda entry: entry[1])[:count]]

    def take_over(self, history: History) -> None:
        """Count the trials of earlier runs as done."""
        self.reused = len(history.trials)
        self.default_s = history.default_s
        for choice, time_s in history.trials:
            if time_s is not None:
                self._ok[frozen(choice)] = (choice, time_s)

    def measure(self, choice: Decisions, built: BuildResult, runner: Runner) -> float | None:
        """Finish one trial; its seconds as if measured when the default first was, None when it failed."""
        run = self._run(choice, built, runner)
        is_default = choice == self._task.space.default
        time_s = run.time_s
        if run.speedup is not None and self.default_s is not None:
            time_s = self.default_s / run.speedup
        if time_s is not None:
            self._ok[frozen(choice)] = (choice, time_s)
            if self.first_candidate_s is None:
                self.first_candidate_s = self._budget.elapsed_s()
            if is_default:
                self.default_s = time_s
        elif is_default:
            self._warn(f"default schedule: {run.status}: {run.reason}")
        self.statuses[run.status] += 1
        beside_s = statistics.median(run.against_s) if run.against_s else self.default_s
        self._recorder.append(choice, run, self.finished - 1, beside_s)
        self._tell(choice, run, time_s)
        return time_s

    def _run(self, choice: Decisions, built: BuildResult, runner: Runner) -> RunResult:
        if built.library is None:
            return RunResult(status=built.status, reason=built.error)
        # A hung candidate must not eat much more than what is left of the budget.
        timeout_s = min(RUN_TIMEOUT_S, max(_LEAST_TIMEOUT_S, self._budget.left_s()))
        against = None
        if self.default_library is not None:
            against = (self.default_library, self._task.launch(self._task.space.default))
        return runner.run(built.library, self._task.launch(choice), timeout_s, against)

    def _tell(self, choice: Decisions, run: RunResult, time_s: float | None) -> None:
        best_s = min((seconds for _, seconds in self._ok.values()), default=None)
        self._observer.trial(
            TrialEvent(self.measured, choice, run.status, _ms(time_s), _ms(best_s), _ms(self.default_s), run.reason)
        )


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else seconds * 1e3
