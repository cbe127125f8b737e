"""What a run takes over from the log: its own trials, lessons of other graphs; what it passes over and tells."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

import tvm_gnn
from tvm_gnn import Graph, datasets
from tvm_gnn.compile import record_log
from tvm_gnn.tuning.history import read_history
from tvm_gnn.tuning.report import TuneReport
from tvm_gnn.tuning.search import frozen
from tvm_gnn.tuning.task import Task

Tune = Callable[..., TuneReport]
OP, FEAT = "u_mul_e_sum", 128  # what `tune` tunes


def test_rerun_measures_only_what_is_missing(machine: Any, tune: Tune, karate: Graph) -> None:
    first = tune(karate, trials=8)
    known = list(machine.trials)
    again = tune(karate, trials=8)
    assert (again.trials["measured"], again.trials["reused"]) == (0, 8)
    assert machine.trials == known
    assert again.first_candidate_s is None
    assert frozen(again.decisions) == frozen(first.decisions)
    assert again.best_ms == pytest.approx(first.best_ms)
    more = tune(karate, trials=12)
    assert (more.trials["measured"], more.trials["reused"]) == (4, 8)
    assert len({frozen(choice) for choice in machine.trials}) == len(machine.trials) == 12
    records = record_log().read().records
    assert [record.trial for record in records] == list(range(12))
    fewer = tune(karate, trials=5)
    assert (fewer.trials["measured"], fewer.trials["reused"]) == (0, 12)


def test_a_resumed_run_knows_the_best_of_the_first(tune: Tune, karate: Graph) -> None:
    first = tune(karate, trials=40)
    again = tune(karate, trials=41, seed=5)
    assert again.best_ms <= first.best_ms
    assert again.cost_model["samples"] >= 41


def test_other_task_or_graph_reuses_nothing(tune: Tune, karate: Graph) -> None:
    tune(karate, trials=8)
    star = datasets.load("synthetic:star:n=40")
    for report in (
        tune(star, trials=8),
        tvm_gnn.tune(karate, "copy_u_sum", FEAT, trials=8),
        tvm_gnn.tune(karate, OP, 64, trials=8),
    ):
        assert (report.trials["measured"], report.trials["reused"]) == (8, 0)


def test_records_of_other_graphs_teach_the_model(tune: Tune, karate: Graph) -> None:
    tune(karate, trials=30)
    report = tune(datasets.load("synthetic:star:n=40"), trials=20)
    assert report.trials["measured"] == 20
    assert report.cost_model["samples"] == 50
    # It predicts from the first batch on, so all trials but the default's are judged.
    assert report.cost_model["predictions"] >= 19


def test_saved_model_helps_when_the_log_is_gone(tune: Tune, karate: Graph) -> None:
    tune(karate, trials=30)
    record_log().path.unlink()
    report = tune(karate, trials=20)
    assert (report.trials["measured"], report.trials["reused"]) == (20, 0)
    assert report.cost_model["predictions"] >= 19


@pytest.mark.parametrize("junk", [b'{"half a li', b"\x00\xff\xfe\n", b"[]\n", b'{"schema": 99}\n', b"\n\n{}\n"])
def test_damaged_lines_are_skipped_and_reported(tune: Tune, karate: Graph, junk: bytes) -> None:
    tune(karate, trials=8)
    with record_log().path.open("ab") as log:
        log.write(junk)
    report = tune(karate, trials=12)
    assert (report.trials["measured"], report.trials["reused"]) == (4, 8)
    (warning,) = report.warnings
    assert warning == f"{record_log().path}: 1 damaged line was skipped"
    log_now = record_log().read()
    assert len(log_now.records) == 12
    assert len(log_now.damaged) == 1


def test_damaged_lines_are_counted(wide: Task) -> None:
    record_log().path.parent.mkdir(parents=True)
    record_log().path.write_text("{}\n[]\n")
    history = read_history(record_log(), wide)
    assert (history.trials, history.default_s, history.lessons) == ([], None, [])
    assert history.warnings == [f"{record_log().path}: 2 damaged lines were skipped"]


def test_record_of_an_illegal_schedule_is_passed_over(tune: Tune, karate: Graph) -> None:
    tune(karate, trials=8)
    lines = record_log().path.read_text().splitlines()
    record = json.loads(lines[-1])
    record["decisions"]["unroll"] = 3
    record_log().path.write_text("\n".join([*lines[:-1], json.dumps(record)]) + "\n")
    report = tune(karate, trials=8)
    assert (report.trials["measured"], report.trials["reused"]) == (1, 7)


def elsewhere(record: dict[str, Any], **graph: Any) -> dict[str, Any]:
    """The record, of another graph."""
    return {**record, "graph": {**record["graph"], "exact": "f" * 32, **graph}}


def features(record: dict[str, Any], value: object) -> dict[str, Any]:
    return dict.fromkeys(record["graph"]["features"], value)


MALFORMED: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "default's time is text": lambda r: {**r, "default_s": "x"},
    "default's time is huge": lambda r: {**r, "default_s": 1e308},
    "time is tiny": lambda r: {**r, "timings_s": [5e-324]},
    "features are text": lambda r: {**r, "graph": {**r["graph"], "features": features(r, "x")}},
    "elsewhere, features are text": lambda r: elsewhere(r, features=features(r, "x")),
    "elsewhere, features are null": lambda r: elsewhere(r, features=features(r, None)),
    "elsewhere, features are huge": lambda r: elsewhere(r, features=features(r, 1e308)),
    "elsewhere, no features": lambda r: elsewhere(r, features={}),
    "elsewhere, other features": lambda r: elsewhere(r, features={"nnz": 1.0}),
    "elsewhere, default's time is huge": lambda r: {**elsewhere(r), "default_s": 1e308, "timings_s": [1e-308]},
}
ODD: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "elsewhere, an empty graph": lambda r: elsewhere(r, num_dst=0, num_src=0, num_edges=0),
    "elsewhere, a graph of any size": lambda r: elsewhere(r, num_dst=2**63 - 1, num_src=2**63 - 1, num_edges=2**63 - 1),
    "elsewhere, the longest and the shortest time": lambda r: {**elsewhere(r), "default_s": 1e5, "timings_s": [1e-9]},
    "elsewhere, other decisions": lambda r: {**elsewhere(r), "decisions": {"a": 1}},
    "elsewhere, decisions are text": lambda r: {**elsewhere(r), "decisions": dict.fromkeys(r["decisions"], "8")},
    "elsewhere, decisions are true": lambda r: {**elsewhere(r), "decisions": dict.fromkeys(r["decisions"], True)},
    "decisions are true": lambda r: {**r, "decisions": {**r["decisions"], "parts": True}},
}


@pytest.mark.parametrize("change", [*MALFORMED.values(), *ODD.values()], ids=[*MALFORMED, *ODD])
def test_no_record_ends_a_run_and_malformed_ones_are_told(
    tune: Tune, karate: Graph, change: Callable[[dict[str, Any]], dict[str, Any]]
) -> None:
    tune(karate, trials=8)
    lines = record_log().path.read_text().splitlines()
    changed = [json.dumps(change(json.loads(line))) for line in lines]
    record_log().path.write_text("\n".join(lines + changed) + "\n")
    report = tune(karate, trials=12)
    assert (report.trials["measured"], report.trials["reused"]) == (4, 8)
    assert report.speedup >= 1.0
    assert [warning.split(": 8 ")[0] for warning in report.warnings] == (
        [str(record_log().path)] if change in MALFORMED.values() else []
    )
