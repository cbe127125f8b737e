"""What a tuning run tells: events while it goes on, a report when it ends."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Protocol

from ..templates.space import Decisions
from .budget import Budget
from .task import Task


@dataclass(frozen=True)
class TrialEvent:
    """One finished trial.

    Attributes
    ----------
    finished : int
        Trials of this run so far.
    decisions : Decisions
    status : str
        ``ok``, ``wrong``, ``crash``, ``timeout`` or ``build_error``.
    time_ms, best_ms, default_ms : float or None
        This candidate's time, the best so far, the default schedule's.
    reason : str or None
        Why it failed.
    """

    finished: int
    decisions: Decisions
    status: str
    time_ms: float | None
    best_ms: float | None
    default_ms: float | None
    reason: str | None = None


class Observer(Protocol):
    """Told what happens; the command line's progress bar is one."""

    def started(self, task: Task, budget: Budget, reused: int) -> None:
        """The search begins, with `reused` trials known from earlier runs."""

    def trial(self, event: TrialEvent) -> None:
        """A trial is finished."""

    def comparing(self, candidates: int) -> None:
        """The search is over; the best are compared with the default."""


class Silent:
    """An observer that tells nobody."""

    def started(self, task: Task, budget: Budget, reused: int) -> None:
        """See `Observer`."""

    def trial(self, event: TrialEvent) -> None:
        """See `Observer`."""

    def comparing(self, candidates: int) -> None:
        """See `Observer`."""


@dataclass(frozen=True)
class TuneReport:
    """The outcome of one tuning run.

    Attributes
    ----------
    dataset, op, feat, dtype, target
        The task.
    signature : dict
        ``exact`` and ``bucket``.
    trials : dict
        ``measured`` in this run, of them ``valid`` and ``failed`` (by status in ``failures``); ``reused`` from the log.
    first_candidate_s, tune_s : float
        From the start to the first measured candidate, and to the end.
    default_ms, best_ms, speedup : float
        Medians of the final interleaved comparison; the winner is the default where nothing beat it.
    decisions : Decisions
        The winning schedule.
    artifact : str or None
        Folder of the stored artifact; None when the store could not be written (see ``warnings``).
    cost_model : dict
        See `CostModel.report`.
    interrupted : bool
        Whether the run was stopped by Ctrl-C.
    warnings : list of str
    """

    dataset: str
    op: str
    feat: int | tuple[int, int]
    dtype: str
    target: str
    threads: int
    signature: dict[str, str]
    trials: dict[str, Any]
    first_candidate_s: float | None
    tune_s: float
    default_ms: float
    best_ms: float
    speedup: float
    decisions: Decisions
    artifact: str | None
    cost_model: dict[str, Any]
    records: str
    seed: int
    interrupted: bool
    warnings: list[str]

    def as_dict(self) -> dict[str, Any]:
        """The report as JSON-able values."""
        return asdict(self)
