"""The process that runs candidates on the mapped workload; a crash or hang here costs one trial."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from ..errors import TvmGnnError
from . import measure
from .measure import Candidate, Output, time_interleaved
from .worker import serve
from .workload import Workload


def main() -> None:
    """Serve measuring requests; the command line's argument is the workload's folder."""
    workload = Workload(Path(sys.argv[1]))
    output = Output(workload.reference.shape, workload.dtype)
    serve(lambda request: handle(request, workload, output))


def handle(request: dict[str, Any], workload: Workload, output: Output) -> dict[str, Any]:
    """Check and time ``request["candidates"]``, each ``{"library", "launch"}``, interleaved when there are several."""
    runs = []
    for candidate in request["candidates"]:
        try:
            built = Candidate(workload, output, Path(candidate["library"]), candidate["launch"])
        except TvmGnnError as error:
            return {"status": "crash", "reason": str(error)}
        reason = built.wrong()
        if reason is not None:
            return {"status": "wrong", "reason": reason}
        runs.append(built.run)
    if request.get("final"):
        times = time_interleaved(runs, measure.FINAL_ROUNDS, measure.FINAL_BLOCK_S)
    else:
        times = time_interleaved(runs)
    return {"status": "ok", "timings_s": times}


if __name__ == "__main__":
    main()
