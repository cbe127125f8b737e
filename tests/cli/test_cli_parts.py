"""Shared options, and progress on a terminal, elsewhere and when it must be quiet."""

from __future__ import annotations

import io
import json
import sys
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tvm_gnn.cli import options, output
from tvm_gnn.cli.progress import TuneProgress
from tvm_gnn.errors import InputError
from tvm_gnn.ops import parse_op
from tvm_gnn.tuning.budget import parse_budget
from tvm_gnn.tuning.report import TrialEvent
from tvm_gnn.tuning.task import Task


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
    output.print_json({"a": [1, None], "b": "→"})
    assert json.loads(capsys.readouterr().out) == {"a": [1, None], "b": "→"}


def event(finished: int, **changes: Any) -> TrialEvent:
    fields: dict[str, Any] = {"decisions": {}, "status": "ok", "time_ms": 2.0, "best_ms": 2.0, "default_ms": 3.0}
    return TrialEvent(finished, **{**fields, **changes})


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Full(Terminal):
    """A terminal that takes nothing."""

    def write(self, text: str) -> int:
        raise OSError(28, "No space left on device")

    flush = write  # type: ignore[assignment]


def show(budget: Any, quiet: bool = False, name: str = "karate", reason: str = "SIGSEGV") -> None:
    """Run two trials that tell `TuneProgress`."""
    graph = SimpleNamespace(name=name, num_dst=34, num_edges=156)
    task = SimpleNamespace(graph=graph, op=parse_op("copy_u_sum"), feat=8, target=SimpleNamespace(threads=1))
    with TuneProgress(quiet) as progress:
        progress.started(cast(Task, task), budget, reused=3)
        progress.trial(event(1, status="crash", time_ms=None, best_ms=None, default_ms=None, reason=reason))
        progress.trial(event(2))
        progress.comparing(3)


def told(monkeypatch: pytest.MonkeyPatch, stderr: io.StringIO, budget: Any, **changes: Any) -> str:
    """What `show` writes to standard error."""
    monkeypatch.setattr(sys, "stderr", stderr)
    show(budget, **changes)
    return stderr.getvalue()


def test_lines_where_there_is_no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    text = told(monkeypatch, io.StringIO(), parse_budget("60s"))
    assert "tuning copy_u_sum feat=8 on karate: 34 rows, 156 edges, 1 thread, 3 trials known" in text
    assert "1 trial, none valid yet (crash: SIGSEGV)" in text
    assert "2 trials" not in text  # not more than a line every few seconds
    assert "comparing the default and the 2 best in turn" in text


def test_best_is_told_as_a_ratio(monkeypatch: pytest.MonkeyPatch) -> None:
    stderr = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stderr)
    with TuneProgress(quiet=False) as progress:
        progress.trial(event(1))
        progress.comparing(1)
        progress.comparing(2)
    assert stderr.getvalue().splitlines() == [
        "1 trial, best so far 1.50x the default",
        "measuring the default schedule again",
        "comparing the default and the best in turn",
    ]


@pytest.mark.parametrize("budget", [parse_budget("60s"), parse_budget(None, 10), parse_budget("1h", 2)])
def test_bar_on_a_terminal(monkeypatch: pytest.MonkeyPatch, budget: Any) -> None:
    monkeypatch.setenv("TERM", "xterm")
    text = told(monkeypatch, Terminal(), budget)
    assert "\x1b[" in text
    assert "comparing the default and the 2 best in turn" in text


@pytest.mark.parametrize("term", ["dumb", "", "no-such-terminal", "\udcff[/]"])
def test_any_terminal_shows_the_start(monkeypatch: pytest.MonkeyPatch, term: str) -> None:
    monkeypatch.setenv("TERM", term)
    text = told(monkeypatch, Terminal(), parse_budget("60s"))
    assert "tuning copy_u_sum" in text
    assert "comparing the default" in text


def test_nothing_when_quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    assert told(monkeypatch, io.StringIO(), parse_budget(None, 10), quiet=True) == ""


@pytest.mark.parametrize("terminal", [False, True])
def test_names_and_reasons_are_text(monkeypatch: pytest.MonkeyPatch, terminal: bool) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "200")
    stderr = Terminal() if terminal else io.StringIO()
    text = told(
        monkeypatch, stderr, parse_budget("60s"), name="[bold red]x\n\x1b[31m:warning:", reason="ld: [/opt/lib]\n\r"
    )
    assert "on [bold red]x\\n\\x1b[31m:warning:: 34 rows" in text
    if not terminal:  # a bar shows only what is latest
        assert "ld: [/opt/lib]\\n\\r" in text


@pytest.mark.parametrize("trouble", ["absent", "closed", "full", "ascii"])
def test_progress_is_best_effort(monkeypatch: pytest.MonkeyPatch, trouble: str) -> None:
    monkeypatch.setenv("TERM", "xterm")
    closed = Terminal()
    closed.close()
    strict = io.TextIOWrapper(io.BytesIO(), "ascii")
    stderr = {"absent": None, "closed": closed, "full": Full(), "ascii": strict}[trouble]
    monkeypatch.setattr(sys, "stderr", stderr)
    show(parse_budget("60s"), name="→")
    output.complain("→")


def test_nothing_of_what_is_printed_is_obeyed(capsys: pytest.CaptureFixture[str]) -> None:
    output.print_columns([("a\x1b[2J", "b"), ("\u202ec", "\udcff")])
    output.complain("one\ntwo \x07")
    out, err = capsys.readouterr()
    assert out == "a\\x1b[2J  b\n\\u202ec   \\udcff\n"
    assert err == "one two \\x07\n"
