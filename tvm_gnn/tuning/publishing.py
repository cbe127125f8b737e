"""Stores the winner of a run as an artifact, for callers of its own edge order and of the other one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..cache import KERNEL_FILE, Artifact, ArtifactStore
from ..errors import ArtifactError
from ..templates.space import Decisions
from .builder import Builder
from .finals import Final
from .runner import Runner
from .task import Task


@dataclass(frozen=True)
class Publisher:
    """Stores what one run found.

    Attributes
    ----------
    task : Task
    store : ArtifactStore
    environment : dict
        Of the machine, as `toolchain.environment` describes it.
    seed : int
    warn : callable
        Told what is not kept, and why.
    """

    task: Task
    store: ArtifactStore
    environment: dict[str, Any]
    seed: int
    warn: Callable[[str], None]

    def publish(self, final: Final) -> Artifact | None:
        """Store the winner; None when the store does not take it."""
        measured = {"best_ms": final.best_ms, "default_ms": final.default_ms, "speedup": final.speedup}
        try:
            return self._keep(self.task, final.library, final.decisions, measured)
        except ArtifactError as error:
            self.warn(f"the artifact is not kept: {error}")
            return None

    def publish_for_other_edge_order(self, final: Final, builder: Builder, runner: Runner) -> None:
        """Store the schedule for callers with the other edge order too, unless it was tuned for that one itself."""
        other = self.task.other_edge_order()
        if other is None:
            return
        kept = self.store.lookup(other.key, other.graph.signature.exact)
        if kept is not None and kept.extra.get("edge_order") == other.kernel_edge_order:
            return
        (built,) = builder.build([other.code_spec(final.decisions)])
        if built.library is None:
            self.warn(f"not kept for the other edge order: {built.error}")
            return
        run = runner.run(built.library, other.launch(final.decisions), edge_order=other.kernel_edge_order)
        if run.time_s is None:
            self.warn(f"not kept for the other edge order: {run.status}: {run.reason}")
            return
        try:
            self._keep(other, built.library, final.decisions, {"best_ms": run.time_s * 1e3})
        except ArtifactError as error:
            self.warn(f"the artifact for the other edge order is not kept: {error}")

    def _keep(self, task: Task, library: Path, decisions: Decisions, measured: dict[str, float]) -> Artifact:
        return self.store.publish(
            task.key,
            task.graph.signature.exact,
            {KERNEL_FILE: library},
            graph=task.graph_fields,
            decisions=decisions,
            measured=measured,
            # Of the run it comes from: the edge order is the one that was measured.
            extra={"environment": self.environment, "seed": self.seed, "edge_order": self.task.kernel_edge_order},
        )
