"""Progress of a tuning run on standard error: a bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import time
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from ..tuning.budget import Budget
from ..tuning.report import TrialEvent
from ..tuning.task import Task

_LINE_EVERY_S = 5.0


class TuneProgress:
    """An observer of `Tuner`; a context manager around the run."""

    def __init__(self, quiet: bool) -> None:
        self._console = Console(stderr=True, quiet=quiet)
        self._bar: Progress | None = None
        self._budget: Budget | None = None
        self._last_line_s = 0.0

    def __enter__(self) -> TuneProgress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def started(self, task: Task, budget: Budget, reused: int) -> None:
        """See `Observer`."""
        graph = task.graph
        self._console.print(
            f"tuning [bold]{task.op.name}[/] feat={task.feat} on {graph.name or 'graph'}: {graph.num_dst} rows, "
            f"{graph.num_edges} edges, {task.target.threads} threads" + (f", {reused} trials known" if reused else ""),
            highlight=False,
            soft_wrap=True,
        )
        self._budget = budget
        if self._console.is_terminal and not self._console.quiet:
            self._bar = Progress(
                SpinnerColumn(),
                BarColumn(),
                TimeElapsedColumn(),
                TextColumn("{task.description}"),
                console=self._console,
            )
            self._bar.start()
            self._task = self._bar.add_task("building the default schedule", total=1.0)

    def trial(self, event: TrialEvent) -> None:
        """See `Observer`."""
        text = _state(event)
        if self._bar is not None:
            self._bar.update(self._task, completed=self._share(event), description=text)
        elif event.finished == 1 or time.monotonic() - self._last_line_s > _LINE_EVERY_S:
            self._last_line_s = time.monotonic()
            self._console.print(text, highlight=False, soft_wrap=True)

    def comparing(self, candidates: int) -> None:
        """See `Observer`."""
        text = f"comparing the default and the {candidates - 1} best in turn"
        if self._bar is not None:
            self._bar.update(self._task, completed=1.0, description=text)
        else:
            self._console.print(text, highlight=False, soft_wrap=True)

    def _share(self, event: TrialEvent) -> float:
        budget = self._budget
        assert budget is not None
        of_time = budget.elapsed_s() / budget.seconds if budget.seconds else 0.0
        of_trials = event.finished / budget.trials if budget.trials else 0.0
        return min(1.0, max(of_time, of_trials))


def _state(event: TrialEvent) -> str:
    if event.best_ms is None:
        return f"{event.finished} trials, none valid yet ({event.status}: {event.reason})"
    speedup = f", {event.default_ms / event.best_ms:.2f}x the default" if event.default_ms else ""
    return f"{event.finished} trials, best {event.best_ms:.4g} ms{speedup}"
