"""Tasks on the karate graph, a machine with invented times, and libraries that are built once for all tests."""

from __future__ import annotations

import json
import math
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped,unused-ignore]
import pytest

import tvm_gnn
import tvm_gnn.tuning.workload as workload
from tvm_gnn import Graph, datasets
from tvm_gnn.compile import make_task
from tvm_gnn.templates import spmm_csr
from tvm_gnn.templates.space import Decisions
from tvm_gnn.toolchain.launcher import CALL, OMP_PARALLEL, TVM_PARALLEL
from tvm_gnn.toolchain.link import linker
from tvm_gnn.tuning.builder import Builder, BuildResult
from tvm_gnn.tuning.report import TuneReport
from tvm_gnn.tuning.runner import Runner, RunResult
from tvm_gnn.tuning.task import Task

FEAT, WIDE, THREADS = 8, 128, 2


class Machine:
    """Stands in for the build and measuring processes of a tuning run.

    Attributes
    ----------
    seconds : callable
        Time of a schedule.
    build, run, check, compare : callable
        The outcome of building a schedule, of its trial, of its check with edge values in the other order, and of the
        final comparison; None leaves it right. May raise.
    trials, finals, checks : list of Decisions
        What was measured in trials, in the final comparison, with edge values in the other order.
    open : int
        Builders and runners not closed yet.
    """

    def __init__(self, seconds: Callable[[Decisions], float]) -> None:
        self.seconds = seconds
        self.build: Callable[[dict[str, Any]], BuildResult | None] = lambda code: None
        self.run: Callable[[Decisions], RunResult | None] = lambda choice: None
        self.check: Callable[[Decisions], RunResult | None] = lambda choice: None
        self.compare: Callable[[list[Decisions]], RunResult | None] = lambda choices: None
        self.trials: list[Decisions] = []
        self.finals: list[Decisions] = []
        self.checks: list[Decisions] = []
        self.open = 0

    def schedule_of(self, library: Path, launch: dict[str, int]) -> Decisions:
        """The schedule that a library and its launch parameters mean."""
        return {
            **json.loads(library.read_text()),
            "slices": launch["slices"],
            "prefetch": launch["prefetch_distance"],
            "parts": launch["parts"],
            "dynamic": launch["tasks"] > THREADS,
        }


class FakeBuilder:
    """Its libraries hold the decisions that a compiler would see."""

    def __init__(self, machine: Machine, folder: Path) -> None:
        self._machine, self._folder = machine, folder
        machine.open += 1

    def build(self, specs: list[dict[str, Any]]) -> list[BuildResult]:
        return [self._machine.build(spec["code"]) or self._library(spec) for spec in specs]

    def close(self) -> None:
        self._machine.open -= 1

    def _library(self, spec: dict[str, Any]) -> BuildResult:
        library = self._folder / f"{'-'.join(map(str, spec['code'].values()))}.so"
        library.write_text(json.dumps(spec["code"]))
        return BuildResult(library)


class FakeRunner:
    """Knows the time of a schedule without running it."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        machine.open += 1

    def run(
        self,
        library: Path,
        launch: dict[str, int],
        timeout_s: float = 20.0,
        against: Any = None,
        edge_order: str | None = None,
    ) -> RunResult:
        choice = self._machine.schedule_of(library, launch)
        if edge_order is not None:
            self._machine.checks.append(choice)
            return self._machine.check(choice) or RunResult([self._machine.seconds(choice)] * 3)
        self._machine.trials.append(choice)
        return self._machine.run(choice) or RunResult([self._machine.seconds(choice)] * 3)

    def compare(self, candidates: list[tuple[Path, dict[str, int]]]) -> list[list[float]] | RunResult:
        choices = [self._machine.schedule_of(*candidate) for candidate in candidates]
        self._machine.finals += choices
        return self._machine.compare(choices) or [[self._machine.seconds(choice)] * 3 for choice in choices]

    def close(self) -> None:
        self._machine.open -= 1


@pytest.fixture(scope="session")
def karate() -> Graph:
    return datasets.load("karate")


@pytest.fixture(scope="session")
def make(karate: Graph) -> Callable[..., Task]:
    """Tasks of two threads, whatever the machine has."""

    def build(op: str = "u_mul_e_sum", feat: int = FEAT, graph: Graph = karate, threads: int = THREADS) -> Task:
        return make_task(graph, op, feat, threads=threads)

    return build


@pytest.fixture(scope="session")
def task(make: Callable[..., Task]) -> Task:
    return make()


@pytest.fixture(scope="session")
def wide(make: Callable[..., Task]) -> Task:
    """Over a thousand schedules."""
    return make(feat=WIDE)


@pytest.fixture(scope="session")
def cost_s() -> Callable[[Decisions], float]:
    """Seconds of a schedule on an invented machine: a few decisions matter much, and they interact."""

    def seconds(choice: Decisions) -> float:
        lanes, vectors = int(choice["lanes"]), int(choice["vectors"])
        unroll, parts, prefetch = int(choice["unroll"]), int(choice["parts"]), int(choice["prefetch"])
        factor = 1.0 + 0.6 * abs(math.log2(lanes * vectors) - 5) + 0.3 * abs(math.log2(unroll) - 1)
        factor *= 1.0 + 0.15 * abs(math.log2(parts) - 4) + (0.2 if choice["dynamic"] else 0.0)
        factor *= 1.0 + 0.1 * abs(prefetch - 16) / 16 * (2.0 if choice["order"] == "tiles" else 1.0)
        return 1e-4 * factor

    return seconds


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch, cost_s: Callable[[Decisions], float]) -> Machine:
    """In place of the machine that a tuning run would build and measure on."""
    machine = Machine(cost_s)
    monkeypatch.setattr("tvm_gnn.tuning.tuner.Builder", lambda target, folder, workers: FakeBuilder(machine, folder))
    monkeypatch.setattr("tvm_gnn.tuning.tuner.Runner", lambda folder: FakeRunner(machine))
    monkeypatch.setattr("tvm_gnn.toolchain.target.thread_limit", lambda: THREADS)
    return machine


@pytest.fixture
def tune(machine: Machine) -> Callable[..., TuneReport]:
    """`tvm_gnn.tune` of the `wide` task's operator and width on `machine`."""

    def run(graph: Graph, trials: int | None = 40, **more: Any) -> TuneReport:
        return tvm_gnn.tune(graph, "u_mul_e_sum", WIDE, trials=trials, **more)

    return run


@pytest.fixture(scope="session")
def built(make: Callable[..., Task], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The default schedule's library of several operators at the same width."""
    tasks = {op: make(op) for op in ("u_mul_e_sum", "copy_u_sum", "u_mul_e_mean")}
    builder = Builder(tasks["copy_u_sum"].target, tmp_path_factory.mktemp("built"), workers=1)
    try:
        results = builder.build([task.code_spec(task.space.default) for task in tasks.values()])
    finally:
        builder.close()
    assert [result.error for result in results] == [None] * len(tasks)
    return {op: result.library for op, result in zip(tasks, results, strict=True) if result.library}


@pytest.fixture(scope="module")
def runner(task: Task, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runner]:
    """A measuring process on karate with `u_mul_e_sum`."""
    folder = tmp_path_factory.mktemp("workload")
    workload.write(task, folder)
    runner = Runner(folder)
    yield runner
    runner.close()


@pytest.fixture(scope="session")
def compile_c(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """A kernel library from C: the body sees the arrays, as float or int32 pointers, and the sizes of karate."""
    folder = tmp_path_factory.mktemp("c")
    at = spmm_csr.ARGUMENTS.index

    def build(body: str) -> Path:
        source = folder / f"kernel{len(list(folder.glob('*.c')))}.c"
        source.write_text(
            f"""
            #include <stdint.h>
            #include <stdlib.h>
            enum {{ N = 34, F = {FEAT} }};
            typedef struct {{ int32_t type, padding; int64_t value; }} Any;
            void *{OMP_PARALLEL} = 0, *{TVM_PARALLEL} = 0;
            static void *data(Any *args, int i) {{ return *(void **)args[i].value; }}
            static void spmm(int32_t *indptr, int32_t *indices, float *w, float *x, float *y) {{
                for (int v = 0; v < N; v++)
                    for (int k = 0; k < F; k++) {{
                        float sum = 0;
                        for (int e = indptr[v]; e < indptr[v + 1]; e++) sum += w[e] * x[indices[e] * F + k];
                        y[v * F + k] = sum;
                    }}
            }}
            int {CALL}(Any *args, int count, void *result, int tasks, int threads) {{
                int32_t *indptr = data(args, {at("indptr")}), *indices = data(args, {at("indices")});
                float *w = data(args, {at("w")}), *x = data(args, {at("x")}), *y = data(args, {at("y")});
                {body}
                return 0;
            }}
            """
        )
        library = source.with_suffix(".so")
        subprocess.run([*linker(), "-shared", "-fPIC", "-w", "-o", library, source], check=True)
        return library

    return build


@pytest.fixture(scope="session")
def is_running() -> Callable[[int], bool]:
    """Whether a process exists and is more than a zombie that nobody has collected yet."""

    def check(pid: int) -> bool:
        try:
            return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
        except psutil.NoSuchProcess:
            return False

    return check


@pytest.fixture(scope="session")
def wait_until() -> Callable[..., Any]:
    """Polls until the condition holds; fails the test after `timeout_s`."""

    def wait(condition: Callable[[], Any], timeout_s: float = 30.0) -> Any:
        deadline = time.monotonic() + timeout_s
        while not (value := condition()):
            assert time.monotonic() < deadline, "waited in vain"
            time.sleep(0.02)
        return value

    return wait
