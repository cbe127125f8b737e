"""Knobs: what each variable of the environment means, and how many threads a kernel may use."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tvm_gnn import config
from tvm_gnn.errors import InputError


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch: pytest.MonkeyPatch, isolated_cache: Path) -> None:
    for name in config.ENVIRONMENT:
        monkeypatch.delenv(name, raising=False)


def limited(monkeypatch: pytest.MonkeyPatch, affinity: int = 64, quota: int | None = None) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(affinity)))
    monkeypatch.setattr(config, "_cgroup_quota", lambda: quota)


def test_defaults(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    found = config.current()
    assert found.cache_dir == tmp_path / "tvm_gnn"
    assert found.log_dir == found.cache_dir / "records"
    assert (found.max_threads, found.compiler) == (None, None)
    assert not found.cache_dir.exists()


def test_every_variable_is_obeyed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("TVM_GNN_CACHE", "~/cache")
    assert config.current().cache_dir == tmp_path / "cache"
    assert config.current().log_dir == tmp_path / "cache" / "records"
    monkeypatch.setenv("TVM_GNN_LOGS", "~/logs")
    assert config.current().log_dir == tmp_path / "logs"
    monkeypatch.setenv("TVM_GNN_DATA", "~/data")
    assert config.current().data_dirs == (tmp_path / "data",)
    (tmp_path / "data" / "npz").mkdir(parents=True)
    assert config.current().data_dirs == (tmp_path / "data", tmp_path / "data" / "npz")
    monkeypatch.setenv("TVM_GNN_NUM_THREADS", " 3 ")
    assert config.current().max_threads == 3
    monkeypatch.setenv("CC", "mycc")
    assert config.current().compiler == "mycc"


def test_set_to_nothing_is_not_set(monkeypatch: pytest.MonkeyPatch) -> None:
    before = config.current()
    for name in config.ENVIRONMENT:
        monkeypatch.setenv(name, "")
    assert config.current() == before


@pytest.mark.parametrize("value", ["0", "-1", "many", "1.5", "2 3"])
def test_threads_must_be_a_number(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("TVM_GNN_NUM_THREADS", value)
    with pytest.raises(InputError, match=f"^TVM_GNN_NUM_THREADS: must be a positive integer .got '{value}'"):
        config.current()


@pytest.mark.parametrize(
    ("user", "omp", "affinity", "quota", "expected"),
    [
        ("", "", 64, None, 64),
        ("8", "", 64, None, 8),
        ("8", "4", 64, None, 4),
        ("4", "8", 64, None, 4),
        ("8", "6", 5, None, 5),
        ("8", "6", 5, 3, 3),
        ("128", "128", 64, None, 64),
        ("", "4,2,1", 64, None, 4),
        ("", "0", 64, None, 64),  # values that OpenMP ignores
        ("", "many", 64, None, 64),
        ("", "-2", 64, None, 64),
        ("", "", 1, 16, 1),
    ],
)
def test_thread_limit_is_the_least(
    monkeypatch: pytest.MonkeyPatch, user: str, omp: str, affinity: int, quota: int | None, expected: int
) -> None:
    limited(monkeypatch, affinity, quota)
    monkeypatch.setenv("TVM_GNN_NUM_THREADS", user)
    monkeypatch.setenv("OMP_NUM_THREADS", omp)
    assert config.thread_limit() == expected
    assert config.usable_cpus() == min(affinity, quota or affinity)


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"cpu.max": "max 100000\n"}, None),
        ({"cpu.max": "200000 100000\n"}, 2),
        ({"cpu.max": "250000 100000\n"}, 3),
        ({"cpu.max": "1000 100000\n"}, 1),
        ({"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, None),
        ({"cpu/cpu.cfs_quota_us": "150000\n", "cpu/cpu.cfs_period_us": "100000\n"}, 2),
        ({}, None),
    ],
)
def test_cgroup_quota(monkeypatch: pytest.MonkeyPatch, files: dict[str, str], expected: int | None) -> None:
    def read_text(path: Path) -> str:
        name = str(path).removeprefix("/sys/fs/cgroup/")
        if name not in files:
            raise FileNotFoundError(name)
        return files[name]

    monkeypatch.setattr(Path, "read_text", read_text)
    assert config._cgroup_quota.__wrapped__() == expected


@pytest.mark.parametrize("variable", ["TVM_GNN_CACHE", "TVM_GNN_LOGS", "TVM_GNN_DATA"])
def test_home_of_nobody_is_refused_by_name(monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
    monkeypatch.setenv(variable, "~nouser_of_this_name/x")
    with pytest.raises(InputError, match=f"^{variable}: must name a home folder"):
        config.current()


def test_a_number_of_5000_digits_is_no_number_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "9" * 5000)
    assert config.thread_limit() == config.usable_cpus()
    monkeypatch.setenv("TVM_GNN_NUM_THREADS", "9" * 5000)
    with pytest.raises(InputError, match=r"^TVM_GNN_NUM_THREADS: must be a positive integer"):
        config.current()
