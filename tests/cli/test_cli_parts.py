"""Shared options, and progress on a terminal, elsewhere and when it must be quiet."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from rich.console import Console

from tvm_gnn import datasets
from tvm_gnn.cli import options
from tvm_gnn.cli.progress import TuneProgress
from tvm_gnn.compile import make_task
from tvm_gnn.errors import InputError
from tvm_gnn.tuning.budget import parse_budget
from tvm_gnn.tuning.report import TrialEvent


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("cora", ["cora"]),
        (" cora , karate,", ["cora", "karate"]),
        ("synthetic:grid:rows=9,cols=9", ["synthetic:grid:rows=9,cols=9"]),
        (
            "cora,synthetic:grid:rows=9,cols=9,karate,synthetic:star:n=3",
            ["cora", "synthetic:grid:rows=9,cols=9", "karate", "synthetic:star:n=3"],
        ),
        ("synthetic:star,synthetic:path", ["synthetic:star", "synthetic:path"]),
    ],
)
def test_split(text: str, words: list[str]) -> None:
    assert options.split("dataset", text) == words


@pytest.mark.parametrize("text", ["", ",", " , "])
def test_split_of_nothing(text: str) -> None:
    with pytest.raises(InputError, match=r"^feat: must name at least one"):
        options.split("feat", text)


def test_integers() -> None:
    assert options.integers("feat", "64, 128,1") == [64, 128, 1]
    with pytest.raises(InputError, match=r"^feat: must be integers separated by commas \(got '1,b'\)"):
        options.integers("feat", "1,b")


def test_print_json_is_one_object(capsys: pytest.CaptureFixture[str]) -> None:
    options.print_json({"a": [1, None], "b": "→"})
    assert json.loads(capsys.readouterr().out) == {"a": [1, None], "b": "→"}


def event(finished: int, **changes: Any) -> TrialEvent:
    fields: dict[str, Any] = {"decisions": {}, "status": "ok", "time_ms": 2.0, "best_ms": 2.0, "default_ms": 3.0}
    return TrialEvent(finished, **{**fields, **changes})


def told(progress: TuneProgress, budget: Any) -> str:
    """What a run of two trials shows, on the console given to `progress`."""
    output = io.StringIO()
    terminal = progress._console.is_terminal
    progress._console = Console(
        file=output, force_terminal=terminal, width=200, quiet=progress._console.quiet, force_interactive=terminal
    )
    task = make_task(datasets.load("karate"), "copy_u_sum", 8, threads=1)
    with progress:
        progress.started(task, budget, reused=3)
        progress.trial(event(1, status="crash", time_ms=None, best_ms=None, default_ms=None, reason="SIGSEGV"))
        progress.trial(event(2))
        progress.comparing(3)
    return output.getvalue()


def test_lines_where_there_is_no_terminal() -> None:
    text = told(TuneProgress(quiet=False), parse_budget("60s"))
    assert "tuning copy_u_sum feat=8 on karate: 34 rows, 156 edges, 1 threads, 3 trials known" in text
    assert "1 trials, none valid yet (crash: SIGSEGV)" in text
    assert "2 trials" not in text  # not more than a line every few seconds
    assert "comparing the default and the 2 best in turn" in text


@pytest.mark.parametrize("budget", [parse_budget("60s"), parse_budget(None, 10), parse_budget("1h", 2)])
def test_bar_on_a_terminal(budget: Any) -> None:
    progress = TuneProgress(quiet=False)
    progress._console = Console(force_terminal=True)
    text = told(progress, budget)
    assert "\x1b[" in text
    assert "comparing the default and the 2 best in turn" in text


def test_nothing_when_quiet() -> None:
    assert told(TuneProgress(quiet=True), parse_budget(None, 10)) == ""
