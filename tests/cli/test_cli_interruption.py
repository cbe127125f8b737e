"""Ctrl-C, early and late: what was found is kept and told, the rest is not begun, the exit code is 130."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

import tvm_gnn.cli.bench as bench
import tvm_gnn.cli.tune as tune
from tvm_gnn.cli.interruption import Interruption
from tvm_gnn.errors import TuneError
from tvm_gnn.tuning.report import Observer, TrialEvent, TuneReport

Run = Callable[..., Any]
WIDTHS = ("--dataset", "karate", "--op", "copy_u_sum", "--feat", "4,8,16")


@pytest.fixture(autouse=True)
def default_handler() -> Iterator[None]:
    """Ctrl-C as in a terminal, also where the tests run with it ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    assert signal.signal(signal.SIGINT, before) is signal.default_int_handler


def ctrl_c() -> None:
    signal.raise_signal(signal.SIGINT)


def report_of(feat: int, interrupted: bool, **changes: Any) -> TuneReport:
    fields: dict[str, Any] = {
        **{"dataset": "karate", "op": "copy_u_sum", "feat": feat, "dtype": "float32", "target": "llvm", "threads": 1},
        "signature": {"exact": "e", "bucket": "b"},
        "trials": {"measured": 1, "valid": 1, "failed": 0, "failures": {}, "reused": 0},
        **{"first_candidate_s": 1.0, "tune_s": 2.0, "default_ms": 2.0, "best_ms": 1.0, "speedup": 2.0},
        **{"decisions": {}, "artifact": f"/store/{feat}", "cost_model": {}, "records": "/log", "seed": 0},
        **{"interrupted": interrupted, "warnings": [], **changes},
    }
    return TuneReport(**fields)


class FakeTune:
    """Stands for `tvm_gnn.tune`: one trial and the final comparison, with `events` while the width of the key runs."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **events: Callable[[], object]) -> None:
        self.events = {tuple(name.split("_")): event for name, event in events.items()}
        self.begun: list[int] = []
        self.budgets: list[Any] = []
        monkeypatch.setattr(tune, "tune", self)

    def at(self, moment: str) -> None:
        self.events.get((moment, str(self.begun[-1])), lambda: None)()

    def __call__(self, graph: Any, op: str, feat: int, *, observer: Observer, **settings: Any) -> TuneReport:
        self.begun.append(feat)
        self.budgets.append(settings["budget"])
        self.at("start")
        interrupted = False
        try:
            self.at("search")
            observer.trial(TrialEvent(1, {}, "ok", 1.0, 1.0, 2.0))
        except KeyboardInterrupt:
            interrupted = True
        observer.comparing(2)
        self.at("finals")
        return report_of(feat, interrupted, artifact=None if feat == 5 else f"/store/{feat}")


def test_first_ctrl_c_ends_the_width_and_skips_the_rest(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeTune(monkeypatch, search_8=ctrl_c)
    outcome = run("tune", *WIDTHS, "--budget", "30s", "--json")
    assert outcome.code == 130
    assert fake.begun == [4, 8]
    assert fake.budgets == [10.0, 10.0]
    assert [(r["feat"], r["interrupted"]) for r in outcome.json["reports"]] == [(4, False), (8, True)]
    assert outcome.err == (
        "tvm-gnn: interrupted; feat 4 is kept; the best so far of feat 8 is kept; feat 16 is not finished. "
        "Run the same command again to go on.\n"
    )


def test_reports_in_words(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    FakeTune(monkeypatch, search_4=ctrl_c)
    outcome = run("tune", *WIDTHS)
    assert outcome.code == 130
    assert "interrupted: this is the best so far" in outcome.out
    assert "the best so far of feat 4 is kept" in outcome.err


def nothing_found() -> None:
    raise TuneError("tune: no schedule could be measured (interrupted). Nothing was stored.")


@pytest.mark.parametrize("moment", ["start", "search"])
def test_width_without_a_result_leaves_the_reports_before_it(
    run: Run, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    def interrupted() -> None:
        try:
            ctrl_c()
        except KeyboardInterrupt:
            nothing_found()

    FakeTune(monkeypatch, **{f"{moment}_8": ctrl_c if moment == "start" else interrupted})
    outcome = run("tune", *WIDTHS, "--json")
    assert outcome.code == 130
    assert [r["feat"] for r in outcome.json["reports"]] == [4]
    assert "feat 4 is kept; feat 8 is not finished; feat 16 is not finished" in outcome.err
    assert "Nothing was stored" not in outcome.err


def test_nothing_at_all(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    FakeTune(monkeypatch, start_4=ctrl_c)
    outcome = run("tune", *WIDTHS, "--json")
    assert (outcome.code, outcome.out) == (130, "")
    assert len(outcome.err.splitlines()) == 1


def test_in_the_final_comparison_the_width_is_finished(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeTune(monkeypatch, finals_4=ctrl_c)
    outcome = run("tune", *WIDTHS, "--json")
    assert outcome.code == 130
    assert fake.begun == [4]
    assert [(r["feat"], r["interrupted"]) for r in outcome.json["reports"]] == [(4, False)]


def test_second_ctrl_c_ends_at_once(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    FakeTune(monkeypatch, search_8=ctrl_c, finals_8=ctrl_c)
    outcome = run("tune", *WIDTHS, "--json")
    assert outcome.code == 130
    assert [r["feat"] for r in outcome.json["reports"]] == [4]


def test_swallowed_ctrl_c_ends_the_search_at_the_next_trial(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def swallowed() -> None:
        frame = SimpleNamespace(f_globals={"__name__": "tvm.s_tir.meta_schedule.cost_model"}, f_back=None)
        handler = cast(Any, signal.getsignal(signal.SIGINT))
        assert isinstance(handler.__self__, Interruption)
        handler(signal.SIGINT, frame)  # inside a callback from C++: put off

    FakeTune(monkeypatch, search_4=swallowed)
    outcome = run("tune", *WIDTHS, "--json")
    assert outcome.code == 130
    assert [(r["feat"], r["interrupted"]) for r in outcome.json["reports"]] == [(4, True)]


def test_failure_of_a_width_leaves_the_reports_before_it(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    FakeTune(monkeypatch, search_8=nothing_found)
    outcome = run("tune", *WIDTHS, "--json")
    assert outcome.code == 1
    assert [r["feat"] for r in outcome.json["reports"]] == [4]
    assert outcome.err.startswith("tvm-gnn: feat 8: ")
    assert len(outcome.err.splitlines()) == 1


def test_interrupted_without_a_standard_output(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    FakeTune(monkeypatch, search_4=ctrl_c)
    monkeypatch.setattr(sys, "stdout", None)
    outcome = run("tune", *WIDTHS, "--json")
    assert outcome.code == 130
    assert ["standard output" in line for line in outcome.err.splitlines()] == [True, False]


def test_artifact_that_could_not_be_stored(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    FakeTune(monkeypatch)
    outcome = run("tune", "--dataset", "karate", "--op", "copy_u_sum", "--feat", "4,5")
    assert outcome.code == 1
    assert outcome.out.count("load it") == 1
    assert "not kept" in outcome.out
    assert run("tune", "--dataset", "karate", "--op", "copy_u_sum", "--feat", "5", "--json").code == 1


def test_interrupted_bench_tells_what_it_measured(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def tuned(graph: Any, op: str, feat: int, **_: Any) -> TuneReport:
        return report_of(feat, interrupted=feat == 8)

    monkeypatch.setattr(bench, "tune", tuned)
    outcome = run(
        "bench", *WIDTHS, "--tune", "1s", "--against", "scipy", "--protocol", "alone", "--rounds", 3, "--json"
    )
    assert outcome.code == 130
    assert [case["feat"] for case in outcome.json["cases"]] == [4]
    assert outcome.err == "tvm-gnn: interrupted\n"


EARLY = """
import os, signal, sys

class CtrlC:
    def find_spec(self, name, path=None, target=None):
        if name == sys.argv[1]:
            os.kill(os.getpid(), signal.SIGINT)

signal.signal(signal.SIGINT, signal.default_int_handler)
from tvm_gnn.cli.main import main
sys.meta_path.insert(0, CtrlC())
sys.exit(main(["doctor"]))
"""


@pytest.mark.parametrize("module", ["argparse", "rich", "tvm_gnn.diagnosis"])
def test_ctrl_c_during_the_imports(module: str) -> None:
    root = str(Path(tune.__file__).parents[2])
    done = subprocess.run(
        [sys.executable, "-c", EARLY, module],
        env={**os.environ, "PYTHONPATH": root},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "tvm-gnn: interrupted\n")


def test_process_interrupted_in_its_search(isolated_cache: Path) -> None:
    code = "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler); "
    code += "from tvm_gnn.cli.main import main; sys.exit(main(sys.argv[1:]))"
    process = subprocess.Popen(
        [sys.executable, "-c", code, "tune", *WIDTHS, "--budget", "10m", "--json"],
        env={**os.environ, "PYTHONPATH": str(Path(tune.__file__).parents[2])},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    log = Path(os.environ["TVM_GNN_LOGS"], "trials.jsonl")
    deadline = time.monotonic() + 60
    while not (log.exists() and len(log.read_bytes().splitlines()) > 20) and process.poll() is None:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert '"interrupted": true' in out
    assert out.count('"feat": ') == 1
    assert "the best so far of feat 4 is kept; feat 8 is not finished" in err
    assert len(err.splitlines()) == 1
