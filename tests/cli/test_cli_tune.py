"""`tvm-gnn tune`: its report, its text, and its exit codes when nothing can be tuned."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tvm_gnn
from tvm_gnn import datasets
from tvm_gnn.compile import make_task
from tvm_gnn.tuning import finals
from tvm_gnn.tuning.finals import Final

Run = Callable[..., Any]


def test_report_has_the_agreed_fields(tuned: Any) -> None:
    outcome = tuned.outcome
    report = outcome.json
    assert outcome.err == ""
    graph = datasets.load("karate")
    assert (report["dataset"], report["op"], report["feat"], report["dtype"]) == ("karate", "copy_u_sum", 8, "float32")
    assert report["target"] == "llvm"
    assert report["signature"] == {"exact": graph.signature.exact, "bucket": graph.signature.bucket}
    trials = report["trials"]
    assert trials["measured"] == 30 == trials["valid"] + trials["failed"]
    assert (trials["reused"], trials["failed"]) == (0, 0)
    assert 0 < report["first_candidate_s"] < report["tune_s"] < 100
    assert 0 < report["best_ms"] <= report["default_ms"]
    assert report["speedup"] == pytest.approx(report["default_ms"] / report["best_ms"])
    assert set(report["decisions"]) == set(make_task(graph, "copy_u_sum", 8).space.default)
    assert 0 < report["cost_model"]["predictions"] < 30
    assert -1 <= report["cost_model"]["rank_correlation"] <= 1
    assert report["seed"] == 1
    assert (report["interrupted"], report["warnings"]) == (False, [])


def test_what_was_tuned_is_served(tuned: Any, run: Run) -> None:
    kernel = tvm_gnn.load(datasets.load("karate"), "copy_u_sum", 8)
    assert kernel.source == "exact"
    assert kernel.provenance.decisions == tuned.outcome.json["decisions"]


def test_again_in_words(tuned: Any, run: Run) -> None:
    outcome = run("tune", *tuned.task, "--trials", 30)
    assert outcome.code == 0
    assert "tuning copy_u_sum feat=8 on karate: 34 rows, 156 edges" in outcome.err
    assert "30 trials known" in outcome.err
    for part in ("karate", "copy_u_sum, feat 8", "0 in ", "30 known before", "schedule", "tvm_gnn.load(graph"):
        assert part in outcome.out
    assert "warning" not in outcome.out


def test_resumed_without_time_for_a_trial(tuned: Any, run: Run) -> None:
    outcome = run("tune", *tuned.task, "--budget", "100ms")
    assert outcome.code == 0, outcome.err
    assert "0 in " in outcome.out
    assert "the budget left no time for a trial: give more than " in outcome.out


def test_resumed_with_nothing_left_to_try(tuned: Any, run: Run) -> None:
    assert "all 30 trials were known already" in run("tune", *tuned.task, "--trials", 30).out


def test_only_the_default_was_tried(run: Run) -> None:
    outcome = run("tune", "--dataset", "karate", "--op", "copy_u_sum", "--feat", 8, "--budget", "100ms")
    assert outcome.code == 0, outcome.err
    assert "left no time for a trial beside the default schedule" in outcome.out
    assert "measuring the default schedule again" in outcome.err


@pytest.mark.parametrize("beaten", [False, True])
def test_default_that_was_kept(tuned: Any, run: Run, monkeypatch: pytest.MonkeyPatch, beaten: bool) -> None:
    task = make_task(datasets.load("karate"), "copy_u_sum", 8)
    choice = next(choice for choice in task.space if choice != task.space.default) if beaten else task.space.default

    def decide(candidates: Any, _times: Any) -> Final:
        return Final(dict(sorted(choice.items())), candidates[0][1], 1.0, 1.0 + beaten)

    monkeypatch.setattr(finals, "_decide", decide)
    text = run("tune", *tuned.task, "--trials", 30).out
    assert ("note      the default schedule was kept: no candidate beat it" in text) is not beaten
    (shown,) = [line.split(maxsplit=1)[1] for line in text.splitlines() if line.startswith("schedule")]
    assert shown == ", ".join(f"{each.name} {choice[each.name]}" for each in task.space.decisions)


def test_several_widths_give_several_reports(tuned: Any, run: Run) -> None:
    outcome = run("tune", "--dataset", "karate", "--op", "copy_u_sum", "--feat", "8, 4", "--trials", 3, "--json")
    assert outcome.code == 0
    assert outcome.err == ""
    reports = outcome.json["reports"]
    assert [report["feat"] for report in reports] == [8, 4]
    assert [report["trials"]["reused"] for report in reports] == [30, 0]
    assert [report["trials"]["measured"] for report in reports] == [0, 3]


def test_dataset_may_be_a_file_or_a_generator(tmp_path: Path, run: Run) -> None:
    (tmp_path / "edges.txt").write_text("# source destination\n0 1\n1 2\n2 0\n0 2\n")
    for dataset, name in ((tmp_path / "edges.txt", "edges"), ("synthetic:path:n=6", "synthetic:path:n=6")):
        outcome = run("tune", "--dataset", dataset, "--op", "u_mul_e_mean", "--feat", 3, "--trials", 1, "--json")
        assert outcome.code == 0, outcome.err
        assert outcome.json["dataset"] == name
        assert outcome.json["trials"]["measured"] == 1


def test_warnings_are_in_the_report(tuned: Any, run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    report = tuned.outcome.json
    log = Path(report["records"]).name
    with Path(os.environ["TVM_GNN_LOGS"], log).open("a") as file:
        file.write('{"half a line')
    outcome = run("tune", *tuned.task, "--trials", 30, "--json")
    assert outcome.code == 0
    assert ["1 damaged line was skipped" in warning for warning in outcome.json["warnings"]] == [True]


def test_nothing_valid_is_a_negative_finding(run: Run, isolated_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "false")
    outcome = run("tune", "--dataset", "karate", "--op", "copy_u_sum", "--feat", 8, "--trials", 4, "--json")
    assert outcome.code == 1
    assert outcome.out == ""
    assert len(outcome.err.splitlines()) == 1
    assert "no schedule could be measured" in outcome.err
    assert not isolated_cache.exists() or not list(isolated_cache.rglob("*.so"))


@pytest.mark.parametrize("missing", ["compiler", "xgboost"])
def test_missing_dependency_is_exit_code_3(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, missing: str
) -> None:
    if missing == "compiler":
        monkeypatch.delenv("CC", raising=False)
        monkeypatch.setenv("PATH", str(tmp_path))
    else:
        monkeypatch.setitem(sys.modules, "xgboost", None)
    outcome = run("tune", "--dataset", "karate", "--op", "copy_u_sum", "--feat", 8, "--trials", 4, "--json")
    assert outcome.code == 3
    assert outcome.out == ""
    assert len(outcome.err.splitlines()) == 1
    assert missing in outcome.err
    assert "Install" in outcome.err
