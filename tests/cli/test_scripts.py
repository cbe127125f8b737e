"""The launchers in `scripts/`, called as people call them: from elsewhere, through links, with CDPATH set."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

import tvm_gnn

ROOT = Path(tvm_gnn.__file__).parents[1]
pytestmark = pytest.mark.skipif(not (ROOT / "scripts" / "environment.sh").exists(), reason="not a checkout")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of what the launchers need, with an environment that is installed already and only says its name."""
    folder = tmp_path / "a checkout"
    shutil.copytree(ROOT / "scripts", folder / "scripts")
    shutil.copy(ROOT / "pyproject.toml", folder)
    programs = folder / ".venv" / "bin"
    programs.mkdir(parents=True)
    for name in ("tvm-gnn", "python"):
        (programs / name).write_text('#!/bin/sh\n[ "$1" = -c ] || echo "$0 $*"\n')
        (programs / name).chmod(0o755)
    inputs = b"".join((folder / name).read_bytes() for name in ("pyproject.toml", "scripts/constraints.txt"))
    stamp = subprocess.run(["cksum"], input=inputs, capture_output=True, check=True).stdout
    for extras in ("core", "dev"):
        (folder / ".venv" / f".installed-{extras}").write_bytes(stamp)
    return folder


@pytest.mark.parametrize("cdpath", [None, ".", ".:/"])
@pytest.mark.parametrize(
    ("script", "program", "arguments"),
    [("tvm-gnn", "tvm-gnn", ["cache", "ls"]), ("test", "python", ["-k", "graph"])],
)
def test_launcher(checkout: Path, cdpath: str | None, script: str, program: str, arguments: list[str]) -> None:
    bin_folder, farm = checkout.parent / "bin", checkout.parent / "farm"
    bin_folder.mkdir()
    (bin_folder / script).symlink_to(Path("..", checkout.name, "scripts", script))
    (bin_folder / "again").symlink_to(script)
    farm.symlink_to(checkout / "scripts")
    environment = {name: value for name, value in os.environ.items() if name not in ("CDPATH", "TVM_GNN_VENV")}
    if cdpath is not None:
        environment["CDPATH"] = cdpath
    shown = f"{checkout}/.venv/bin/{program} {'-m pytest ' * (script == 'test')}{' '.join(arguments)}\n"
    calls = [
        (checkout, f"scripts/{script}"),
        (checkout / "scripts", f"./{script}"),
        (checkout.parent, f"bin/{script}"),
        (bin_folder, "./again"),
        (Path("/"), str(farm / script)),
    ]
    for folder, command in calls:
        done = subprocess.run(
            [command, *arguments], cwd=folder, env=environment, capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stdout, done.stderr) == (0, shown, ""), command


def script(name: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """A script of this checkout, run by the system's Python or bash."""
    return subprocess.run(
        [ROOT / "scripts" / name, *arguments],
        cwd="/",
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize(
    "name", ["bench_all", "bench_ops", "maxk_report", "pretrain", "search_vs_random", "tables", "test"]
)
def test_help_does_nothing_else(tmp_path: Path, name: str) -> None:
    done = script(name, "--help", TVM_GNN_VENV=str(tmp_path / "none"))
    assert (done.returncode, done.stderr) == (0, "")
    assert len(done.stdout.splitlines()) >= 1
    assert not list(tmp_path.iterdir())


def test_benchmark_names_missing_graphs_before_it_installs(tmp_path: Path) -> None:
    (tmp_path / "npz").mkdir()
    (tmp_path / "npz" / "cora.npz").touch()
    done = script("bench_all", str(tmp_path / "out"), TVM_GNN_DATA=str(tmp_path), TVM_GNN_VENV=str(tmp_path / "venv"))
    assert (done.returncode, done.stdout) == (2, "")
    assert "citeseer pubmed" in done.stderr
    assert "cora" not in done.stderr
    assert not (tmp_path / "venv").exists()
    assert script("bench_all").returncode == 2


def test_search_against_random_without_an_environment(tmp_path: Path) -> None:
    """The Python that `env` finds may have the package installed; then it is the missing graphs that are told."""
    done = script("search_vs_random", TVM_GNN_VENV=str(tmp_path), TVM_GNN_DATA=str(tmp_path))
    assert done.returncode in (2, 3)
    assert len(done.stderr.splitlines()) == 1
    assert done.stderr.startswith("scripts/search_vs_random: ")


@pytest.mark.parametrize(
    "arguments",
    [(), ("one", "two"), ("summary",), ("summary", "/absent.json"), ("/absent.json",), (str(ROOT / "pyproject.toml"),)],
)
def test_tables_of_nothing(arguments: tuple[str, ...]) -> None:
    done = script("tables", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert len(done.stderr.splitlines()) == 1


def test_a_summary_has_a_row_per_log() -> None:
    logs = [str(ROOT / "tuning_logs" / "bench.json")] * 2
    lines = script("tables", "summary", *logs).stdout.splitlines()
    assert len(lines) == 4
    assert lines[2] == lines[3]
    assert lines[2].startswith("| `u_mul_e_sum` | 32, 128 | 10 | **")


def test_tables_whose_reader_leaves() -> None:
    log = ROOT / "tuning_logs" / "bench.json"
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "w") as pipe:
        done = subprocess.run([ROOT / "scripts" / "tables", log], stdout=pipe, stderr=subprocess.PIPE, check=False)
    assert (done.returncode, done.stderr) == (1, b"")
