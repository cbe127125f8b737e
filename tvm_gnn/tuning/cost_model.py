"""The learned cost model: graph features and schedule decisions in, expected speed relative to the default out."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import DependencyError
from ..templates.space import Decisions
from . import trees
from .features import feature_matrix, scope
from .task import Task
from .trees import Trees

# Small trees and few rounds: hundreds of samples at most in a minute of tuning, and an update must not cost a trial.
_PARAMETERS = {
    "objective": "reg:squarederror",
    "max_depth": 5,
    "eta": 0.2,
    "min_child_weight": 1,
    "subsample": 0.9,
    "colsample_bytree": 0.9,
    "tree_method": "hist",
    "verbosity": 0,
}
_ROUNDS = 80
_MIN_SAMPLES = 6
# What comes with the package may take minutes to learn, and is asked about graphs that it has not seen: several
# boosters, each grown without a share of the graphs, whose disagreement tells how much that matters.
_SHIPPED_PARAMETERS = {**_PARAMETERS, "max_depth": 6, "eta": 0.08, "min_child_weight": 4, "colsample_bytree": 0.6}
_SHIPPED_ROUNDS = 160
_SHIPPED_BOOSTERS = 4


class CostModel:
    """xgboost regression of log2(default time / candidate's time) on `features`.

    Labels are ratios within a graph, so samples of several graphs of one operator and machine can be learned from
    together. A failed candidate is a sample too: as slow as the slowest seen.

    Parameters
    ----------
    task : Task
    seed : int

    Raises
    ------
    DependencyError
        xgboost is not installed.
    """

    def __init__(self, task: Task, seed: int = 0) -> None:
        if find_spec("xgboost") is None:
            raise DependencyError("xgboost: is needed to tune (not installed). Install xgboost-cpu.")
        self._task = task
        self._seed = seed
        self._rows: list[npt.NDArray[np.float32]] = []
        self._labels: list[float] = []
        self._graphs: list[str] = []
        self._scopes: set[str] = set()
        self._trees: Trees | None = None
        self._shipped: Trees | None = None
        self._predicted: list[float] = []
        self._measured: list[float] = []

    @property
    def is_trained(self) -> bool:
        """Whether predictions mean anything yet."""
        return self._trees is not None or self._shipped is not None

    def add(
        self,
        choices: list[Decisions],
        speedups: Iterable[float | None],
        graph: Mapping[str, Any] | None = None,
        task: Task | None = None,
    ) -> None:
        """Add measured candidates.

        Parameters
        ----------
        choices : list of Decisions
        speedups : iterable
            Default time / candidate's time on the same graph, None for a failed candidate.
        graph : mapping, optional
            The graph they ran on, as a record keeps it; default: the task's own.
        task : Task, optional
            What they computed there, another width or operator of the primitive; default: the task's own.
        """
        known = [math.log2(s) if s is not None else None for s in speedups]
        slowest = min([label for label in (*known, *self._labels) if label is not None], default=-3.0)
        task, fields = task or self._task, graph or self._task.graph_fields
        rows = feature_matrix(task, fields, choices)
        self._graphs += [str(fields["exact"])] * len(choices)
        self._scopes.add(scope(task))
        if self.is_trained and graph is None:
            # Honest only because these candidates were not in the training set yet.
            expected = self._predict_rows(rows)
            for prediction, label in zip(expected, known, strict=True):
                if label is not None:
                    self._predicted.append(float(prediction))
                    self._measured.append(label)
        self._rows.extend(rows)
        self._labels.extend(slowest if label is None else label for label in known)

    def fit(self) -> None:
        """Learn from everything added (tens of milliseconds); too few samples leave the model as it was."""
        if len(self._labels) < _MIN_SAMPLES:
            return
        rows, labels = np.stack(self._rows), np.asarray(self._labels, np.float32)
        parameters = {**_PARAMETERS, "seed": self._seed}
        self._trees = trees.grown(rows, labels, parameters, _ROUNDS, self._shipped, scopes=sorted(self._scopes))

    def fit_to_ship(self) -> None:
        """Learn from everything added, at leisure, for graphs that are not among it."""
        rows, labels = np.stack(self._rows), np.asarray(self._labels, np.float32)
        graphs = sorted(set(self._graphs))
        shares = np.array([graphs.index(graph) % _SHIPPED_BOOSTERS for graph in self._graphs])
        without_one = [np.flatnonzero(shares != share) for share in range(_SHIPPED_BOOSTERS)]
        samples = [chosen for chosen in without_one if chosen.size] or None
        parameters = {**_SHIPPED_PARAMETERS, "seed": self._seed}
        self._trees = trees.grown(
            rows, labels, parameters, _SHIPPED_ROUNDS, samples=samples, scopes=sorted(self._scopes)
        )

    def predict(self, choices: list[Decisions], task: Task | None = None) -> npt.NDArray[np.float64]:
        """Expected log2 speed-up over the default of each candidate; zeros while untrained.

        `task` may be another one of the primitive; default: the task's own.
        """
        if not self.is_trained or not choices:
            return np.zeros(len(choices))
        task = task or self._task
        return self._predict_rows(feature_matrix(task, task.graph_fields, choices))

    def report(self) -> dict[str, Any]:
        """How good its predictions were on candidates it had not seen.

        Keys: ``rank_correlation`` (Spearman; None with fewer than four), ``predictions``, ``samples``.
        """
        return {
            "rank_correlation": _spearman(self._predicted, self._measured),
            "predictions": len(self._predicted),
            "samples": len(self._labels),
        }

    def save(self, path: Path) -> None:
        """Write what was learned here, see `trees`; nothing when untrained.

        Raises
        ------
        OSError
            The file cannot be written.
        """
        if self._trees is not None:
            self._trees.write(path, self._task)

    def load(self, path: Path) -> bool:
        """Start from trees saved for the same columns and on the same shipped ones; False when there are none."""
        self._trees = trees.read(path, self._task, self._shipped)
        return self._trees is not None

    def start_from(self, path: Path) -> bool:
        """Learn on top of shipped trees from now on; False when there are none for these columns."""
        self._shipped = trees.read(path, self._task)
        return self._shipped is not None

    def _predict_rows(self, rows: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
        best = self._trees or self._shipped
        assert best is not None
        return best.predict(rows)


def _spearman(a: list[float], b: list[float]) -> float | None:
    if len(a) < 4 or len(set(a)) < 2 or len(set(b)) < 2:
        return None
    from scipy.stats import spearmanr

    return round(float(spearmanr(a, b).statistic), 4)
