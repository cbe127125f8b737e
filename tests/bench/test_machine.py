"""What a report says about the machine, and that importing the package's benchmarks costs nothing."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tvm_gnn.bench import this_machine
from tvm_gnn.bench.machine import checkout_commit


def test_machine_is_json_and_filled_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("MKL_DEBUG_CPU_TYPE", "5")
    monkeypatch.setenv("TVM_GNN_CACHE", "/somewhere/private")
    machine = json.loads(json.dumps(this_machine().as_dict()))
    assert machine["versions"]["numpy"] == np.__version__
    assert machine["environment"]["OMP_NUM_THREADS"] == "1"
    assert machine["environment"]["MKL_DEBUG_CPU_TYPE"] == "5"
    assert "TVM_GNN_CACHE" not in machine["environment"]
    assert machine["threads"] == 1
    assert machine["cores"] >= 1
    assert machine["cpus"] >= 1
    assert machine["cpu"]
    assert this_machine(threads=3).threads == 3


def test_commit_of_a_checkout(tmp_path: Path) -> None:
    if shutil.which("git") is None:
        pytest.skip("git is not installed")

    def git(*arguments: str) -> str:
        identity = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]
        command = ["git", "-C", str(tmp_path), *identity, *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    assert checkout_commit(tmp_path) is None
    git("init", "-q")
    assert checkout_commit(tmp_path) is None
    (tmp_path / "file").write_text("one")
    git("add", "file")
    git("commit", "-q", "-m", "first")
    commit = git("rev-parse", "HEAD")
    assert checkout_commit(tmp_path) == commit
    (tmp_path / "file").write_text("two")
    assert checkout_commit(tmp_path) == f"{commit}+changes"
    (tmp_path / "inner").mkdir()
    assert checkout_commit(tmp_path / "inner") is None


def test_import_loads_no_heavy_module() -> None:
    heavy = ["torch", "scipy", "tvm", "numba", "graphblas", "dgl", "torch_geometric", "xgboost"]
    code = f"import sys, tvm_gnn.bench; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
