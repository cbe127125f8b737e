"""`tvm-gnn bench`: its report, its table, and what it needs torch for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from importlib.util import find_spec
from typing import Any

import pytest

import tvm_gnn.cli.bench as bench
from tvm_gnn.bench import CONTENDERS
from tvm_gnn.errors import TuneError

Run = Callable[..., Any]
QUICK = ("--rounds", "3")
needs_torch = pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed")


@needs_torch
@pytest.mark.torch
def test_both_protocols_are_the_default_where_torch_is(tuned: Any, run: Run) -> None:
    report = run("bench", *tuned.task, "--against", "scipy", *QUICK, "--json").json
    assert report["protocol"] == "both"
    assert [len(report["cases"]), len(report["layer"]["cases"])] == [1, 1]


def test_report_has_the_agreed_fields(tuned: Any, run: Run) -> None:
    outcome = run("bench", *tuned.task, "--against", "scipy", "--protocol", "alone", *QUICK, "--json")
    assert outcome.code == 0, outcome.err
    assert outcome.err == ""
    report = outcome.json
    machine = report["machine"]
    assert machine["cores"] >= 1
    assert machine["cpu"]
    assert {"numpy", "scipy", "apache-tvm"} <= set(machine["versions"])
    assert report["protocol"] == "alone"
    (case,) = report["cases"]
    assert (case["dataset"], case["op"], case["feat"], case["source"]) == ("karate", "copy_u_sum", 8, "exact")
    assert set(case["peers"]) == {"scipy"}
    assert case["best_peer"] == "scipy"
    assert case["ours_ms"] > 0
    assert case["ratio"] > 0
    assert case["ratio_interval"][0] <= case["ratio"] <= case["ratio_interval"][1]
    assert report["geomean"] == pytest.approx(case["ratio"])
    assert report["min"] == case["ratio"]


def test_untuned_task_is_measured_with_the_default_schedule(tuned: Any, run: Run) -> None:
    outcome = run(
        "bench", "--dataset", "karate", "--op", "u_mul_e_sum", "--feat", "4,8", "--against", "scipy", *QUICK, "--json"
    )
    assert outcome.code == 0, outcome.err
    report = outcome.json
    assert [(case["feat"], case["source"]) for case in report["cases"]] == [(4, "default"), (8, "default")]
    ratios = [case["ratio"] for case in report["cases"]]
    assert report["min"] == min(ratios)
    assert report["geomean"] == pytest.approx((ratios[0] * ratios[1]) ** 0.5)


def test_absent_contender_is_left_out_with_its_reason(tuned: Any, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    absent = replace(CONTENDERS["scipy"], missing=lambda: "scipy is on holiday")
    monkeypatch.setattr(bench, "select", lambda words: [absent])
    outcome = run("bench", *tuned.task, *QUICK, "--json")
    assert outcome.code == 0
    (case,) = outcome.json["cases"]
    assert case["left_out"] == {"scipy": "scipy is on holiday"}
    assert (case["peers"], case["best_peer"], case["ratio"]) == ({}, None, None)
    assert (outcome.json["geomean"], outcome.json["min"]) == (None, None)
    assert "scipy: scipy is on holiday" in run("bench", *tuned.task, *QUICK).out


def test_table_for_people(tuned: Any, run: Run) -> None:
    outcome = run("bench", *tuned.task, "--against", "scipy", *QUICK)
    assert outcome.code == 0
    for part in (
        "karate",
        "schedule: exact",
        "tvm_gnn",
        "scipy",
        "peer / ours",
        "geomean of 1 case ",
        "threads, commit",
    ):
        assert part in outcome.out


def test_summary_and_table_tell_the_same_ratio(tuned: Any, run: Run) -> None:
    lines = run("bench", *tuned.task, "--against", "scipy", "--protocol", "alone", *QUICK).out.splitlines()
    (row,) = [line.split() for line in lines if line.startswith("scipy ")]
    (summary,) = [line for line in lines if line.startswith("alone:")]
    assert f"geomean of 1 case {row[2]}x" in summary


@needs_torch
@pytest.mark.torch
def test_layer_alone_shows_no_other_table(tuned: Any, run: Run) -> None:
    outcome = run("bench", *tuned.task, "--against", "scipy", "--protocol", "layer", *QUICK)
    assert outcome.code == 0, outcome.err
    assert "feat 8, layer" in outcome.out
    assert "alone" not in outcome.out


@pytest.mark.parametrize("words", ["scipy", "scipy,dgl"])
def test_nobody_of_those_named_can_run(tuned: Any, run: Run, monkeypatch: pytest.MonkeyPatch, words: str) -> None:
    absent = [replace(CONTENDERS[name], missing=lambda: "it is on holiday") for name in words.split(",")]
    monkeypatch.setattr(bench, "select", lambda _words: absent)
    outcome = run("bench", *tuned.task, "--against", words, *QUICK)
    assert outcome.code == 3
    assert outcome.out == ""
    assert "scipy: it is on holiday" in outcome.err


@pytest.mark.parametrize("as_json", [False, True])
def test_a_failing_case_does_not_hide_those_before_it(
    tuned: Any, run: Run, monkeypatch: pytest.MonkeyPatch, as_json: bool
) -> None:
    compare = bench.compare

    def fail_at_five(case: Any, *arguments: Any, **options: Any) -> Any:
        if case.feat == 5:
            raise TuneError("five is right out")
        return compare(case, *arguments, **options)

    monkeypatch.setattr(bench, "compare", fail_at_five)
    outcome = run(
        "bench", "--dataset", "karate", "--op", "copy_u_sum", "--feat", "8,5", "--against", "scipy", "--protocol",
        "alone", *QUICK, *["--json"] * as_json,
    )  # fmt: skip
    assert outcome.code == 1
    assert outcome.err == "tvm-gnn: five is right out\n"
    if as_json:
        assert [case["feat"] for case in outcome.json["cases"]] == [8]
    else:
        assert "geomean of 1 case " in outcome.out


def test_tune_first(tuned: Any, run: Run) -> None:
    outcome = run(
        "bench", "--dataset", "karate", "--op", "copy_u_mean", "--feat", 4, "--against", "scipy", *QUICK,
        "--tune", "100ms", "--json",
    )  # fmt: skip
    assert outcome.code == 0, outcome.err
    assert outcome.json["cases"][0]["source"] == "exact"


def test_without_torch(tuned: Any, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "installed_version", lambda name: "none")
    outcome = run("bench", *tuned.task, "--against", "scipy", *QUICK, "--json")
    assert outcome.code == 0
    assert outcome.json["cases"][0]["ratio"] > 0
    in_layer = run("bench", *tuned.task, "--against", "scipy", *QUICK, "--protocol", "layer", "--json")
    assert in_layer.code == 3
    assert in_layer.out == ""
    assert len(in_layer.err.splitlines()) == 1
    assert "torch" in in_layer.err


@pytest.mark.torch
@needs_torch
@pytest.mark.parametrize("protocol", ["layer", "both"])
def test_in_a_layer(tuned: Any, run: Run, protocol: str) -> None:
    outcome = run("bench", *tuned.task, "--against", "scipy", *QUICK, "--protocol", protocol, "--json")
    assert outcome.code == 0, outcome.err
    report = outcome.json
    assert report["protocol"] == protocol
    layer = report["layer"] if protocol == "both" else report
    assert layer["cases"][0]["protocol"] == "layer"
    assert layer["geomean"] > 0
    if protocol == "both":
        assert report["cases"][0]["protocol"] == "alone"
