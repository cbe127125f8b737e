"""The process that runs candidates on the workload; a crash or hang here costs one trial."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from ..errors import TvmGnnError
from . import measure
from .measure import Candidate, Output, outputs_of, time_interleaved
from .worker import serve
from .workload import Workload


def main() -> None:
    """Serve measuring requests; the command line's argument is the workload's folder."""
    workload = Workload(Path(sys.argv[1]))
    outputs = outputs_of(workload)
    serve(lambda request: handle(request, workload, outputs))


def handle(request: dict[str, Any], workload: Workload, outputs: list[Output]) -> dict[str, Any]:
    """Check ``request["candidates"]``, each ``{"library", "launch"[, "edge_order"]}``, and time them in turn.

    ``request["against"]``, one more of the same form that was checked before, is timed with them.
    """
    runs = []
    try:
        for described in request["candidates"]:
            candidate = _candidate(described, workload, outputs)
            reason = candidate.wrong()
            if reason is not None:
                return {"status": "wrong", "reason": reason}
            runs.append(candidate.run)
        if "against" in request:
            runs.append(_candidate(request["against"], workload, outputs).run)
    except TvmGnnError as error:
        return {"status": "crash", "reason": str(error)}
    if request.get("final"):
        times = time_interleaved(runs, measure.FINAL_ROUNDS, measure.FINAL_BLOCK_S)
    else:
        times = time_interleaved(runs)
    return {"status": "ok", "timings_s": times}


def _candidate(described: dict[str, Any], workload: Workload, outputs: list[Output]) -> Candidate:
    return Candidate(workload, outputs, Path(described["library"]), described["launch"], described.get("edge_order"))
