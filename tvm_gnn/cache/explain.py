"""Why a lookup is served from where it is: the level, and what the closest other entries differ in."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from .artifact import Artifact
from .fields import JsonObject
from .key import TaskKey
from .lookup import Distance, Features, Level, find_silently, finite_distance
from .store import ArtifactStore, Problem


@dataclass(frozen=True)
class Neighbour:
    """An entry that did not serve the lookup.

    Attributes
    ----------
    entry_name, graph_name : str
        The entry, and the graph it was tuned for.
    path : Path
        Its folder.
    differing : dict
        Key parts that differ, name → (mine, theirs).
    same_graph, same_bucket : bool
        Whether it was tuned for this graph, or one of its bucket.
    distance : float or None
        Between the graphs' features; None when unknown.
    """

    entry_name: str
    graph_name: str
    path: Path
    differing: dict[str, tuple[str | None, str | None]]
    same_graph: bool
    same_bucket: bool
    distance: float | None

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        differing = {part: list(pair) for part, pair in self.differing.items()}
        return {**asdict(self), "path": str(self.path), "differing": differing}

    def line(self, comparable_within: float = math.inf) -> str:
        """One line for people; beyond the limit a distance alone keeps the entry from serving."""
        parts = [f"{part} is {mine!r} here, {theirs!r} there" for part, (mine, theirs) in self.differing.items()]
        if not self.same_graph:
            only = "" if parts else "only "
            bucket = "same" if self.same_bucket else "another"
            parts.append(f"{only}the graph differs ({bucket} bucket){self._how_far(comparable_within)}")
        return f"{self.graph_name} [{self.entry_name}]: {'; '.join(parts)}"

    def _how_far(self, comparable_within: float) -> str:
        if self.distance is None:
            return ""
        shown = f", distance {self.distance:.2f}"
        if self.same_bucket or self.differing or self.distance <= comparable_within:
            return shown
        return f"{shown}, too far for nearest (at most {comparable_within:g})"


@dataclass(frozen=True)
class Explanation:
    """Where a lookup is served from and what came close.

    Attributes
    ----------
    level : str
        exact, bucket, nearest, predicted, default or none.
    served : Path or None
        Folder of the artifact that serves it.
    distance : float or None
        From the graph looked up to the one that artifact was tuned for; None when unknown.
    comparable_within : float
        Largest distance at which a graph may be the nearest.
    key : dict of str to str
        The parts looked up.
    exact, bucket : str
        The graph's signature looked up.
    neighbours : list of Neighbour
        The closest other entries that were tuned for the operator, with any options, closest first.
    problems : list of Problem
        Damaged entries that were passed over.
    """

    level: Level | Literal["predicted", "none"]
    served: Path | None
    distance: float | None
    comparable_within: float
    key: dict[str, str]
    exact: str
    bucket: str
    neighbours: list[Neighbour]
    problems: list[Problem]

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "level": self.level,
            "served": None if self.served is None else str(self.served),
            "key": self.key,
            "exact": self.exact,
            "bucket": self.bucket,
            "neighbours": [neighbour.as_dict() for neighbour in self.neighbours],
            "problems": [{"path": str(path), "reason": reason} for path, reason in self.problems],
        }

    def lines(self) -> list[str]:
        """The same for people, one statement a line."""
        return [
            f"served from: {self._source()}",
            *(f"close: {neighbour.line(self.comparable_within)}" for neighbour in self.neighbours),
            *(f"damaged: {path} is not served: {reason}" for path, reason in self.problems),
        ]

    def _source(self) -> str:
        if self.level == "none":
            return "a predicted or the default schedule, which the first load builds (nothing comparable is tuned)"
        if self.level == "predicted":
            return f"the predicted schedule, built already (nothing comparable is tuned) ({self.served})"
        if self.level == "default":
            return f"the default schedule, built already (nothing comparable is tuned) ({self.served})"
        far = f", distance {self.distance:.2f}" if self.level != "exact" and self.distance is not None else ""
        if self.level == "nearest" and math.isfinite(self.comparable_within):
            far += f" of at most {self.comparable_within:g}"
        return f"{self.level}{far} ({self.served})"


def explain(
    store: ArtifactStore,
    key: TaskKey,
    exact: str,
    bucket: str,
    features: Features | None = None,
    distance: Distance | None = None,
    comparable_within: float = math.inf,
    limit: int = 5,
) -> Explanation:
    """Say what `find` would serve and why not something closer.

    Parameters
    ----------
    store, key, exact, bucket, features
        As for `find`.
    distance : callable, optional
        As for `find`, but finite for graphs too unlike to serve too, so that it can be told how far they are. Without
        one all graphs count as equally far, which leaves the level right.
    comparable_within : float
        Beyond this `find` is given an infinite distance.
    limit : int
        Number of neighbours told, ordered by fewest differing key parts, then this graph, its bucket, its distance.

    Notes
    -----
    Reads the whole store, so it is for people, not for the way to a kernel.
    """
    here = features or {}

    def comparable(mine: Features, theirs: Features) -> float:
        away = distance(mine, theirs) if distance else 0.0
        return away if away <= comparable_within else math.inf

    def known_distance(artifact: Artifact) -> float | None:
        away = finite_distance(distance, here, artifact) if distance else math.inf
        return away if math.isfinite(away) else None

    def is_answer(artifact: Artifact) -> bool:
        # Options may differ; another operator is another question, not a near answer. An untuned schedule's is none
        # either: it is what serves where nothing else does.
        return artifact.is_tuned and _base_name(artifact.key) == _base_name(key)

    found = find_silently(store, key, exact, bucket, here, comparable)
    served, level = found or (None, "none")
    neighbours = [
        _neighbour(artifact, artifact.graph, key, exact, bucket, known_distance(artifact))
        for artifact in store.entries()
        if artifact.graph is not None and (served is None or artifact.path != served.path) and is_answer(artifact)
    ]
    neighbours.sort(key=_closeness)
    return Explanation(
        level=level,
        served=served.path if served else None,
        distance=known_distance(served) if served else None,
        comparable_within=comparable_within,
        key=key.as_dict(),
        exact=exact,
        bucket=bucket,
        neighbours=neighbours[:limit],
        problems=store.problems,
    )


def _neighbour(
    artifact: Artifact, graph: JsonObject, key: TaskKey, exact: str, bucket: str, distance: float | None
) -> Neighbour:
    return Neighbour(
        entry_name=artifact.entry_name,
        graph_name=graph["name"],
        path=artifact.path,
        differing=key.difference(artifact.key),
        same_graph=graph["exact"] == exact,
        same_bucket=graph["bucket"] == bucket,
        distance=distance,
    )


def _base_name(key: TaskKey) -> str:
    return key.as_dict().get("op", "").partition("(")[0]


def _closeness(neighbour: Neighbour) -> tuple[int, bool, bool, float]:
    away = math.inf if neighbour.distance is None else neighbour.distance
    return len(neighbour.differing), not neighbour.same_graph, not neighbour.same_bucket, away
