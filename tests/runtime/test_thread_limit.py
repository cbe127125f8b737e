"""How many threads a kernel may use: the smallest of the user's caps, OMP_NUM_THREADS, affinity and torch's setting."""

from __future__ import annotations

import os
import shutil
from typing import Any

import pytest

from tvm_gnn import config
from tvm_gnn.errors import InputError
from tvm_gnn.toolchain.target import detect

LIMIT = "from tvm_gnn import config; print(config.thread_limit())"
UNSET: dict[str, str | None] = {"OMP_NUM_THREADS": None, "TVM_GNN_NUM_THREADS": None}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, None),
        ({"OMP_NUM_THREADS": "1"}, 1),
        ({"OMP_NUM_THREADS": "1,4"}, 1),
        ({"OMP_NUM_THREADS": "0"}, None),  # OpenMP ignores it
        ({"OMP_NUM_THREADS": "many"}, None),
        ({"TVM_GNN_NUM_THREADS": "1"}, 1),
        ({"TVM_GNN_NUM_THREADS": " "}, None),
        ({"TVM_GNN_NUM_THREADS": "1000"}, None),  # a cap, not a wish
        ({"OMP_NUM_THREADS": "1", "TVM_GNN_NUM_THREADS": "2"}, 1),
    ],
)
def test_the_environments_caps(run_python: Any, changes: dict[str, str], expected: int | None) -> None:
    found = int(run_python(LIMIT, env={**UNSET, **changes}))
    assert found == (config.usable_cpus() if expected is None else expected)


@pytest.mark.parametrize("text", ["0", "-1", "two", "1.5"])
def test_a_bad_cap_is_refused(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("TVM_GNN_NUM_THREADS", text)
    with pytest.raises(InputError, match=rf"TVM_GNN_NUM_THREADS: must be a positive integer \(got '{text}'\)"):
        config.thread_limit()


def test_the_affinity_mask(run_python: Any) -> None:
    if not shutil.which("taskset"):
        pytest.skip("needs taskset")
    cpu = min(os.sched_getaffinity(0))
    assert run_python(LIMIT, env=UNSET, prefix=("taskset", "-c", str(cpu))).strip() == "1"


def test_kernels_are_loaded_for_the_limit(run_python: Any) -> None:
    code = (
        "import tvm_gnn\n"
        "graph = tvm_gnn.Graph.from_coo([], [], num_src=2, num_dst=2)\n"
        "print(tvm_gnn.load(graph, 'copy_u_sum', 4).threads)"
    )
    assert run_python(code, env={**UNSET, "OMP_NUM_THREADS": "1"}).strip() == "1"


def test_detect_takes_a_cap(monkeypatch: pytest.MonkeyPatch) -> None:
    assert detect(threads=1).threads == 1
    monkeypatch.setenv("TVM_GNN_NUM_THREADS", "1")
    assert detect().threads == 1
    with pytest.raises(InputError, match=r"threads: must be at least 1 \(got 0\)"):
        detect(threads=0)
    with pytest.raises(InputError, match=r"target: must be cpu \(got 'tpu'\)"):
        detect("tpu")


def test_cgroup_quota_is_rounded_up_and_at_least_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "_cgroup_quota", lambda: 1)
    assert config.usable_cpus() == 1
    monkeypatch.setattr(config, "_cgroup_quota", lambda: 1000)
    assert config.usable_cpus() == len(os.sched_getaffinity(0))
