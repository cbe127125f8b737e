"""Runs commands in this process, and a store that was tuned once for all tests."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import tvm_gnn
from tvm_gnn.cli.main import main


class Outcome(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        """The one object on standard output; anything else there is an error."""
        value = json.loads(self.out)
        assert isinstance(value, dict)
        return value


class Tuned(NamedTuple):
    """What `tvm-gnn tune` printed when the store was made, and the arguments of the task."""

    outcome: Outcome
    task: tuple[str, ...]


TASK = ("--dataset", "karate", "--op", "copy_u_sum", "--feat", "8")
TRIALS = 30


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., Outcome]:
    """``run("tune", "--feat", 8, …)`` in this process."""

    def command(*arguments: object) -> Outcome:
        capsys.readouterr()
        try:
            code = main([str(argument) for argument in arguments])
        except SystemExit as exit_:  # argparse's own way out
            code = int(exit_.code or 0)
        return Outcome(code, *capsys.readouterr())

    return command


@pytest.fixture(scope="session")
def run_process() -> Callable[..., Outcome]:
    """The same in a process of its own, with changes to the environment."""

    def command(*arguments: object, **environment: str) -> Outcome:
        root = str(Path(tvm_gnn.__file__).parents[1])
        done = subprocess.run(
            [sys.executable, "-m", "tvm_gnn.cli.main", *map(str, arguments)],
            env={**os.environ, "PYTHONPATH": root, **environment},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        return Outcome(done.returncode, done.stdout, done.stderr)

    return command


@pytest.fixture(scope="session")
def tuned_once(run_process: Callable[..., Outcome], tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Outcome]:
    folder = tmp_path_factory.mktemp("tuned")
    places = {"TVM_GNN_CACHE": str(folder / "cache"), "TVM_GNN_LOGS": str(folder / "logs")}
    outcome = run_process("tune", *TASK, "--trials", TRIALS, "--seed", 1, "--json", **places)
    assert outcome.code == 0, outcome.err
    return folder, outcome


@pytest.fixture
def tuned(tuned_once: tuple[Path, Outcome], isolated_cache: Path) -> Tuned:
    """This test's store and log hold one tuned task."""
    folder, outcome = tuned_once
    shutil.copytree(folder / "cache", isolated_cache)
    shutil.copytree(folder / "logs", os.environ["TVM_GNN_LOGS"])
    return Tuned(outcome, TASK)
