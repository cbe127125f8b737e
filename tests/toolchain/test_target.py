"""The target: what a CPU's description says, and that it names everything a kernel depends on."""

from __future__ import annotations

from typing import Any

import pytest

from tvm_gnn.toolchain import target as target_module
from tvm_gnn.toolchain.environment import environment
from tvm_gnn.toolchain.target import CpuTarget, detect


@pytest.mark.parametrize(
    ("flags", "vector_bytes", "registers"),
    [
        ("sse4_2 avx avx2 fma avx512f avx512vl", 64, 32),
        ("sse4_2 avx avx2 fma avx512f", 32, 16),  # Knights Landing lacks the 256-bit forms
        ("sse4_2 avx avx2 fma", 32, 16),
        ("sse4_2", 16, 16),
        ("asimd", 16, 32),
        ("", 16, 16),
    ],
)
def test_vectors_and_registers(monkeypatch: pytest.MonkeyPatch, flags: str, vector_bytes: int, registers: int) -> None:
    monkeypatch.setattr(target_module, "_cpu", lambda: ("some-model", frozenset(flags.split())))
    found = detect(threads=1)
    assert (found.vector_bytes, found.vector_registers, found.threads, found.kind) == (
        vector_bytes,
        registers,
        1,
        "llvm",
    )
    assert "some-model" in found.cpu
    assert all(flag in found.cpu for flag in flags.split())


def test_flags_that_change_no_code_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    names = set()
    for flags in ("avx2 fma", "avx2 fma mitigations_of_the_day"):
        monkeypatch.setattr(target_module, "_cpu", lambda flags=flags: ("model", frozenset(flags.split())))
        names.add(detect(threads=1).cpu)
    assert len(names) == 1


def test_a_target_is_equal_in_every_process(run_python: Any) -> None:
    code = "from tvm_gnn.toolchain.target import detect; print(detect('cpu', 1))"
    assert run_python(code) == run_python(code) == f"{detect('cpu', 1)}\n"


def test_the_environment_is_plain_data_without_heavy_imports(run_python: Any) -> None:
    code = (
        "import json, sys\n"
        "from tvm_gnn.toolchain.environment import environment\n"
        "from tvm_gnn.toolchain.target import detect\n"
        "print(json.dumps(environment(detect())))\n"
        "assert not {'tvm', 'torch', 'xgboost'} & set(sys.modules)\n"
    )
    assert '"apache-tvm"' in run_python(code)
    described = environment(CpuTarget("a cpu", 64, 32, threads=3))
    assert (described["cpu"], described["threads"]) == ("a cpu", 3)
    assert described["versions"]["tvm-gnn"]
