"""A whole tuning run on a machine with invented times: what is measured, kept, reported and refused."""

from __future__ import annotations

import itertools
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tvm_gnn
from tvm_gnn import Graph
from tvm_gnn.cache import ArtifactStore, RecordLog
from tvm_gnn.compile import record_log
from tvm_gnn.errors import ArtifactError, DependencyError, InputError, InputTypeError, RecordError, TuneError
from tvm_gnn.templates.space import Decisions
from tvm_gnn.tuning import search, tuner
from tvm_gnn.tuning.builder import BuildResult
from tvm_gnn.tuning.cost_model import CostModel
from tvm_gnn.tuning.report import Silent, TrialEvent, TuneReport
from tvm_gnn.tuning.runner import RunResult
from tvm_gnn.tuning.search import frozen
from tvm_gnn.tuning.shipped import model_name
from tvm_gnn.tuning.task import Task
from tvm_gnn.untuned import artifact_store

Tune = Callable[..., TuneReport]
OP, FEAT = "u_mul_e_sum", 128  # what `tune` tunes


def test_report_records_and_artifact_agree(machine: Any, tune: Tune, karate: Graph, wide: Task) -> None:
    report = tune(karate)
    default = wide.space.default
    assert report.trials == {"measured": 40, "valid": 40, "failed": 0, "failures": {}, "reused": 0}
    assert machine.trials[0] == default
    assert len({frozen(choice) for choice in machine.trials}) == 40
    best = min(machine.trials, key=machine.seconds)
    assert machine.seconds(report.decisions) == machine.seconds(best) < machine.seconds(default)
    assert report.best_ms == pytest.approx(machine.seconds(best) * 1e3)
    assert report.default_ms == pytest.approx(machine.seconds(default) * 1e3)
    assert report.speedup == pytest.approx(report.default_ms / report.best_ms)
    assert (report.dataset, report.op, report.feat, report.dtype) == ("karate", OP, FEAT, "float32")
    assert report.signature == {"exact": karate.signature.exact, "bucket": karate.signature.bucket}
    assert report.first_candidate_s is not None
    assert 0 < report.first_candidate_s < report.tune_s
    assert report.cost_model["samples"] == 40
    assert report.cost_model["predictions"] == 40 - 1 - search.FIRST_BATCH
    assert report.cost_model["rank_correlation"] > 0.3
    assert (report.interrupted, report.warnings) == (False, [])
    assert json.loads(json.dumps(report.as_dict()))["decisions"] == report.decisions

    log = record_log().read()
    assert report.records == str(record_log().path)
    assert log.damaged == []
    assert [record.decisions for record in log.records] == machine.trials
    assert {record.task_digest for record in log.records} == {wide.key.digest}
    assert {record.graph["exact"] for record in log.records} == {karate.signature.exact}
    assert [record.trial for record in log.records] == list(range(40))
    assert {record.default_s for record in log.records} == {machine.seconds(default)}

    artifact = artifact_store().lookup(wide.key, karate.signature.exact)
    assert artifact is not None
    assert str(artifact.path) == report.artifact
    assert artifact.decisions == report.decisions
    assert machine.schedule_of(artifact.files["kernel.so"], wide.launch(artifact.decisions)) == report.decisions
    assert artifact.measured["speedup"] == pytest.approx(report.speedup)
    assert machine.open == 0


def test_a_shipped_model_leads_from_the_first_trial_on(
    machine: Any, tune: Tune, karate: Graph, wide: Task, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    members = list(wide.space)[::7]
    shipped = CostModel(wide)
    shipped.add(members, [2.0 if choice["prefetch"] == 32 else 0.5 for choice in members], wide.graph_fields)
    shipped.fit()
    shipped.save(tmp_path / model_name(wide))
    monkeypatch.setenv("TVM_GNN_MODELS", str(tmp_path))
    tune(karate, trials=1 + search.FIRST_BATCH)
    led = sum(choice["prefetch"] == 32 for choice in machine.trials[1:])
    assert led >= search.FIRST_BATCH - 2  # one of the batch is drawn at random


def test_a_drifting_machine_does_not_rank_the_schedules(machine: Any, tune: Tune, karate: Graph, wide: Task) -> None:
    # Every trial is slower than the one before: by their own times the earliest would be the finalists.
    default = wide.space.default
    default_s = machine.seconds(default)
    drift = itertools.count(1)

    def run(choice: Decisions) -> RunResult:
        slowdown = float(next(drift))
        against = [] if choice == default else [default_s * slowdown] * 3
        return RunResult([machine.seconds(choice) * slowdown] * 3, against)

    machine.run = run
    report = tune(karate)
    assert machine.seconds(report.decisions) == min(machine.seconds(choice) for choice in machine.trials)
    assert report.decisions != default
    again = tune(karate, trials=len(machine.trials) + 1)  # what the log says is relative to the default as well
    assert machine.seconds(again.decisions) <= machine.seconds(report.decisions)


def test_default_is_kept_where_nothing_beats_it(machine: Any, tune: Tune, karate: Graph, wide: Task) -> None:
    machine.seconds = lambda choice: 1e-4 if choice == wide.space.default else 1.1e-4
    report = tune(karate, trials=20)
    assert report.decisions == wide.space.default
    assert report.speedup == 1.0
    assert report.artifact is not None


def test_final_comparison_decides_not_the_trials(machine: Any, tune: Tune, karate: Graph, wide: Task) -> None:
    # In the trials everything but the default looks fast; measured again nothing is.
    default_s = machine.seconds(wide.space.default)
    machine.run = lambda choice: None if choice == wide.space.default else RunResult([default_s / 10])
    machine.seconds = lambda choice: default_s
    report = tune(karate, trials=20)
    assert report.decisions == wide.space.default
    assert report.speedup == 1.0
    assert len(machine.finals) == 1 + tuner.FINALISTS
    assert machine.finals[0] == wide.space.default


def test_failed_candidates_are_recorded_and_not_tried_again(
    machine: Any, tune: Tune, karate: Graph, wide: Task
) -> None:
    default = wide.space.default

    def run(choice: Decisions) -> RunResult | None:
        if choice["dynamic"]:
            return RunResult(status="crash", reason="killed by SIGSEGV")
        return RunResult(status="wrong", reason="3 elements differ") if choice["parts"] == 64 else None

    machine.run = run
    machine.build = lambda code: (
        BuildResult(None, "no such vector", "build_error") if code["lanes"] != default["lanes"] else None
    )
    events: list[TrialEvent] = []

    class Listening(Silent):
        def trial(self, event: TrialEvent) -> None:
            events.append(event)

    report = tune(karate, trials=40, observer=Listening())
    statuses = [event.status for event in events]
    assert set(statuses) == {"ok", "crash", "wrong", "build_error"}
    assert report.trials["measured"] == 40 == report.trials["valid"] + report.trials["failed"]
    assert report.trials["failures"] == {s: statuses.count(s) for s in set(statuses) - {"ok"}}
    records = record_log().read().records
    assert [record.status for record in records] == statuses
    assert all((record.reason is None) == (record.status == "ok") for record in records)
    assert [event.reason for event in events] == [record.reason for record in records]
    again = tune(karate, trials=48)
    assert (again.trials["measured"], again.trials["reused"]) == (8, 40)
    tried = [frozen(record.decisions) for record in record_log().read().records]
    assert len(set(tried)) == len(tried) == 48


@pytest.mark.parametrize("status", ["crash", "wrong", "timeout"])
def test_nothing_is_stored_when_even_the_default_fails(machine: Any, tune: Tune, karate: Graph, status: str) -> None:
    machine.run = lambda choice: RunResult(status=status, reason="it is broken")
    with pytest.raises(TuneError, match=rf"no schedule could be measured .*{status}: it is broken.*Nothing was stored"):
        tune(karate)
    assert artifact_store().entries() == []
    assert [record.status for record in record_log().read().records] == [status]
    assert machine.open == 0
    # The failure does not stick: once the machine is right again, so is the run.
    machine.run = lambda choice: None
    report = tune(karate, trials=8)
    assert report.trials["valid"] == 8
    assert report.artifact is not None


def test_nothing_is_stored_when_the_default_does_not_build(machine: Any, tune: Tune, karate: Graph) -> None:
    machine.build = lambda code: BuildResult(None, "link: false ended with 1", "build_error")
    with pytest.raises(TuneError, match="link: false ended with 1"):
        tune(karate)
    assert artifact_store().entries() == []


def test_missing_dependency_of_the_build_is_said(machine: Any, tune: Tune, karate: Graph) -> None:
    machine.build = lambda code: BuildResult(None, "compiler: none on PATH", "build_error", missing_dependency=True)
    with pytest.raises(DependencyError, match="compiler: none on PATH"):
        tune(karate)
    assert machine.open == 0
    assert record_log().read().records == []


def test_interrupt_keeps_what_was_found(machine: Any, tune: Tune, karate: Graph, wide: Task) -> None:
    def run(choice: Decisions) -> None:
        if len(machine.trials) == 10:
            raise KeyboardInterrupt

    machine.run = run
    report = tune(karate, trials=40)
    assert report.interrupted
    assert report.trials["measured"] == 9
    assert len(record_log().read().records) == 9
    assert artifact_store().lookup(wide.key, karate.signature.exact) is not None
    assert machine.seconds(report.decisions) == min(map(machine.seconds, machine.trials[:9]))
    machine.run = lambda choice: None
    assert tune(karate, trials=40).trials["measured"] == 31


def test_a_default_that_does_not_build_any_more_is_told_with_the_reason(
    machine: Any, tune: Tune, karate: Graph
) -> None:
    tune(karate, trials=8)
    machine.trials.clear()
    machine.build = lambda code: BuildResult(None, "link: gcc said no", "build_error")
    with pytest.raises(TuneError, match=r"default schedule cannot be built \(link: gcc said no\)"):
        tune(karate, trials=40)
    assert len(record_log().read().records) == 8  # what did not build for want of a compiler is no finding
    machine.build = lambda code: BuildResult(None, "compiler: none", "build_error", missing_dependency=True)
    with pytest.raises(DependencyError, match="compiler: none"):
        tune(karate, trials=40)


def test_a_default_that_does_not_run_any_more_is_told_with_the_reason(machine: Any, tune: Tune, karate: Graph) -> None:
    failure = RunResult(status="crash", reason="run: killed by SIGSEGV")
    machine.compare = lambda choices: failure
    machine.run = lambda choice: failure if machine.trials.count(choice) > 1 else None
    with pytest.raises(TuneError, match=r"failed in the final comparison \(crash: run: killed by SIGSEGV\)"):
        tune(karate, trials=8)


def test_interrupt_before_the_default_was_measured_stores_nothing(machine: Any, tune: Tune, karate: Graph) -> None:
    def build(code: dict[str, Any]) -> None:
        raise KeyboardInterrupt

    machine.build = build
    with pytest.raises(TuneError, match="interrupted before the default"):
        tune(karate)
    assert artifact_store().entries() == []


def test_time_ends_a_run(machine: Any, tune: Tune, karate: Graph) -> None:
    machine.run = lambda choice: time.sleep(0.02)
    start = time.monotonic()
    report = tune(karate, trials=None, budget=2.0)
    assert report.trials["measured"] > 1
    assert time.monotonic() - start < 20.0
    assert report.trials["reused"] == 0


def test_exhausted_space_ends_a_run(machine: Any, karate: Graph, make: Callable[..., Task]) -> None:
    members = list(make(feat=1).space)
    report = tvm_gnn.tune(karate, OP, 1, trials=10_000)
    assert report.trials["measured"] == len(members)
    assert tvm_gnn.tune(karate, OP, 1, trials=10_000).trials["measured"] == 0


def test_same_seed_tries_the_same_schedules(machine: Any, tune: Tune, karate: Graph) -> None:
    runs = []
    for seed in (1, 1, 2):
        machine.trials.clear()
        tune(karate, seed=seed)
        runs.append(list(machine.trials))
        record_log().path.unlink()
        for model in artifact_store().root.glob("models/*"):
            model.unlink()
    assert runs[0] == runs[1]
    assert runs[0] != runs[2]


@pytest.mark.parametrize("place", ["TVM_GNN_CACHE", "TVM_GNN_LOGS"])
def test_a_place_that_cannot_be_written_is_refused_before_the_search(
    machine: Any, tune: Tune, karate: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    (tmp_path / "file").write_text("not a folder")
    monkeypatch.setenv(place, str(tmp_path / "file" / "inside"))
    with pytest.raises(
        InputError, match=rf"^{tmp_path}/file/inside.* must be a writable .*Not a directory.*set {place}"
    ):
        tune(karate)
    assert machine.trials == []
    assert (tmp_path / "file").read_text() == "not a folder"


@pytest.mark.parametrize("make", [os.mkdir, os.mkfifo])
def test_a_log_that_is_no_file_is_refused_before_the_search(
    machine: Any, tune: Tune, karate: Graph, make: Callable[[Path], None]
) -> None:
    record_log().path.parent.mkdir(parents=True)
    make(record_log().path)
    with pytest.raises(InputError, match=r"trials.jsonl: must be a writable file"):
        tune(karate)
    assert machine.trials == []


def test_stores_that_fail_later_are_warnings(tune: Tune, karate: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(error: type[Exception]) -> Callable[..., None]:
        def refuse(*_: object, **__: object) -> None:
            raise error("the disk is full")

        return refuse

    monkeypatch.setattr(RecordLog, "append", fail(RecordError))
    monkeypatch.setattr(ArtifactStore, "publish", fail(ArtifactError))
    monkeypatch.setattr(CostModel, "save", fail(OSError))
    report = tune(karate)
    assert report.trials["valid"] == 40
    assert report.speedup > 1.0
    assert report.artifact is None
    assert [warning.removesuffix(" is not kept: the disk is full") for warning in report.warnings[1:]] == [
        "the artifact",
        "the cost model",
    ]
    assert report.warnings[0] == "records are not kept: the disk is full"


def test_list_of_operators_shares_the_time(machine: Any, karate: Graph) -> None:
    budgets = []

    class Listening(Silent):
        def started(self, task: Task, budget: Any, reused: int) -> None:
            budgets.append((task.op.name, task.feat, budget.seconds, budget.trials))

    reports = tvm_gnn.tune(
        karate,
        [(OP, 16), ("copy_u_mean", 8), (tvm_gnn.spmm("copy_u"), 4)],
        budget="60s",
        trials=6,
        observer=Listening(),
    )
    assert budgets == [(OP, 16, 20.0, 6), ("copy_u_mean", 8, 20.0, 6), ("copy_u_sum", 4, 20.0, 6)]
    assert [(report.op, report.feat) for report in reports] == [(OP, 16), ("copy_u_mean", 8), ("copy_u_sum", 4)]
    assert [report.trials["measured"] for report in reports] == [6, 6, 6]


@pytest.mark.parametrize(
    ("change", "error", "text"),
    [
        ({"graph": "karate"}, InputTypeError, r"^graph: must be a tvm_gnn.Graph \(got str\)"),
        ({"op": "u_pow_e_sum"}, InputError, "^op: must be the name of an operator"),
        ({"op": 7}, InputTypeError, "^op: "),
        ({"op": []}, InputError, "^op: a list of operators must not be empty"),
        ({"op": [OP], "feat": None}, InputTypeError, r"^op: a list must hold \(op, feat\) pairs"),
        ({"op": [(OP, 4)]}, InputError, "^feat: is part of each"),
        ({"feat": None}, InputTypeError, "^feat: "),
        ({"feat": -1}, InputError, r"^feat: must be at least 0 \(got -1\)"),
        ({"feat": 0}, InputError, "nothing to tune for feat=0"),
        ({"feat": 1.5}, InputTypeError, r"^feat: must be an integer or a pair of them \(got 1.5 of type float\)"),
        ({"feat": True}, InputTypeError, r"^feat: must be an integer or a pair of them \(got True of type bool\)"),
        ({"graph": Graph.from_coo([], [], num_src=3, num_dst=3)}, InputError, "^graph: has nothing to tune"),
        ({"budget": "soon"}, InputError, "^budget: "),
        ({"budget": 0}, InputError, "^budget: "),
        ({"trials": 0}, InputError, "^trials: must be at least 1"),
        ({"trials": 2.0}, InputTypeError, "^trials: "),
        ({"target": "tpu"}, InputError, "^target: must be cpu"),
        ({"dtype": "float8"}, InputError, "^dtype: must be one of float32"),
        ({"edge_order": "coo"}, InputError, "^edge_order: must be one of caller, csr"),
        ({"seed": "0"}, InputTypeError, "^seed: must be an integer"),
        ({"seed": -1}, InputError, r"^seed: must be .*\(got -1\)"),
        ({"seed": 2**70}, InputError, "^seed: must be "),
    ],
)
def test_arguments_that_break_a_rule(
    machine: Any, karate: Graph, change: dict[str, Any], error: type[Exception], text: str
) -> None:
    arguments: dict[str, Any] = {"graph": karate, "op": OP, "feat": FEAT, "trials": 4, **change}
    if change.get("op") == []:
        arguments["feat"] = None
    with pytest.raises(error, match=text):
        tvm_gnn.tune(**arguments)
    assert machine.trials == []
    assert not record_log().path.exists()
