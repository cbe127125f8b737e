"""Measures built candidates in a killable process that maps the real graph once."""

from __future__ import annotations

import statistics
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from .worker import Worker, WorkerDied, WorkerTimeout

RUN_TIMEOUT_S = 20.0
FINAL_TIMEOUT_S = 60.0


@dataclass(frozen=True)
class RunResult:
    """Times of a right candidate, or why it failed; never both.

    Attributes
    ----------
    timings_s : list of float
        One sample a round, seconds per call.
    against_s : list of float
        The same rounds of the kernel it was timed in turn with, if any.
    status : str
        ``ok``, ``wrong``, ``crash`` or ``timeout``.
    reason : str or None
    """

    timings_s: list[float] = field(default_factory=list)
    against_s: list[float] = field(default_factory=list)
    status: str = "ok"
    reason: str | None = None

    @property
    def time_s(self) -> float | None:
        """Median seconds per call; None for a failed candidate."""
        return statistics.median(self.timings_s) if self.timings_s else None

    @property
    def speedup(self) -> float | None:
        """Median over the rounds of the other kernel's time over this one's; None without both."""
        if not self.timings_s or not self.against_s:
            return None
        return statistics.median(b / a for a, b in zip(self.timings_s, self.against_s, strict=True))


class Runner:
    """The measuring process of one tuning run.

    Parameters
    ----------
    folder : Path
        The workload (`workload.write`).
    """

    def __init__(self, folder: Path) -> None:
        self._worker = Worker("tvm_gnn.tuning.run_worker", str(folder), folder / "run.log")

    def run(
        self,
        library: Path,
        launch: dict[str, int],
        timeout_s: float = RUN_TIMEOUT_S,
        against: tuple[Path, dict[str, int]] | None = None,
        edge_order: str | None = None,
    ) -> RunResult:
        """Check one candidate against the reference, then time it, in turn with `against` if given.

        The machine's speed drifts between trials; a ratio taken within one does not. `edge_order` is the one the
        library was built for where that is not the task's.
        """
        candidate = _request(library, launch)
        if edge_order is not None:
            candidate["edge_order"] = edge_order
        request: dict[str, object] = {"candidates": [candidate]}
        if against is not None:
            request["against"] = _request(*against)
        answer = self._ask(request, timeout_s)
        if isinstance(answer, RunResult):
            return answer
        return RunResult(answer[0], answer[1] if against is not None else [])

    def compare(self, candidates: list[tuple[Path, dict[str, int]]]) -> list[list[float]] | RunResult:
        """Interleaved times of several candidates, or the failure of one of them."""
        request = {
            "candidates": [_request(library, launch) for library, launch in candidates],
            "final": True,
        }
        return self._ask(request, FINAL_TIMEOUT_S)

    def close(self) -> None:
        """End the process."""
        with suppress(OSError):
            self._worker.close()

    def _ask(self, request: dict[str, object], timeout_s: float) -> list[list[float]] | RunResult:
        try:
            answer = self._worker.request(request, timeout_s)
        except WorkerTimeout as error:
            return RunResult(status="timeout", reason=f"run: {error}")
        except WorkerDied as error:
            return RunResult(status="crash", reason=f"run: {error}")
        if answer["status"] == "wrong":
            self._worker.kill()  # it may have written anywhere: the next candidate gets a sound process
        if answer["status"] != "ok":
            return RunResult(status=answer["status"], reason=answer["reason"])
        times: list[list[float]] = answer["timings_s"]
        return times


def _request(library: Path, launch: dict[str, int]) -> dict[str, object]:
    return {"library": str(library), "launch": launch}
