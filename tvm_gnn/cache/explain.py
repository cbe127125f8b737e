"""Why a lookup is served from where it is: the level, and what the closest other entries differ in."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from .artifact import Artifact
from .key import TaskKey
from .lookup import Distance, Features, Level, find_silently, finite_distance
from .store import ArtifactStore, Problem


@dataclass(frozen=True)
class Neighbour:
    """An entry that did not serve the lookup.

    Attributes
    ----------
    entry_name, graph_name : str
        The entry, and the graph it was tuned for (None for a default entry).
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
    graph_name: str | None
    path: Path
    differing: dict[str, tuple[str | None, str | None]]
    same_graph: bool
    same_bucket: bool
    distance: float | None

    def line(self) -> str:
        """One line for people."""
        name = self.graph_name or self.entry_name
        parts = [f"{part} is {mine!r} here, {theirs!r} there" for part, (mine, theirs) in self.differing.items()]
        if self.graph_name is None:
            parts.append("it was tuned for no graph in particular")
        elif not self.same_graph:
            only = "" if parts else "only "
            bucket = "same" if self.same_bucket else "another"
            parts.append(f"{only}the graph differs ({bucket} bucket)")
        return f"{name} [{self.entry_name}]: {'; '.join(parts)}"


@dataclass(frozen=True)
class Explanation:
    """Where a lookup is served from and what came close.

    Attributes
    ----------
    level : str
        exact, bucket, nearest, default or none.
    served : Path or None
        Folder of the artifact that serves it.
    key : dict of str to str
        The parts looked up.
    exact, bucket : str
        The graph's signature looked up.
    neighbours : list of Neighbour
        The closest other entries, closest first.
    problems : list of Problem
        Damaged entries that were passed over.
    """

    level: Level | Literal["none"]
    served: Path | None
    key: dict[str, str]
    exact: str
    bucket: str
    neighbours: list[Neighbour]
    problems: list[Problem]

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        plain = asdict(self)
        plain["served"] = None if self.served is None else str(self.served)
        for neighbour in plain["neighbours"]:
            neighbour["path"] = str(neighbour["path"])
            neighbour["differing"] = {part: list(pair) for part, pair in neighbour["differing"].items()}
        plain["problems"] = [{"path": str(path), "reason": reason} for path, reason in self.problems]
        return plain

    def lines(self) -> list[str]:
        """The same for people, one statement a line."""
        return [
            f"served from: {self.level}" + (f" ({self.served})" if self.served else ""),
            *(f"close: {neighbour.line()}" for neighbour in self.neighbours),
            *(f"damaged: {path} is not served: {reason}" for path, reason in self.problems),
        ]


def explain(
    store: ArtifactStore,
    key: TaskKey,
    exact: str,
    bucket: str,
    features: Features | None = None,
    distance: Distance | None = None,
    limit: int = 5,
) -> Explanation:
    """Say what `find` would serve and why not something closer.

    Parameters
    ----------
    store, key, exact, bucket, features, distance
        As for `find`. Without a distance all graphs count as equally far, which leaves the level right.
    limit : int
        Number of neighbours told, ordered by fewest differing key parts, then this graph, its bucket, its distance.

    Notes
    -----
    Reads the whole store, so it is for people, not for the way to a kernel.
    """
    here = features or {}
    found = find_silently(store, key, exact, bucket, here, distance or _equally_far)
    served = found[0].path if found else None
    neighbours = [
        _neighbour(artifact, key, exact, bucket, finite_distance(distance, here, artifact) if distance else math.inf)
        for artifact in store.entries()
        if artifact.path != served
    ]
    neighbours.sort(key=_closeness)
    return Explanation(
        level=found[1] if found else "none",
        served=served,
        key=key.as_dict(),
        exact=exact,
        bucket=bucket,
        neighbours=neighbours[:limit],
        problems=store.problems,
    )


def _neighbour(artifact: Artifact, key: TaskKey, exact: str, bucket: str, away: float) -> Neighbour:
    graph = artifact.graph or {}
    return Neighbour(
        entry_name=artifact.entry_name,
        graph_name=graph.get("name"),
        path=artifact.path,
        differing=key.difference(artifact.key),
        same_graph=graph.get("exact") == exact,
        same_bucket=graph.get("bucket") == bucket,
        distance=away if math.isfinite(away) else None,
    )


def _closeness(neighbour: Neighbour) -> tuple[int, bool, bool, float]:
    away = math.inf if neighbour.distance is None else neighbour.distance
    return len(neighbour.differing), not neighbour.same_graph, not neighbour.same_bucket, away


def _equally_far(_mine: Features, _theirs: Features) -> float:
    return 0.0
