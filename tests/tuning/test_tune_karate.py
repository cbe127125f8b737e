"""Tuning karate for real: the artifact serves inference, and nothing a process is hit by loses finished trials."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import psutil  # type: ignore[import-untyped,unused-ignore]
import pytest

import tvm_gnn
from tvm_gnn import Graph
from tvm_gnn.compile import record_log
from tvm_gnn.errors import TuneError
from tvm_gnn.ops.reference import spmm_reference
from tvm_gnn.untuned import artifact_store

OP, FEAT = "u_mul_e_sum", 8
# A shell that runs tests in the background makes their children ignore Ctrl-C.
COMMAND = """
import signal, sys
from tvm_gnn.cli.main import main
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.exit(main())
"""


@pytest.fixture(autouse=True)
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A killed process leaves its scratch folder behind; here it goes with the test's."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))


def command_line(*more: object) -> list[str]:
    task = ("--dataset", "karate", "--op", OP, "--feat", FEAT)
    return [sys.executable, "-c", COMMAND, "tune", *map(str, (*task, *more)), "--json"]


def start(*more: object) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": str(Path(tvm_gnn.__file__).parents[1])}
    pipe = subprocess.PIPE
    return subprocess.Popen(command_line(*more), stdout=pipe, stderr=pipe, text=True, env=environment)


def finish(process: subprocess.Popen[str], code: int = 0) -> dict[str, Any]:
    out, err = process.communicate(timeout=120)
    assert process.returncode == code, err
    report: dict[str, Any] = json.loads(out)
    return report


def whole_lines() -> int:
    path = record_log().path
    return path.read_bytes().count(b"\n") if path.exists() else 0


def test_tuned_kernel_serves_inference(karate: Graph) -> None:
    report = tvm_gnn.tune(karate, OP, FEAT, trials=8)
    assert report.trials == {"measured": 8, "valid": 8, "failed": 0, "failures": {}, "reused": 0}
    assert report.speedup >= 1.0
    assert report.best_ms <= report.default_ms
    assert report.warnings == []
    log = record_log().read()
    assert len(log.records) == 8
    assert all(record.schema == 1 and record.default_s for record in log.records)

    kernel = tvm_gnn.load(karate, OP, FEAT)
    assert kernel.source == "exact"
    assert kernel.provenance.artifact == report.artifact
    assert kernel.provenance.decisions == report.decisions
    rng = np.random.default_rng(0)
    x, w = rng.random((34, FEAT), np.float32), rng.random(156, np.float32)
    expected = spmm_reference(kernel.problem.op, karate.indptr, karate.indices, karate.edge_ids, x, w)
    np.testing.assert_allclose(kernel(x, w), expected, rtol=1e-5)

    # The same graph as somebody else's edge list: other edge order, other kernel, same schedule.
    order = rng.permutation(156)
    listed = Graph.from_coo(karate.indices[order], np.repeat(np.arange(34), karate.in_degrees)[order])
    other = tvm_gnn.load(listed, OP, FEAT)
    assert (other.source, other.provenance.decisions) == ("exact", report.decisions)
    assert (kernel.problem.edge_order, other.problem.edge_order) == ("csr", "edge_ids")
    np.testing.assert_allclose(other(x, w[order]), expected, rtol=1e-5)

    again = tvm_gnn.tune(karate, OP, FEAT, trials=8)
    assert (again.trials["measured"], again.trials["reused"]) == (0, 8)
    assert again.artifact is not None
    more = tvm_gnn.tune(karate, OP, FEAT, trials=12)
    assert (more.trials["measured"], more.trials["reused"]) == (4, 8)
    assert len(record_log().read().records) == 12


def test_kill_9_loses_no_finished_trial(is_running: Callable[[int], bool], wait_until: Callable[..., Any]) -> None:
    process = start("--trials", 20)
    wait_until(lambda: whole_lines() >= 8 or process.poll() is not None, 60.0)
    started = [child.pid for child in psutil.Process(process.pid).children(recursive=True)]
    process.kill()
    process.communicate()
    assert started
    wait_until(lambda: not any(map(is_running, started)), 20.0)
    recorded = len(record_log().read().records)
    assert 8 <= recorded < 20
    assert artifact_store().entries() == []

    report = finish(start("--trials", 20))
    assert (report["trials"]["measured"], report["trials"]["reused"]) == (20 - recorded, recorded)
    assert report["warnings"] == []
    tried = [json.dumps(record.decisions, sort_keys=True) for record in record_log().read().records]
    assert len(tried) == len(set(tried)) == 20
    assert len(artifact_store().entries()) == 2  # one per edge order


def test_ctrl_c_keeps_what_was_found(is_running: Callable[[int], bool], wait_until: Callable[..., Any]) -> None:
    process = start("--budget", "10m")
    wait_until(lambda: whole_lines() >= 3 or process.poll() is not None, 60.0)
    children = [child.pid for child in psutil.Process(process.pid).children(recursive=True)]
    process.send_signal(signal.SIGINT)
    report = finish(process, 130)
    assert report["interrupted"] is True
    recorded = whole_lines()
    assert recorded >= 3
    assert 0 <= report["trials"]["measured"] - recorded <= 1  # the interrupt may hit between a trial and its record
    assert report["artifact"] in [str(artifact.path) for artifact in artifact_store().entries()]
    assert children
    wait_until(lambda: not any(map(is_running, children)), 20.0)


def test_failing_compiler_stores_nothing(karate: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "false")
    with pytest.raises(TuneError, match=r"build_error: link: .*false ended with 1.*Nothing was stored"):
        tvm_gnn.tune(karate, OP, FEAT, trials=4)
    assert artifact_store().entries() == []
    assert [record.status for record in record_log().read().records] == ["build_error"]
