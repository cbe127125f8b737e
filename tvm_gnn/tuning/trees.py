"""Boosted regression trees: grown by xgboost, kept as plain arrays, read and evaluated without it.

A file is a line with the names of the columns and a checksum, then numpy's archive of the arrays.
"""

from __future__ import annotations

import io
import json
import os
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import xxhash

from ..errors import DependencyError
from .features import FEATURES_VERSION, feature_names
from .task import Task

# More threads are no faster on so little data, and wait for one another for seconds where the CPUs are shared.
_THREADS = 1
_ROWS_AT_ONCE = 256

Float32 = npt.NDArray[np.float32]
Float64 = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Trees:
    """Boosters that were grown on parts of the same samples, and predict together.

    Attributes
    ----------
    column, left, right : int32 arrays
        Of every node of every tree: the column it looks at, and where to go on; a leaf goes on at itself.
    threshold, value : float32 arrays
        A node goes left below its threshold; a leaf has a value.
    roots : int32 array of shape (boosters, trees)
    base : float64 array of shape (boosters,)
        What each booster's trees add to.
    scopes : tuple of str
        What they were grown for (`features.scope`).
    beneath : Trees, optional
        To whose predictions these add their own.
    """

    column: npt.NDArray[np.int32]
    left: npt.NDArray[np.int32]
    right: npt.NDArray[np.int32]
    threshold: Float32
    value: Float32
    roots: npt.NDArray[np.int32]
    base: Float64
    scopes: tuple[str, ...] = ()
    beneath: Trees | None = None

    @cached_property
    def checksum(self) -> str:
        """Of all that decides a prediction."""
        digest = xxhash.xxh3_128()
        for name in _ARRAYS:
            digest.update(np.ascontiguousarray(getattr(self, name)).tobytes())
        if self.beneath is not None:
            digest.update(self.beneath.checksum.encode())
        return digest.hexdigest()

    def predict(self, rows: Float32) -> Float64:
        """One number per row: the mean over the boosters."""
        own: Float64 = self._of_boosters(rows).mean(axis=1)
        return own if self.beneath is None else own + self.beneath.predict(rows)

    def spread(self, rows: Float32) -> Float64:
        """How far the boosters disagree about each row: their standard deviation; 0 where there is one."""
        spread: Float64 = self._of_boosters(rows).std(axis=1)
        return spread if self.beneath is None else np.hypot(spread, self.beneath.spread(rows))

    def write(self, path: Path, task: Task) -> None:
        """Put the file in its place in one step; raises OSError where it cannot be written."""
        raw = _packed(self)
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_name(f".{os.getpid()}.{path.name}")
        try:
            stamp = {**_stamp(task, raw, self.beneath), "scopes": self.scopes}
            partial.write_bytes(json.dumps(stamp).encode() + b"\n" + raw)
            os.replace(partial, path)
        finally:
            partial.unlink(missing_ok=True)

    def _of_boosters(self, rows: Float32) -> Float64:
        """Shape (rows, boosters)."""
        parts = [self._few(rows[start : start + _ROWS_AT_ONCE]) for start in range(0, len(rows), _ROWS_AT_ONCE)]
        return np.concatenate(parts) if parts else np.zeros((0, self.base.size))

    def _few(self, rows: Float32) -> Float64:
        row = np.arange(len(rows))[:, None]
        at = np.broadcast_to(self.roots.ravel(), (len(rows), self.roots.size))
        while True:
            on = np.where(rows[row, self.column[at]] < self.threshold[at], self.left[at], self.right[at])
            if np.array_equal(on, at):
                break
            at = on
        leaves = self.value[at].reshape(len(rows), *self.roots.shape)
        sums: Float64 = self.base + leaves.sum(axis=2, dtype=np.float64)
        return sums


def grown(
    rows: Float32,
    labels: Float32,
    parameters: Mapping[str, Any],
    rounds: int,
    beneath: Trees | None = None,
    samples: Sequence[npt.NDArray[Any]] | None = None,
    scopes: Sequence[str] = (),
) -> Trees:
    """Trees that have learned the labels, or what those beneath leave of them.

    Parameters
    ----------
    rows, labels : float32 arrays of shape (n, columns) and (n,)
    parameters : mapping
        xgboost's.
    rounds : int
        Trees per booster.
    samples : sequence of index arrays, optional
        Which samples each booster learns from; default: one booster that learns from all.
    scopes : sequence of str
        As in `Trees`.
    """
    known = np.zeros(len(labels)) if beneath is None else beneath.predict(rows)
    boosters, base = [], []
    for number, chosen in enumerate(samples or [np.arange(len(labels))]):
        base.append(float(np.mean(labels[chosen])) if beneath is None else 0.0)
        wanted = {**parameters, "seed": int(parameters.get("seed", 0)) + number, "nthread": _THREADS, "base_score": 0.0}
        xgboost = import_xgboost()
        data = xgboost.DMatrix(rows[chosen], label=labels[chosen], nthread=_THREADS)
        data.set_base_margin(known[chosen] + base[-1])
        boosters.append(_trees_of(xgboost.train(wanted, data, num_boost_round=rounds)))
    return replace(_joined(boosters, np.asarray(base)), scopes=tuple(scopes), beneath=beneath)


def read(path: Path, task: Task, beneath: Trees | None = None) -> Trees | None:
    """Trees of a file that were grown on the task's columns and on the same trees beneath; None otherwise."""
    try:
        line, _, raw = path.read_bytes().partition(b"\n")
        stamp = json.loads(line)
        scopes = tuple(map(str, stamp.pop("scopes")))
        if stamp != _stamp(task, raw, beneath):
            return None
        with np.load(io.BytesIO(raw), allow_pickle=False) as arrays:
            return Trees(**{name: arrays[name] for name in _ARRAYS}, scopes=scopes, beneath=beneath)
    except (OSError, EOFError, ValueError, KeyError, TypeError, AttributeError, zipfile.BadZipFile, zlib.error):
        return None


def identity(path: Path, scope: str) -> str | None:
    """Checksum of a file of trees that were grown for that scope, from its first line; None without such a file."""
    try:
        with path.open("rb") as file:
            stamp = json.loads(file.readline())
        return str(stamp["xxh3_128"]) if scope in stamp["scopes"] else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def import_xgboost() -> Any:
    """The `xgboost` module, from either of its distributions; raises `DependencyError` without one."""
    try:
        import xgboost
    except ImportError as error:
        raise DependencyError(f"xgboost: is needed to tune (not importable: {error}). Install xgboost-cpu.") from error
    return xgboost


_ARRAYS = ("column", "left", "right", "threshold", "value", "roots", "base")


def _trees_of(booster: Any) -> list[dict[str, npt.NDArray[Any]]]:
    """The arrays of each tree, from xgboost's own JSON."""
    model = json.loads(bytes(booster.save_raw("json")))["learner"]["gradient_booster"]["model"]
    found = []
    for tree in model["trees"]:
        left = np.asarray(tree["left_children"], np.int32)
        right = np.asarray(tree["right_children"], np.int32)
        number = np.asarray(tree["split_conditions"], np.float32)
        leaf, itself = left < 0, np.arange(left.size, dtype=np.int32)
        found.append(
            {
                "column": np.asarray(tree["split_indices"], np.int32) * ~leaf,
                "left": np.where(leaf, itself, left),
                "right": np.where(leaf, itself, right),
                "threshold": np.where(leaf, np.float32(0), number),
                "value": np.where(leaf, number, np.float32(0)),
            }
        )
    return found


def _joined(boosters: list[list[dict[str, npt.NDArray[Any]]]], base: Float64) -> Trees:
    trees = [tree for booster in boosters for tree in booster]
    starts = np.cumsum([0, *(tree["left"].size for tree in trees)]).astype(np.int32)[:-1]

    def of_all(name: str) -> npt.NDArray[Any]:
        return np.concatenate([tree[name] for tree in trees])

    shift = np.repeat(starts, [tree["left"].size for tree in trees])
    return Trees(
        column=of_all("column"),
        left=of_all("left") + shift,
        right=of_all("right") + shift,
        threshold=of_all("threshold"),
        value=of_all("value"),
        roots=starts.reshape(len(boosters), -1),
        base=base,
    )


def _packed(trees: Trees) -> bytes:
    memory = io.BytesIO()
    np.savez_compressed(memory, **{name: getattr(trees, name) for name in _ARRAYS})
    return memory.getvalue()


def _stamp(task: Task, raw: bytes, beneath: Trees | None) -> dict[str, Any]:
    """First line of a file: what the columns mean, what lies beneath, and that the trees are whole."""
    stamp = {
        "version": FEATURES_VERSION,
        "columns": feature_names(task),
        "xxh3_128": xxhash.xxh3_128_hexdigest(raw),
    }
    return stamp if beneath is None else {**stamp, "beneath": beneath.checksum}
