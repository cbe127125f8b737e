"""Bad input to any command: one line on standard error that names it, nothing on standard output, exit code 2."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tvm_gnn.version import VERSION

Run = Callable[..., Any]
KARATE = ("--dataset", "karate", "--op", "copy_u_sum")
TASK = (*KARATE, "--feat", "8")

BAD_ARGUMENTS: dict[str, tuple[tuple[str, ...], str]] = {
    # name: arguments, what the line must say
    "no command": ((), "COMMAND"),
    "unknown command": (("fly",), "fly"),
    "unknown option": (("tune", *TASK, "--fast"), "--fast"),
    "cache without an action": (("cache",), "ACTION"),
    "cache with an unknown action": (("cache", "burn"), "burn"),
    "tune without a dataset": (("tune", "--op", "copy_u_sum", "--feat", "8"), "--dataset"),
    "tune without an op": (("tune", "--dataset", "karate", "--feat", "8"), "--op"),
    "tune without a width": (("tune", *KARATE), "--feat"),
    "bench without a width": (("bench", *KARATE), "--feat"),
    "explain without a width": (("cache", "explain", *KARATE), "--feat"),
    "option without a value": (("tune", *TASK, "--budget"), "--budget"),
    "unknown dataset": (("tune", "--dataset", "cor", "--op", "copy_u_sum", "--feat", "8"), "'cor'"),
    "unknown dataset of bench": (("bench", "--dataset", "karat", "--op", "copy_u_sum", "--feat", "8"), "karate"),
    "unknown dataset of explain": (
        ("cache", "explain", "--dataset", "nope", "--op", "copy_u_sum", "--feat", "8"),
        "nope",
    ),
    "no dataset": (("bench", "--dataset", ",", "--op", "copy_u_sum", "--feat", "8"), "dataset"),
    "unknown generator": (("tune", "--dataset", "synthetic:tree", "--op", "copy_u_sum", "--feat", "8"), "tree"),
    "unknown key of a generator": (
        ("tune", "--dataset", "synthetic:star:size=4", "--op", "copy_u_sum", "--feat", "8"),
        "size=4",
    ),
    "generator out of range": (
        ("tune", "--dataset", "synthetic:star:n=-4", "--op", "copy_u_sum", "--feat", "8"),
        "-4",
    ),
    "absent file": (("tune", "--dataset", "./absent.npz", "--op", "copy_u_sum", "--feat", "8"), "absent.npz"),
    "unknown suffix": (("tune", "--dataset", "./graph.xls", "--op", "copy_u_sum", "--feat", "8"), ".xls"),
    "graph without edges": (
        ("bench", "--dataset", "synthetic:path:n=1", "--op", "copy_u_sum", "--feat", "8"),
        "no edges",
    ),
    "nothing to tune": (("tune", "--dataset", "synthetic:path:n=1", "--op", "copy_u_sum", "--feat", "8"), "nothing"),
    "unknown op": (("tune", "--dataset", "karate", "--op", "u_pow_e_sum", "--feat", "8"), "u_pow_e_sum"),
    "unknown op of bench": (("bench", "--dataset", "karate", "--op", "sum", "--feat", "8"), "'sum'"),
    "unknown op of explain": (("cache", "explain", "--dataset", "karate", "--op", "sum", "--feat", "8"), "'sum'"),
    "negative width": (("tune", *KARATE, "--feat", "-3"), "-3"),
    "width zero": (("tune", *KARATE, "--feat", "0"), "feat=0"),
    "width zero of bench": (("bench", *KARATE, "--feat", "0"), "feat"),
    "width of a fraction": (("tune", *KARATE, "--feat", "1.5"), "1.5"),
    "width of letters": (("tune", *KARATE, "--feat", "wide"), "wide"),
    "one width of two": (("bench", *KARATE, "--feat", "8,x"), "8,x"),
    "no width": (("tune", *KARATE, "--feat", ","), "feat"),
    "width of letters, explained": (("cache", "explain", *KARATE, "--feat", "wide"), "wide"),
    "unknown target": (("tune", *TASK, "--target", "tpu"), "tpu"),
    "budget zero": (("tune", *TASK, "--budget", "0"), "budget"),
    "budget negative": (("tune", *TASK, "--budget", "-1"), "budget"),
    "budget of letters": (("tune", *TASK, "--budget", "abc"), "abc"),
    "budget nan": (("tune", *TASK, "--budget", "nan"), "nan"),
    "budget inf": (("tune", *TASK, "--budget", "inf"), "inf"),
    "budget of an unknown unit": (("tune", *TASK, "--budget", "3d"), "3d"),
    "bench with a bad budget": (("bench", *TASK, "--against", "scipy", "--tune", "soon"), "soon"),
    "trials zero": (("tune", *TASK, "--trials", "0"), "trials"),
    "trials negative": (("tune", *TASK, "--trials", "-5"), "trials"),
    "trials of letters": (("tune", *TASK, "--trials", "many"), "many"),
    "seed negative": (("tune", *TASK, "--trials", "1", "--seed", "-1"), "--seed"),
    "seed of bench negative": (("bench", *TASK, "--against", "scipy", "--seed", "-1"), "--seed"),
    "seed too large": (("tune", *TASK, "--trials", "1", "--seed", "9" * 30), "--seed"),
    "unknown contender": (("bench", *TASK, "--against", "mkl_ie,abacus"), "abacus"),
    "no contender": (("bench", *TASK, "--against", ""), "against"),
    "unknown protocol": (("bench", *TASK, "--protocol", "inside"), "inside"),
    "no rounds": (("bench", *TASK, "--against", "scipy", "--rounds", "0"), "rounds"),
}


def check(outcome: Any, says: str) -> None:
    assert outcome.code == 2, outcome.err
    assert outcome.out == ""
    assert len(outcome.err.splitlines()) == 1
    assert "Traceback" not in outcome.err
    assert says in outcome.err
    assert outcome.err.startswith("tvm-gnn")


@pytest.mark.parametrize("name", BAD_ARGUMENTS)
def test_bad_arguments(run: Run, isolated_cache: Path, name: str) -> None:
    arguments, says = BAD_ARGUMENTS[name]
    check(run(*arguments), says)
    assert not isolated_cache.exists()


def _npz(path: Path, **changes: Any) -> None:
    arrays = {"indptr": np.array([0, 1, 2]), "indices": np.array([1, 0]), "num_nodes": 2, **changes}
    np.savez(path, **{name: array for name, array in arrays.items() if array is not None})


BAD_FILES: dict[str, tuple[str, Callable[[Path], object], str]] = {
    # name: file name, what writes it, what the line must say
    "empty edge list": ("g.txt", lambda path: path.write_text(""), "at least one edge"),
    "comments only": ("g.txt", lambda path: path.write_text("# nothing\n"), "at least one edge"),
    "words in an edge list": ("g.txt", lambda path: path.write_text("0 1\na b\n"), "line 2"),
    "one column": ("g.csv", lambda path: path.write_text("0,1\n2\n"), "line 2"),
    "fraction": ("g.tsv", lambda path: path.write_text("0\t1\n1.5\t2\n"), "line 2"),
    "negative id": ("g.el", lambda path: path.write_text("0 1\n-1 2\n"), "line 2"),
    "id beyond 64 bits": ("g.edges", lambda path: path.write_text("0 1\n1 99999999999999999999\n"), "line 2"),
    "id of a label": ("g.txt", lambda path: path.write_text("0 1\n5 123456789012\n"), "123456789013"),
    "binary edge list": ("g.txt", lambda path: path.write_bytes(bytes(100)), "zero byte"),
    "not a gzip": ("g.txt.gz", lambda path: path.write_text("0 1\n"), "cannot be read"),
    "empty npz": ("g.npz", lambda path: path.write_bytes(b""), "archive of arrays"),
    "text as npz": ("g.npz", lambda path: path.write_text("hello"), "archive of arrays"),
    "npz without arrays": ("g.npz", lambda path: np.savez(path, a=np.zeros(2)), "indptr, indices and num_nodes"),
    "npz with an id out of range": ("g.npz", lambda path: _npz(path, indices=np.array([1, 7])), "7"),
    "npz with a negative id": ("g.npz", lambda path: _npz(path, indices=np.array([1, -1])), "-1"),
    "npz with falling indptr": ("g.npz", lambda path: _npz(path, indptr=np.array([0, 2, 1])), "indptr"),
    "npz with a short indptr": ("g.npz", lambda path: _npz(path, indptr=np.array([0, 2])), "indptr"),
    "npz with floating ids": ("g.npz", lambda path: _npz(path, indices=np.array([0.5, 1.0])), "indices"),
    "npz of objects": ("g.npz", lambda path: _npz(path, indices=np.array([{}, 1], object)), "g.npz"),
    "text as mtx": ("g.mtx", lambda path: path.write_text("hello"), "cannot be read"),
    "dense mtx": (
        "g.mtx",
        lambda path: path.write_text("%%MatrixMarket matrix array real general\n1 1\n1.0\n"),
        "coordinate",
    ),
    "mtx with an id out of range": (
        "g.mtx",
        lambda path: path.write_text("%%MatrixMarket matrix coordinate pattern general\n2 2 1\n3 1\n"),
        "g.mtx",
    ),
    "folder": ("g.npz", lambda path: path.mkdir(), "a folder"),
}


@pytest.mark.parametrize("name", BAD_FILES)
@pytest.mark.parametrize("command", ["tune", "bench"])
def test_bad_files(run: Run, tmp_path: Path, name: str, command: str) -> None:
    file_name, write, says = BAD_FILES[name]
    write(tmp_path / file_name)
    outcome = run(command, "--dataset", tmp_path / file_name, "--op", "copy_u_sum", "--feat", 8)
    check(outcome, says)
    assert str(tmp_path / file_name) in outcome.err


def test_bad_environment_is_bad_input(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TVM_GNN_NUM_THREADS", "many")
    check(run("tune", *TASK, "--trials", 1), "TVM_GNN_NUM_THREADS")


@pytest.mark.parametrize(
    ("arguments", "command"),
    [
        (("tune", *TASK, "--fast"), "tvm-gnn tune"),
        (("cache", "explain", *TASK, "--fast"), "tvm-gnn cache explain"),
        (("bench", *KARATE), "tvm-gnn bench"),
        (("cache", "burn"), "tvm-gnn cache"),
        (("--fast", "doctor"), "tvm-gnn"),
    ],
)
def test_wrong_usage_points_to_the_help_of_its_command(run: Run, arguments: tuple[str, ...], command: str) -> None:
    err = run(*arguments).err
    assert err.startswith(f"{command}: ")
    assert err.rstrip().endswith(f"(see {command} --help)")


def test_bad_input_of_a_process(run_process: Run) -> None:
    check(run_process("tune", *KARATE, "--feat", "-3"), "-3")
    check(run_process("tune", *TASK, "--budget", "soon", "--json"), "soon")


def test_help_and_version(run: Run) -> None:
    for arguments in (("--help",), ("tune", "--help"), ("bench", "--help"), ("cache", "ls", "--help")):
        outcome = run(*arguments)
        assert outcome.code == 0
        assert "usage: tvm-gnn" in outcome.out
        assert outcome.err == ""
    assert "exit codes:" in run("--help").out
    assert run("--version").out.strip() == f"tvm-gnn {VERSION}"


def test_a_reader_that_leaves_is_no_traceback(run_process: Run) -> None:
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "w") as pipe:
        done = subprocess.run(
            [sys.executable, "-m", "tvm_gnn.cli.main", "cache", "ls"], stdout=pipe, stderr=subprocess.PIPE, text=True
        )
    assert done.returncode == 1
    assert done.stderr == ""
