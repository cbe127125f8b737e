"""Measuring candidates: right ones get times; wrong, crashing and hanging ones cost their own trial only."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tvm_gnn.tuning.builder import build_once
from tvm_gnn.tuning.measure import ROUNDS
from tvm_gnn.tuning.runner import Runner, RunResult
from tvm_gnn.tuning.task import Task

RIGHT = "spmm(indptr, indices, w, x, y);"
HARM = {
    # name: body, status, what the reason must say
    "does nothing": ("", "wrong", "elements differ"),
    "leaves the last row": ("spmm(indptr, indices, w, x, y); y[33 * F] = 0;", "wrong", "1 of 272 elements differ"),
    "writes behind its output": (RIGHT + "y[N * F] = 1;", "wrong", "wrote outside its output"),
    "writes before its output": (RIGHT + "y[-1] = 1;", "wrong", "wrote outside its output"),
    "segfaults": ("*(volatile int *)8 = 1;", "crash", "SIGSEGV"),
    "writes to its input": (RIGHT + "x[0] = 1;", "crash", "SIGSEGV"),
    "aborts": ("abort();", "crash", "SIGABRT"),
    "exits": ("exit(0);", "crash", "exit code 0"),
    "reports an error": ("return 3;", "crash", "error 3"),
    "loops for ever": ("for (volatile int i = 0;; i++);", "timeout", "no answer within"),
}


def run(runner: Runner, task: Task, library: Path, timeout_s: float = 20.0) -> RunResult:
    return runner.run(library, task.launch(task.space.default), timeout_s)


def test_right_kernel_gets_times(runner: Runner, task: Task, built: dict[str, Path]) -> None:
    result = run(runner, task, built["u_mul_e_sum"])
    assert result.status == "ok", result.reason
    assert result.reason is None
    assert 3 <= len(result.timings_s) <= ROUNDS
    assert all(0 < seconds < 1 for seconds in result.timings_s)


def test_right_kernel_written_in_c_gets_times(runner: Runner, task: Task, compile_c: Callable[[str], Path]) -> None:
    # So the failures below are those of what was added to this body.
    assert run(runner, task, compile_c(RIGHT)).status == "ok"


@pytest.mark.parametrize("op", ["copy_u_sum", "u_mul_e_mean"])
def test_kernel_of_another_operator_is_wrong(runner: Runner, task: Task, built: dict[str, Path], op: str) -> None:
    result = run(runner, task, built[op])
    assert result.status == "wrong"
    assert "elements differ" in (result.reason or "")
    assert result.timings_s == []
    assert run(runner, task, built["u_mul_e_sum"]).status == "ok"


def test_a_kernel_for_the_other_edge_order_is_checked_in_that_order(
    runner: Runner, task: Task, built: dict[str, Path], tmp_path: Path
) -> None:
    other = task.other_edge_order()
    assert other is not None
    assert (task.kernel_edge_order, other.kernel_edge_order) == ("csr", "edge_ids")
    permuted = build_once(other.code_spec(other.space.default), other.target, tmp_path)
    launch = task.launch(task.space.default)
    assert runner.run(permuted, launch, edge_order="edge_ids").status == "ok"
    assert runner.run(built["u_mul_e_sum"], launch, edge_order="csr").status == "ok"
    assert runner.run(built["u_mul_e_sum"], launch, edge_order="edge_ids").status == "wrong"
    assert runner.run(built["u_mul_e_sum"], launch).status == "ok"


@pytest.mark.parametrize("harm", HARM)
def test_harmful_kernel_costs_its_own_trial(
    runner: Runner, task: Task, built: dict[str, Path], compile_c: Callable[[str], Path], harm: str
) -> None:
    body, status, reason = HARM[harm]
    start = time.monotonic()
    result = run(runner, task, compile_c(body), timeout_s=4.0)
    assert time.monotonic() - start < 20.0
    assert result.status == status
    assert reason in (result.reason or "")
    assert result.timings_s == []
    after = run(runner, task, built["u_mul_e_sum"])
    assert after.status == "ok", after.reason


def test_file_that_is_no_kernel_is_a_crash(runner: Runner, task: Task, built: dict[str, Path], tmp_path: Path) -> None:
    (tmp_path / "text.so").write_text("not a library")
    for library in (tmp_path / "text.so", tmp_path / "absent.so"):
        result = run(runner, task, library)
        assert result.status == "crash"
        assert "library: cannot be loaded" in (result.reason or "")
    assert run(runner, task, built["u_mul_e_sum"]).status == "ok"


def test_compare_measures_all_or_names_the_failure(runner: Runner, task: Task, built: dict[str, Path]) -> None:
    sound = (built["u_mul_e_sum"], task.launch(task.space.default))
    parts = (built["u_mul_e_sum"], task.launch({**task.space.default, "parts": 4}))
    times = runner.compare([sound, parts, sound])
    assert not isinstance(times, RunResult)
    assert len(times) == 3
    assert len({len(samples) for samples in times}) == 1
    failed = runner.compare([sound, (built["copy_u_sum"], sound[1])])
    assert isinstance(failed, RunResult)
    assert failed.status == "wrong"
    assert not isinstance(runner.compare([sound]), RunResult)
