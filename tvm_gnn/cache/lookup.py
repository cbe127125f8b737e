"""Which artifact serves a graph: its own, else one of the same bucket, else the nearest, else the task's default."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeAlias

from .artifact import DEFAULT_ENTRY, Artifact
from .key import TaskKey
from .store import ArtifactStore

Level: TypeAlias = Literal["exact", "bucket", "nearest", "default"]
Features: TypeAlias = Mapping[str, Any]
Distance: TypeAlias = Callable[[Features, Features], float]


def find(
    store: ArtifactStore, key: TaskKey, exact: str, bucket: str, features: Features, distance: Distance
) -> tuple[Artifact, Level] | None:
    """The best artifact of this task for a graph, verified, and the level it was found on; None when there is none.

    Kernels are right on any graph of their task, so every level gives right numbers; only the speed may differ.

    Parameters
    ----------
    store : ArtifactStore
    key : TaskKey
        Only entries of this very key are looked at.
    exact, bucket : str
        The graph's signature.
    features : mapping
        The graph's features, the first argument of `distance`.
    distance : callable
        (features, stored features) → how unlike two graphs are. An entry whose stored features it cannot compare
        (KeyError, TypeError, ValueError, NaN, infinity) is served by exact or bucket only.

    Notes
    -----
    Within a level the smallest distance wins, then the newest. A damaged candidate is passed over with a
    `RuntimeWarning`.
    """
    found = find_silently(store, key, exact, bucket, features, distance)
    level = found[1] if found else "default"
    problems = {path: reason for path, reason in store.problems if key.digest in (path.name, path.parent.name)}
    for path, reason in problems.items():
        if path.parent not in problems:  # else all of the task is
            warnings.warn(
                f"artifact {path}: damaged ({reason.rstrip('.')}), served from {level} instead. "
                "Tune again or remove it.",
                RuntimeWarning,
                stacklevel=4,  # who called `tvm_gnn.load`
            )
    return found


def find_silently(
    store: ArtifactStore, key: TaskKey, exact: str, bucket: str, features: Features, distance: Distance
) -> tuple[Artifact, Level] | None:
    """`find` without a warning: what is damaged is in the store's `problems`."""
    artifact = store.lookup(key, exact)
    if artifact:
        return artifact, "exact"
    for candidate, level in _candidates(store, key, bucket, features, distance):
        # The listing did not read the libraries; only the one to be served needs that.
        artifact = store.lookup(key, candidate.entry_name)
        if artifact:
            return artifact, level
    artifact = store.lookup(key, DEFAULT_ENTRY)
    return (artifact, "default") if artifact else None


def finite_distance(distance: Distance, features: Features, artifact: Artifact) -> float:
    """Distance to the graph an artifact was tuned for; infinity when it cannot be compared."""
    if artifact.graph is None:
        return math.inf
    try:
        value = distance(features, artifact.graph["features"])
    except (KeyError, TypeError, ValueError):
        # Another version may have stored other features.
        return math.inf
    return math.inf if math.isnan(value) else value


def _candidates(
    store: ArtifactStore, key: TaskKey, bucket: str, features: Features, distance: Distance
) -> list[tuple[Artifact, Level]]:
    entries = [artifact for artifact in store.entries(key, checksums=False) if artifact.graph is not None]
    entries.sort(key=lambda artifact: artifact.created, reverse=True)
    nearest_first = sorted(
        ((finite_distance(distance, features, artifact), artifact) for artifact in entries), key=lambda pair: pair[0]
    )
    alike: list[tuple[Artifact, Level]] = []
    others: list[tuple[Artifact, Level]] = []
    for away, artifact in nearest_first:
        if artifact.graph is not None and artifact.graph["bucket"] == bucket:
            alike.append((artifact, "bucket"))
        elif math.isfinite(away):
            others.append((artifact, "nearest"))
    return alike + others
