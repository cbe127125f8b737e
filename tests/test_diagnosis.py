"""Checks of the machine: each finds its own fault, says the remedy, and none of them raises."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tvm_gnn import config, diagnosis
from tvm_gnn.diagnosis import Finding
from tvm_gnn.toolchain.importing import PINNED


def finding(name: str) -> Finding:
    """The finding of that name; the slow check of TVM at work is left out."""
    (found,) = [each for each in diagnosis.diagnose() if each.name == name]
    return found


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    if "tvm_at_work" not in request.function.__name__:
        monkeypatch.setattr(diagnosis, "_PAIR_PROBE", "")


def test_python_and_versions() -> None:
    assert finding("python").found.startswith(f"{sys.version_info[0]}.{sys.version_info[1]}")
    versions = finding("tvm packages")
    assert versions.status == "ok"
    assert all(version in versions.found for version in PINNED.values())


def test_other_tvm_packages_are_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(diagnosis, "installed_version", lambda name: "0.1.15")
    found = finding("tvm packages")
    assert found.status == "problem"
    assert "apache-tvm-ffi 0.1.15" in found.found
    assert found.remedy is not None
    assert all(f"{name}=={version}" in found.remedy for name, version in PINNED.items())


def test_tvm_at_work_parses_and_saves() -> None:
    found = finding("tvm at work")
    assert found.status == "ok", found


@pytest.mark.parametrize(
    ("probe", "text"),
    [
        ("import os; os.abort()", "exit code -6"),
        ("raise RuntimeError('wrong pair')", "RuntimeError: wrong pair"),
    ],
)
def test_tvm_at_work_may_crash(monkeypatch: pytest.MonkeyPatch, probe: str, text: str) -> None:
    monkeypatch.setattr(diagnosis, "_PAIR_PROBE", probe)
    found = finding("tvm at work")
    assert found.status == "problem"
    assert text in found.found
    assert "pip install" in (found.remedy or "")


def test_tvm_at_work_may_hang(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(diagnosis, "_PAIR_PROBE", "import time; time.sleep(60)")
    monkeypatch.setattr(diagnosis, "_PAIR_TIMEOUT_S", 0.5)
    found = finding("tvm at work")
    assert found.status == "problem"
    assert "no answer within 0.5 s" in found.found


def test_cost_model_takes_either_package(monkeypatch: pytest.MonkeyPatch) -> None:
    installed = {"xgboost": "3.0.0"}
    monkeypatch.setattr(diagnosis, "installed_version", lambda name: installed.get(name, "none"))
    assert finding("cost model").found == "xgboost 3.0.0"
    assert finding("cost model").status == "ok"
    installed.clear()
    assert finding("cost model").status == "problem"
    assert finding("cost model").remedy == "pip install xgboost-cpu"
    assert finding("torch").status == "note"


def test_compiler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert Path(finding("compiler").found).is_file()
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    missing = finding("compiler")
    assert missing.status == "problem"
    assert "Install gcc or clang" in missing.found


@pytest.mark.parametrize(
    ("compiler", "text"),
    [
        ("true", "ended well and wrote no library"),
        ("false", "ended with 1: it said nothing"),
        ("cc --no-such-option", "ended with 1: "),
        ("sh -c 'kill -9 $$'", "killed by signal 9"),
        ("sh -c 'sleep 60'", "did not end within 0.5 s"),
        ("sh -c 'for last; do :; done; echo x >$3' sh", "cannot be loaded here"),
        ("no-such-compiler", "CC: must name a program on PATH (got 'no-such-compiler')"),
        ("'", "CC: must be a command line"),
    ],
)
def test_a_compiler_that_does_not_link_is_a_problem(monkeypatch: pytest.MonkeyPatch, compiler: str, text: str) -> None:
    monkeypatch.setenv("CC", compiler)
    if "sleep" in compiler:
        monkeypatch.setattr(diagnosis, "_LINK_TIMEOUT_S", 0.5)
    found = finding("compiler")
    assert found.status == "problem"
    assert text in found.found


def test_threads_below_the_machine_are_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    monkeypatch.setattr(config, "thread_limit", lambda: 8)
    assert finding("threads") == Finding("threads", "8 of 8 CPUs")
    monkeypatch.setattr(config, "thread_limit", lambda: 3)
    assert finding("threads").status == "note"
    assert finding("threads").found.startswith("3 of 8 CPUs")


FOLDERS = [("cache", "TVM_GNN_CACHE"), ("records", "TVM_GNN_LOGS")]


@pytest.mark.parametrize(("name", "setting"), FOLDERS)
def test_folders_that_are_written(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str, setting: str) -> None:
    monkeypatch.setenv(setting, str(tmp_path / "new" / "folder"))
    assert finding(name) == Finding(name, str(tmp_path / "new" / "folder"))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("name", "setting"), FOLDERS)
@pytest.mark.parametrize("place", ["file", "file/inside", "long" * 100, "/proc/inside"])
def test_folders_that_cannot_be_written_are_a_problem(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str, setting: str, place: str
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv(setting, str(tmp_path / place))
    found = finding(name)
    assert found.status == "problem"
    assert "cannot be written" in found.found
    assert found.remedy == f"set {setting} to a folder of yours"


def test_datasets(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TVM_GNN_DATA", str(tmp_path))
    assert finding("datasets") == Finding("datasets", str(tmp_path))


@pytest.mark.parametrize(("mode", "reason"), [(None, "No such file"), (0o644, "Not a directory"), (0, "Permission")])
def test_a_data_folder_that_cannot_be_read_is_a_problem(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, mode: int | None, reason: str
) -> None:
    folder = tmp_path / "data"
    if mode == 0:
        if os.geteuid() == 0:
            pytest.skip("root reads every folder")
        folder.mkdir(mode=0)
    elif mode is not None:
        folder.touch(mode)
    monkeypatch.setenv("TVM_GNN_DATA", str(folder))
    found = finding("datasets")
    assert found.status == "problem"
    assert f"{folder} cannot be read ({reason}" in found.found


def test_bad_settings_are_findings_and_no_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TVM_GNN_NUM_THREADS", "many")
    problems = [each for each in diagnosis.diagnose() if each.status == "problem"]
    assert any("TVM_GNN_NUM_THREADS: must be a positive integer" in each.found for each in problems)
