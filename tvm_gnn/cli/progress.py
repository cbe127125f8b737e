"""Progress of a tuning run on standard error: a bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import io
import sys
import time
from types import TracebackType
from typing import TextIO, cast

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from ..arguments import printable
from ..tuning.budget import Budget
from ..tuning.report import TrialEvent
from ..tuning.task import Task
from .output import counted

_LINE_EVERY_S = 5.0


class TuneProgress:
    """An observer of `Tuner`; a context manager around the run."""

    def __init__(self, quiet: bool) -> None:
        # What is printed has names and messages of others in it: none of it is markup.
        self._console = Console(
            file=cast(TextIO, _BestEffort(sys.stderr)), quiet=quiet, markup=False, emoji=False, highlight=False
        )
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
        self._line(
            f"tuning {task.op.name} feat={task.feat} on {graph.name or 'graph'}: {counted(graph.num_dst, 'row')}, "
            f"{counted(graph.num_edges, 'edge')}, {counted(task.target.threads, 'thread')}"
            + (f", {counted(reused, 'trial')} known" if reused else "")
        )
        self._budget = budget
        if self._console.is_terminal and not self._console.is_dumb_terminal and not self._console.quiet:
            self._bar = Progress(
                SpinnerColumn(),
                BarColumn(),
                TimeElapsedColumn(),
                TextColumn("{task.description}", markup=False),
                console=self._console,
            )
            self._bar.start()
            self._task = self._bar.add_task("building the default schedule", total=1.0)

    def trial(self, event: TrialEvent) -> None:
        """See `Observer`."""
        text = _state(event)
        if self._bar is not None:
            self._bar.update(self._task, completed=self._share(event), description=printable(text))
        elif event.finished == 1 or time.monotonic() - self._last_line_s > _LINE_EVERY_S:
            self._last_line_s = time.monotonic()
            self._line(text)

    def comparing(self, candidates: int) -> None:
        """See `Observer`."""
        others = candidates - 1
        text = f"comparing the default and the {f'{others} best' if others > 1 else 'best'} in turn"
        if not others:
            text = "measuring the default schedule again"
        if self._bar is not None:
            self._bar.update(self._task, completed=1.0, description=text)
        else:
            self._line(text)

    def _line(self, text: str) -> None:
        self._console.print(printable(text), soft_wrap=True)

    def _share(self, event: TrialEvent) -> float:
        budget = self._budget
        if budget is None:
            return 0.0
        of_time = budget.elapsed_s() / budget.seconds if budget.seconds else 0.0
        of_trials = event.finished / budget.trials if budget.trials else 0.0
        return min(1.0, max(of_time, of_trials))


class _BestEffort(io.TextIOBase):
    """Standard error as long as it can be written: a run does not end because nobody can be told how it goes."""

    def __init__(self, stream: TextIO | None) -> None:
        self._stream = stream

    @property
    def encoding(self) -> str:  # type: ignore[override]
        """What the bar's signs must be made of."""
        return getattr(self._stream, "encoding", None) or "utf-8"

    def isatty(self) -> bool:
        """Whether a bar may be drawn."""
        try:
            return self._stream is not None and self._stream.isatty()
        except ValueError:  # closed
            return False

    def write(self, text: str) -> int:
        """Write, or never again."""
        self._attempt(text)
        return len(text)

    def flush(self) -> None:
        """Flush, or never again."""
        self._attempt("")

    def _attempt(self, text: str) -> None:
        if self._stream is not None:
            try:
                self._stream.write(text)
                self._stream.flush()
            except (OSError, ValueError):
                self._stream = None


def _state(event: TrialEvent) -> str:
    trials = counted(event.finished, "trial")
    if event.best_ms is None or event.default_ms is None:
        return f"{trials}, none valid yet ({event.status}: {event.reason})"
    # A ratio: times are measured against the default in the same rounds, and the final ones will be others.
    return f"{trials}, best so far {event.default_ms / event.best_ms:.2f}x the default"
