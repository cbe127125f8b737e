"""What all tests share: a cache of their own, kernels built once per session, fresh Python processes."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

import pytest

import tvm_gnn
from tvm_gnn.graph import Graph
from tvm_gnn.ops import parse_op
from tvm_gnn.runtime.kernel import BoundLibrary, Kernel, Provenance
from tvm_gnn.runtime.library import Library
from tvm_gnn.templates.launch import launch_parameters
from tvm_gnn.templates.registry import template_of
from tvm_gnn.templates.space import Decisions
from tvm_gnn.testing.operands import problem
from tvm_gnn.testing.schedules import TARGETS, space_of
from tvm_gnn.tuning.builder import Builder
from tvm_gnn.tuning.task import code_spec


@pytest.fixture(autouse=True)
def isolated_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The cache folder of this test: empty, and nobody else's."""
    monkeypatch.setenv("TVM_GNN_CACHE", str(tmp_path / "tvm_gnn-cache"))
    monkeypatch.setenv("TVM_GNN_LOGS", str(tmp_path / "tvm_gnn-logs"))
    # What the models that come with the package have learned must decide no test.
    monkeypatch.setenv("TVM_GNN_MODELS", str(tmp_path / "no models"))
    monkeypatch.delenv("TVM_GNN_NUM_THREADS", raising=False)
    return tmp_path / "tvm_gnn-cache"


class Libraries:
    """Kernel libraries by code spec, each built once per session in one of two worker processes."""

    def __init__(self, folder: Path) -> None:
        self._builder = Builder(TARGETS["avx512"], folder, workers=2)
        self._loaded: dict[Path, Library] = {}

    def paths(self, specs: list[dict[str, Any]]) -> list[Path]:
        """Files of the libraries; a spec that does not build fails the test."""
        results = self._builder.build(specs)
        failed = [(spec, result.error) for spec, result in zip(specs, results, strict=True) if result.error]
        assert not failed, f"{len(failed)} of {len(specs)} schedules do not build, first {failed[0]}"
        return [result.library for result in results if result.library is not None]

    def load(self, specs: list[dict[str, Any]]) -> list[Library]:
        """The libraries, loaded."""
        paths = self.paths(specs)
        for path in paths:
            if path not in self._loaded:
                self._loaded[path] = Library(path)
        return [self._loaded[path] for path in paths]

    def close(self) -> None:
        """End the workers."""
        self._builder.close()


@pytest.fixture(scope="session")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Libraries]:
    """Builds and keeps kernel libraries for the whole session."""
    built = Libraries(tmp_path_factory.mktemp("libraries"))
    yield built
    built.close()


class MakeKernel(Protocol):
    """``make_kernel(graph, op, feat, …)``."""

    def __call__(
        self,
        graph: Graph,
        op: str,
        feat: int | tuple[int, int],
        choice: Decisions | None = None,
        edge_order: str = "caller",
        threads: int = 2,
        dtype: str = "float32",
        edge_feat: tuple[int, ...] | None = None,
    ) -> Kernel: ...


@pytest.fixture(scope="session")
def make_kernel(libraries: Libraries) -> MakeKernel:
    """A kernel bound to a graph, as `tvm_gnn.load` gives it, with any schedule (default: the default one)."""

    def make(
        graph: Graph,
        op: str,
        feat: int | tuple[int, int],
        choice: Decisions | None = None,
        edge_order: str = "caller",
        threads: int = 2,
        dtype: str = "float32",
        edge_feat: tuple[int, ...] | None = None,
    ) -> Kernel:
        permuted = parse_op(op).uses_edges and edge_order == "caller" and graph.edge_ids is not None
        order = "edge_ids" if permuted else "csr"
        what = problem(op, feat, dtype, graph.index_dtype, order, edge_feat)
        if choice is None:
            choice = space_of(what).default
        (library,) = libraries.load([code_spec(what, choice)])
        bound = BoundLibrary(library, template_of(what).ARGUMENTS, launch_parameters(choice, threads))
        return Kernel(graph, what, bound, threads, Provenance("default", dict(choice)))

    return make


@pytest.fixture(scope="session")
def sampled_schedules() -> Callable[..., list[Decisions]]:
    """Seeded draws from a space, the default first: ``sampled_schedules(feat, count, target="avx512", op=…)``."""

    def draw(feat: Any, count: int, target: str = "avx512", op: str = "copy_u_sum") -> list[Decisions]:
        space = space_of(problem(op, feat), target)
        rng = random.Random(str(feat))
        return [space.default, *(space.sample(rng) for _ in range(count - 1))]

    return draw


@pytest.fixture
def quick_builds(libraries: Libraries, monkeypatch: pytest.MonkeyPatch) -> None:
    """`tvm_gnn.load` takes default kernels from the session's libraries instead of starting a process for each."""
    monkeypatch.setattr("tvm_gnn.tuning.builder.build_once", lambda spec, target, folder: libraries.paths([spec])[0])


@pytest.fixture(scope="session")
def run_python() -> Callable[..., str]:
    """Runs code in a fresh process that must exit with 0 in time; returns what it printed.

    ``run_python(code, *arguments, env={...}, timeout_s=60, prefix=())``; a value of None in `env` unsets the variable,
    `prefix` is put before the command. A process killed by a signal shows its last output.
    """
    root = Path(tvm_gnn.__file__).parents[1]

    def run(
        code: str,
        *arguments: object,
        env: dict[str, str | None] | None = None,
        timeout_s: float = 60,
        prefix: tuple[str, ...] = (),
    ) -> str:
        changed = {**os.environ, "PYTHONPATH": str(root), **(env or {})}
        done = subprocess.run(
            [*prefix, sys.executable, "-c", code, *map(str, arguments)],
            env={name: value for name, value in changed.items() if value is not None},
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )
        assert done.returncode == 0, (
            f"exit code {done.returncode}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"  # negative: killed by a signal
        )
        return done.stdout

    return run
