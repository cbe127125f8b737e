"""Builds candidates in parallel worker processes; a library is built once however many candidates share its code."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import xxhash

from ..errors import BuildError, DependencyError
from ..toolchain.importing import require_tvm
from ..toolchain.link import linker
from ..toolchain.target import CpuTarget
from ..toolchain.temporary import full_disk_hint
from .worker import Worker, WorkerDied, WorkerTimeout

BUILD_TIMEOUT_S = 60.0


@dataclass(frozen=True)
class BuildResult:
    """Exactly one of `library` and `error` is set; `status` is that of a failed trial's record."""

    library: Path | None
    error: str | None = None
    status: str = "ok"
    missing_dependency: bool = False


class Builder:
    """A pool of build workers, started at once so that their imports overlap with the caller's work.

    Parameters
    ----------
    target : CpuTarget
    folder : Path
        Where libraries and the workers' log go.
    workers : int

    Raises
    ------
    DependencyError, InputError
        TVM or a compiler is missing, or ``CC`` names none.
    """

    def __init__(self, target: CpuTarget, folder: Path, workers: int) -> None:
        require_tvm()
        linker()
        self._folder = folder
        self._done: dict[str, BuildResult] = {}
        module = "tvm_gnn.tuning.build_worker"
        argument = json.dumps(asdict(target))
        self._workers = [Worker(module, argument, folder / f"build-{i}.log") for i in range(max(1, workers))]

    def build(self, specs: list[dict[str, Any]], timeout_s: float = BUILD_TIMEOUT_S) -> list[BuildResult]:
        """A result for every code spec, in order."""
        names = [xxhash.xxh3_64_hexdigest(json.dumps(spec, sort_keys=True).encode()) for spec in specs]
        pending = {name: spec for name, spec in zip(names, specs, strict=True) if name not in self._done}
        jobs = iter(pending.items())
        running: list[tuple[Worker, str]] = []
        try:
            for worker in self._workers:
                running += self._next(worker, jobs)
            while running:
                worker, name = running[0]
                self._done[name] = self._collect(worker, timeout_s)
                running = running[1:] + self._next(worker, jobs)
        except KeyboardInterrupt:
            for worker in self._workers:
                worker.kill()  # what they build is not waited for, and would disturb what is measured next
            raise
        return [self._done[name] for name in names]

    def close(self) -> None:
        """End the workers."""
        for worker in self._workers:
            with suppress(OSError):
                worker.close()

    def _next(self, worker: Worker, jobs: Iterator[tuple[str, dict[str, Any]]]) -> list[tuple[Worker, str]]:
        for name, spec in jobs:
            worker.send({"spec": spec, "library": str(self._folder / f"{name}.so")})
            return [(worker, name)]
        return []

    def _collect(self, worker: Worker, timeout_s: float) -> BuildResult:
        try:
            answer = worker.receive(timeout_s)
        except WorkerTimeout as error:
            return BuildResult(None, f"build: {error}", "timeout")
        except WorkerDied as error:
            return BuildResult(None, f"build: {error}{full_disk_hint(self._folder)}", "crash")
        if "error" in answer:
            return BuildResult(None, answer["error"], "build_error", answer["kind"] == "DependencyError")
        return BuildResult(Path(answer["library"]))


def build_once(spec: dict[str, Any], target: CpuTarget, folder: Path) -> Path:
    """Build one code spec in a process of its own.

    Raises
    ------
    DependencyError, InputError
        TVM or a compiler is missing, or ``CC`` names none.
    BuildError
        The build failed.
    """
    builder = Builder(target, folder, workers=1)
    try:
        (result,) = builder.build([spec])
    finally:
        builder.close()
    if result.library is None:
        raise (DependencyError if result.missing_dependency else BuildError)(result.error or "build: failed")
    return result.library
