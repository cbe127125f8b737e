"""A schedule for a graph that nobody tuned: what the cost model that comes with the package expects to be fastest."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ..templates.space import Decisions
from . import trees
from .features import feature_matrix, scope
from .shipped import model_file
from .task import Task

# Below this expected gain the default serves: it is known to be good on any graph.
_LEAST_GAIN = math.log2(1.05)
# What a schedule's expected gain is lowered by, in units of how far the boosters disagree about it.
_CAUTION = 1.0


@dataclass(frozen=True)
class Prediction:
    """The schedule to serve.

    Attributes
    ----------
    decisions : dict
    expected_speedup : float
        Over the default schedule; 1 where that is the choice.
    """

    decisions: Decisions
    expected_speedup: float


def model_identity(task: Task) -> str | None:
    """Checksum of the model that may be asked about a task; None where none has seen tasks of its scope."""
    return trees.identity(model_file(task), scope(task))


def predict(task: Task) -> Prediction | None:
    """The choice of the whole space that is expected to be fastest, the default where none is surely faster.

    None where no model has seen tasks of this scope. Takes some hundred milliseconds.
    """
    model = trees.read(model_file(task), task)
    if model is None or scope(task) not in model.scopes:
        return None
    default = task.space.default
    choices = [default, *(choice for choice in task.space if choice != default)]
    rows = feature_matrix(task, task.graph_fields, choices)
    expected = model.predict(rows)
    # The default's own figure is as wrong as its neighbours' and in the same direction.
    gains = expected - expected[0]
    best = int(np.argmax(gains - _CAUTION * model.spread(rows)))
    if gains[best] - _CAUTION * model.spread(rows[best : best + 1])[0] < _LEAST_GAIN:
        best = 0
    return Prediction(task.space.check(choices[best]), float(2.0 ** gains[best]))
