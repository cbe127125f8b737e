"""The learned cost model: graph features and schedule decisions in, expected speed relative to the default out."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import xxhash

from ..errors import DependencyError
from ..templates.space import Decisions
from .features import FEATURES_VERSION, feature_matrix, feature_names
from .task import Task

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
    # More threads are no faster on so little data, and wait for one another for seconds where the CPUs are shared.
    "nthread": 1,
}
_ROUNDS = 80
_MIN_SAMPLES = 6


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
        self._booster: Any = None
        self._predicted: list[float] = []
        self._measured: list[float] = []

    @property
    def is_trained(self) -> bool:
        """Whether predictions mean anything yet."""
        return self._booster is not None

    def add(
        self, choices: list[Decisions], speedups: Iterable[float | None], graph: Mapping[str, Any] | None = None
    ) -> None:
        """Add measured candidates.

        Parameters
        ----------
        choices : list of Decisions
        speedups : iterable
            Default time / candidate's time on the same graph, None for a failed candidate.
        graph : mapping, optional
            The graph they ran on, as a record keeps it; default: the task's own.
        """
        known = [math.log2(s) if s is not None else None for s in speedups]
        slowest = min([label for label in (*known, *self._labels) if label is not None], default=-3.0)
        rows = feature_matrix(self._task, graph or self._task.graph_fields, choices)
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
        """Learn from everything added (tens of milliseconds); too few samples leave the model untrained."""
        if len(self._labels) < _MIN_SAMPLES:
            return
        xgboost = import_xgboost()
        data = xgboost.DMatrix(np.stack(self._rows), np.asarray(self._labels, np.float32), nthread=1)
        parameters = {**_PARAMETERS, "seed": self._seed}
        self._booster = xgboost.train(parameters, data, num_boost_round=_ROUNDS)

    def predict(self, choices: list[Decisions]) -> npt.NDArray[np.float64]:
        """Expected log2 speed-up over the default of each candidate; zeros while untrained."""
        if not self.is_trained or not choices:
            return np.zeros(len(choices))
        return self._predict_rows(feature_matrix(self._task, self._task.graph_fields, choices))

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
        """Write a line with the names of the columns and a checksum, then the trees (UBJSON); nothing when untrained.

        Raises
        ------
        OSError
            The file cannot be written.
        """
        if not self.is_trained:
            return
        trees = bytes(self._booster.save_raw("ubj"))
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_name(f".{os.getpid()}.{path.name}")
        try:
            partial.write_bytes(_stamp(self._task, trees) + b"\n" + trees)
            os.replace(partial, path)
        finally:
            partial.unlink(missing_ok=True)

    def load(self, path: Path) -> bool:
        """Start from trees saved for the same columns; False when there are none that fit."""
        try:
            stamp, _, trees = path.read_bytes().partition(b"\n")
        except OSError:
            return False
        # Checked first: on damaged trees, and on none at all, xgboost ends the process.
        if not trees or stamp != _stamp(self._task, trees):
            return False
        xgboost = import_xgboost()
        try:
            self._booster = xgboost.Booster(_PARAMETERS, model_file=bytearray(trees))
        except xgboost.core.XGBoostError:  # written by a version that this one does not read
            return False
        return True

    def _predict_rows(self, rows: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
        predictions = self._booster.predict(import_xgboost().DMatrix(rows, nthread=1))
        return np.asarray(predictions, np.float64)


def import_xgboost() -> Any:
    """The `xgboost` module, from either of its distributions; raises `DependencyError` without one."""
    try:
        import xgboost
    except ImportError as error:
        raise DependencyError(f"xgboost: is needed to tune (not importable: {error}). Install xgboost-cpu.") from error
    return xgboost


def _stamp(task: Task, trees: bytes) -> bytes:
    """First line of a model's file: what its columns mean, and that its trees are whole."""
    checksum = xxhash.xxh3_128_hexdigest(trees)
    return json.dumps({"version": FEATURES_VERSION, "columns": feature_names(task), "xxh3_128": checksum}).encode()


def _spearman(a: list[float], b: list[float]) -> float | None:
    if len(a) < 4 or len(set(a)) < 2 or len(set(b)) < 2:
        return None
    from scipy.stats import spearmanr

    return round(float(spearmanr(a, b).statistic), 4)
