"""Trees of a cost model in a file: a line with the names of the columns and a checksum, then xgboost's UBJSON."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import xxhash

from ..errors import DependencyError
from .features import FEATURES_VERSION, feature_names
from .task import Task

# More threads are no faster on so little data, and wait for one another for seconds where the CPUs are shared.
THREADS = 1


@dataclass(frozen=True)
class Trees:
    """A trained booster.

    Attributes
    ----------
    booster : xgboost.Booster
    checksum : str
        Of its bytes.
    beneath : Trees, optional
        To whose predictions it adds its own.
    """

    booster: Any
    checksum: str
    beneath: Trees | None = None

    def predict(self, rows: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
        """One number per row."""
        data = matrix(rows, self.beneath)
        return np.asarray(self.booster.predict(data), np.float64)

    def write(self, path: Path, task: Task) -> None:
        """Put the file in its place in one step; raises OSError where it cannot be written."""
        raw = bytes(self.booster.save_raw("ubj"))
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_name(f".{os.getpid()}.{path.name}")
        try:
            partial.write_bytes(_stamp(task, self.checksum, self.beneath) + b"\n" + raw)
            os.replace(partial, path)
        finally:
            partial.unlink(missing_ok=True)


def matrix(rows: npt.NDArray[np.float32], beneath: Trees | None, labels: Any = None) -> Any:
    """Rows as xgboost takes them, to be predicted or learned on top of other trees."""
    data = import_xgboost().DMatrix(rows, label=labels, nthread=THREADS)
    if beneath is not None:
        data.set_base_margin(beneath.predict(rows))
    return data


def trained(
    rows: npt.NDArray[np.float32],
    labels: npt.NDArray[np.float32],
    parameters: dict[str, Any],
    rounds: int,
    beneath: Trees | None = None,
) -> Trees:
    """Trees that have learned the labels, or what those beneath leave of them."""
    data = matrix(rows, beneath, labels)
    booster = import_xgboost().train({**parameters, "nthread": THREADS}, data, num_boost_round=rounds)
    return Trees(booster, _checksum(bytes(booster.save_raw("ubj"))), beneath)


def read(path: Path, task: Task, beneath: Trees | None = None) -> Trees | None:
    """Trees of a file that were trained on the task's columns and on the same trees beneath; None otherwise."""
    try:
        stamp, _, raw = path.read_bytes().partition(b"\n")
    except OSError:
        return None
    checksum = _checksum(raw)
    # Checked first: on damaged trees, and on none at all, xgboost ends the process.
    if not raw or stamp != _stamp(task, checksum, beneath):
        return None
    xgboost = import_xgboost()
    try:
        booster = xgboost.Booster({"nthread": THREADS, "verbosity": 0}, model_file=bytearray(raw))
    except xgboost.core.XGBoostError:  # written by a version that this one does not read
        return None
    return Trees(booster, checksum, beneath)


def import_xgboost() -> Any:
    """The `xgboost` module, from either of its distributions; raises `DependencyError` without one."""
    try:
        import xgboost
    except ImportError as error:
        raise DependencyError(f"xgboost: is needed to tune (not importable: {error}). Install xgboost-cpu.") from error
    return xgboost


def _checksum(raw: bytes) -> str:
    return xxhash.xxh3_128_hexdigest(raw)


def _stamp(task: Task, checksum: str, beneath: Trees | None) -> bytes:
    """First line of a file: what the columns mean, what lies beneath, and that the trees are whole."""
    stamp = {"version": FEATURES_VERSION, "columns": feature_names(task), "xxh3_128": checksum}
    if beneath is not None:
        stamp["beneath"] = beneath.checksum
    return json.dumps(stamp).encode()
