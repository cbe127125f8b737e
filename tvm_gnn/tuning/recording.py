"""Writes every finished trial to the log as a record."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..cache import Record, RecordLog
from ..errors import RecordError
from ..templates.space import Decisions
from ..toolchain.importing import import_tvm
from .evolution import trace_json
from .runner import RunResult
from .task import Task


class Recorder:
    """Records the trials of one run.

    Parameters
    ----------
    task : Task
    log : RecordLog
    environment : dict
        Of the machine, as `toolchain.environment` describes it.
    seed : int
    warn : callable
        Told once when records cannot be kept.
    """

    def __init__(
        self, task: Task, log: RecordLog, environment: dict[str, Any], seed: int, warn: Callable[[str], None]
    ) -> None:
        self._task = task
        self._log = log
        self._environment = environment
        self._seed = seed
        self._warn = warn
        self._warned = False
        self._static_module: Any = None

    def append(self, choice: Decisions, run: RunResult, trial: int, default_s: float | None) -> None:
        """Add the outcome of one trial, its number counted from 0 over all runs, beside the default's time."""
        trace = self._trace(choice)
        try:
            record = Record(
                task=self._task.key.as_dict(),
                graph=self._task.graph_fields,
                decisions=choice,
                trace=trace,
                timings_s=run.timings_s,
                status=run.status,  # type: ignore[arg-type]
                reason=run.reason,
                environment=self._environment,
                seed=self._seed,
                trial=trial,
                default_s=default_s,
            )
            self._log.append(record)
        except RecordError as error:
            if not self._warned:
                self._warn(f"records are not kept: {error}")
            self._warned = True

    def _trace(self, choice: Decisions) -> list[Any]:
        import_tvm()
        if self._static_module is None:
            self._static_module = self._task.static_module()
        return trace_json(self._static_module, self._task.space, choice)
