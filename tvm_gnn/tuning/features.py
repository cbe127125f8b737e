"""What the cost model sees of a candidate: the graph's statistics, the schedule's decisions, and how the two meet.

Everything is computed from what a tuning record keeps of its graph, so that records of other graphs are training data.
Sizes in bytes (``…_bytes``, log2) are told relative to a core's own cache, so that what was learned on one machine
holds on another.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from ..templates.space import Decisions, Value
from .task import Task

# Bump when the meaning of a column changes: a stored model must not be fed other columns.
FEATURES_VERSION = 2
# They are log2 of what a computer can count, or shares.
_LARGEST_FEATURE = 64.0


def feature_names(task: Task) -> list[str]:
    """Names of the columns, in order."""
    return [*_context(task, task.graph_fields), *_schedule(task, task.graph_fields, task.space.default)]


def scope(task: Task) -> str:
    """What else decides how a task's schedules compare, and has no column: a model says nothing of another scope."""
    target = task.target
    return f"{task.op.name}, {task.dtype}, {target.threads} threads, {target.vector_bytes}-byte vectors"


def has_features(task: Task, graph: Mapping[str, Any]) -> bool:
    """Whether a stored graph has the features of this version, of plausible size, so that its records can teach."""
    features = graph["features"]
    names = task.graph_fields["features"].keys()
    return features.keys() == names and all(abs(value) <= _LARGEST_FEATURE for value in features.values())


def feature_matrix(task: Task, graph: Mapping[str, Any], choices: list[Decisions]) -> npt.NDArray[np.float32]:
    """One row per candidate, columns as `feature_names`.

    Parameters
    ----------
    task : Task
        Operator, width and target; its graph may be another one.
    graph : mapping
        The graph that the candidates run on, as in `Task.graph_fields` and in a record.
    choices : list of Decisions
    """
    context = list(_context(task, graph).values())
    rows = [context + list(_schedule(task, graph, choice).values()) for choice in choices]
    return np.asarray(rows, np.float32).reshape(len(choices), -1)


def _context(task: Task, graph: Mapping[str, Any]) -> dict[str, float]:
    """The same for all candidates of a graph: what makes it unlike another."""
    features = {f"graph.{name}": float(value) for name, value in sorted(graph["features"].items())}
    features["feature_bytes"] = math.log2(1 + graph["num_src"] * task.problem.width * task.problem.itemsize)
    features["multiply_adds"] = math.log2(1 + graph["num_edges"] * task.problem.width)
    return _by_cache(features, task)


def _schedule(task: Task, graph: Mapping[str, Any], choice: Mapping[str, Value]) -> dict[str, float]:
    return _by_cache(task.template.schedule_features(task.problem, graph, choice, task.target.threads), task)


def _by_cache(features: dict[str, float], task: Task) -> dict[str, float]:
    """Sizes relative to a core's own cache."""
    cache = math.log2(task.target.core_cache_bytes)
    return {name: value - cache if name.endswith("_bytes") else value for name, value in features.items()}
