"""What the log knows of a task before a run: finished trials of its graph, and lessons from other graphs."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..cache import Record, RecordLog
from ..errors import RecordError
from ..templates.space import Decisions
from .cost_model import CostModel
from .features import has_features
from .search import Frozen, frozen
from .task import Task

_MOST_PRIOR_RECORDS = 4000


@dataclass(frozen=True)
class Lesson:
    """The trials on another graph, as a cost model learns them (`CostModel.add`)."""

    graph: dict[str, Any]
    choices: list[Decisions]
    speedups: list[float | None]


@dataclass(frozen=True)
class History:
    """What the log knows of a task.

    Attributes
    ----------
    trials : list of (Decisions, float or None)
        Finished trials of the task's graph, each schedule once: seconds as if measured when the default first was,
        None for a failed one. Empty without the default's time, without which the others' mean nothing.
    default_s : float or None
        The default schedule's time.
    lessons : list of Lesson
        Of other graphs, from the latest records.
    warnings : list of str
        What could not be used.
    """

    trials: list[tuple[Decisions, float | None]]
    default_s: float | None
    lessons: list[Lesson]
    warnings: list[str]

    def teach(self, model: CostModel, saved: Path) -> None:
        """Train the model on the other graphs' trials; where there are none, start from the trees saved last."""
        for lesson in self.lessons:
            model.add(lesson.choices, lesson.speedups, lesson.graph)
        if self.lessons:
            model.fit()
        elif saved.is_file():  # a FIFO would be waited for
            model.load(saved)


def read_history(log: RecordLog, task: Task) -> History:
    """What `log` knows of `task`; a log that cannot be read is an empty one, with a warning."""
    try:
        known = log.for_task(task.key)
    except RecordError as error:
        return History([], None, [], [f"earlier records are not used: {error}"])
    warnings = []
    if known.damaged:
        count = len(known.damaged)
        warnings.append(f"{log.path}: {count} damaged {'line was' if count == 1 else 'lines were'} skipped")
    own: dict[Frozen, Record] = {}
    others: list[Record] = []
    for record in known.records:
        if record.graph["exact"] != task.graph.signature.exact:
            others.append(record)
        elif _fits(record, task):
            own[frozen(record.decisions)] = record
    trials, default_s = _trials(own, task)
    lessons, featureless = _lessons(others[-_MOST_PRIOR_RECORDS:], task)
    if featureless:
        warnings.append(f"{log.path}: {featureless} records of graphs without this version's features were skipped")
    return History(trials, default_s, lessons, warnings)


def _trials(own: dict[Frozen, Record], task: Task) -> tuple[list[tuple[Decisions, float | None]], float | None]:
    """The finished trials and the default's time, if that is known."""
    known_default = own.get(frozen(task.space.default))
    measured_s = _median_s(known_default) if known_default else None
    if known_default is None or measured_s is None:
        return [], None

    def relative_s(record: Record) -> float | None:
        # To the default in the same rounds, as `Trials.measure` has it.
        time_s = _median_s(record)
        return None if time_s is None else time_s * measured_s / (record.default_s or measured_s)

    return [(record.decisions, relative_s(record)) for record in own.values()], relative_s(known_default)


def _lessons(records: list[Record], task: Task) -> tuple[list[Lesson], int]:
    """The lessons, one a graph, and how many records lack this version's features."""
    lessons: dict[str, Lesson] = {}
    featureless = 0
    for record in records:
        if not has_features(task, record.graph):
            featureless += 1
        elif record.default_s is not None and _fits(record, task):
            lesson = lessons.setdefault(record.graph["exact"], Lesson(record.graph, [], []))
            time_s = _median_s(record)
            lesson.choices.append(record.decisions)
            lesson.speedups.append(None if time_s is None else record.default_s / time_s)
    return list(lessons.values()), featureless


def _fits(record: Record, task: Task) -> bool:
    """Whether its schedule is one of the task's space."""
    space = task.space
    try:
        space.check(record.decisions)
    except ValueError:
        return False
    # True counts as 1 there, but is no number of parts.
    return all(type(record.decisions[each.name]) is type(each.values[0]) for each in space.decisions)


def _median_s(record: Record) -> float | None:
    return statistics.median(record.timings_s) if record.timings_s else None
