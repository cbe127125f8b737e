"""Standard streams that are closed, full, or of few letters: an exit code, at most one line, never a traceback."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

import tvm_gnn

TUNE = ("tune", "--dataset", "karate", "--op", "copy_u_sum", "--feat", "8", "--trials", "2")


class Outcome(NamedTuple):
    code: int
    out: str
    err: str


def run(*arguments: str, streams: str = "", options: tuple[str, ...] = (), **environment: str) -> Outcome:
    """`tvm-gnn` in a process with a shell's redirections, buffered as a user has it."""
    variables = {**os.environ, "PYTHONPATH": str(Path(tvm_gnn.__file__).parents[1]), **environment}
    variables.pop("PYTHONUNBUFFERED", None)
    done = subprocess.run(
        ["bash", "-c", f'"$@" {streams}', "bash", sys.executable, *options, "-m", "tvm_gnn.cli.main", *arguments],
        env=variables,
        capture_output=True,
        timeout=120,
        check=False,
    )
    return Outcome(done.returncode, done.stdout.decode(), done.stderr.decode())


@pytest.mark.parametrize("streams", [">&-", ">/dev/full", ">&- <&-"])
@pytest.mark.parametrize("arguments", [("cache", "ls", "--json"), ("cache", "ls")])
def test_result_that_cannot_be_written(arguments: tuple[str, ...], streams: str) -> None:
    outcome = run(*arguments, streams=streams)
    assert outcome.code == 1
    assert len(outcome.err.splitlines()) == 1
    assert outcome.err.startswith("tvm-gnn: standard output: must be")


def test_help_that_cannot_be_written() -> None:
    outcome = run("--help", streams=">/dev/full")
    assert outcome.code == 1
    assert len(outcome.err.splitlines()) == 1


@pytest.mark.parametrize("streams", ["2>&-", "2>/dev/full"])
def test_error_that_cannot_be_written(streams: str) -> None:
    assert run("cache", "burn", streams=streams) == (2, "", "")
    assert run("tune", "--dataset", "karat", "--op", "copy_u_sum", "--feat", "8", streams=streams) == (2, "", "")
    assert run("cache", "ls", "--json", streams=streams).code == 0


@pytest.mark.parametrize("streams", ["2>&-", "2>/dev/full"])
def test_tune_without_a_standard_error(streams: str, isolated_cache: Path) -> None:
    outcome = run(*TUNE, streams=streams)
    assert outcome.code == 0, outcome.out
    assert "load it" in outcome.out


def test_tune_without_a_standard_output_keeps_its_artifact(isolated_cache: Path) -> None:
    outcome = run(*TUNE, "--json", streams=">&-")
    assert outcome.code == 1
    assert len(outcome.err.splitlines()) == 1
    assert list(isolated_cache.rglob("kernel.so"))


def test_optimised_python_on_a_strange_terminal_prints_the_same(isolated_cache: Path) -> None:
    outcome = run(*TUNE, options=("-OO",), TERM="[/]strange", PYTHONIOENCODING="ascii")
    assert outcome.code == 0, outcome.err
    assert "tuning copy_u_sum feat=8 on karate: 34 rows" in outcome.err
    for part in ("operator", "schedule", "artifact", "load it"):
        assert part in outcome.out


def test_ascii_streams(tmp_path: Path) -> None:
    assert "synthetic:\\u2026" in run("tune", "--help", PYTHONIOENCODING="ascii").out
    for name in ("gräph→.npz", os.fsdecode(b"gr\xff.npz")):
        outcome = run("tune", "--dataset", str(tmp_path / name), *TUNE[3:], PYTHONIOENCODING="ascii")
        assert outcome.code == 2
        assert len(outcome.err.splitlines()) == 1
        assert "\\u2192" in outcome.err or "\\udcff" in outcome.err
