"""The device that kernels are built for: its name in keys, its vector registers, its TVM target."""

from __future__ import annotations

import platform
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from ..arguments import integer
from ..config import thread_limit
from ..errors import InputError
from .importing import import_tvm

# The instruction sets that change what LLVM emits for these templates; the rest of a CPU's flags is noise in a key.
_RELEVANT = ("sse4_2", "avx", "avx2", "fma", "f16c", "avx512f", "avx512vl", "avx512bw", "avx512_bf16", "asimd", "sve")

# Where the system does not say.
DEFAULT_CORE_CACHE_BYTES = 1 << 20


@dataclass(frozen=True)
class CpuTarget:
    """A CPU that LLVM compiles for on this machine.

    Attributes
    ----------
    kind : str
        ``llvm``.
    cpu : str
        Architecture, model and instruction sets; two machines with equal text run each other's kernels.
    vector_bytes : int
        Width of a vector register.
    vector_registers : int
        How many of them the instruction set has.
    threads : int
        Threads a kernel is tuned for.
    core_cache_bytes : int
        Of a core's own cache, the second level; what a cost model measures sizes by.
    """

    cpu: str
    vector_bytes: int
    vector_registers: int
    threads: int
    core_cache_bytes: int = DEFAULT_CORE_CACHE_BYTES
    kind: str = "llvm"

    def tvm_target(self) -> Any:
        """The `tvm.target.Target` for this machine's CPU."""
        tvm = import_tvm()
        mcpu = tvm.target.codegen.llvm_get_system_cpu()
        return tvm.target.Target({"kind": self.kind, "mcpu": mcpu, "num-cores": self.threads})


def detect(target: str = "cpu", threads: int | None = None) -> CpuTarget:
    """The target of that name on this machine.

    Parameters
    ----------
    target : str
        ``cpu``.
    threads : int, optional
        Kernel threads; default: what the environment allows.

    Raises
    ------
    InputError
        The name is unknown or threads < 1.
    """
    if target != "cpu":
        raise InputError(f"target: must be cpu (got {target!r}).")
    if threads is not None:
        threads = integer("threads", threads)
        if threads < 1:
            raise InputError(f"threads: must be at least 1 (got {threads}).")
    model, flags = _cpu()
    if "avx512f" in flags and "avx512vl" in flags:
        vector_bytes, registers = 64, 32
    elif "avx" in flags:
        vector_bytes, registers = 32, 16
    else:
        vector_bytes, registers = 16, 32 if "asimd" in flags else 16
    features = "+".join(flag for flag in _RELEVANT if flag in flags) or "baseline"
    allowed = thread_limit() if threads is None else min(threads, thread_limit())
    cpu = f"{platform.machine()} {model} {features}"
    return CpuTarget(cpu, vector_bytes, registers, allowed, _core_cache_bytes())


@cache
def _core_cache_bytes() -> int:
    for index in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*"):
        try:
            level, size = (index / "level").read_text().strip(), (index / "size").read_text().strip()
        except OSError:
            continue
        if level == "2" and size.endswith("K") and size[:-1].isdigit():
            return int(size[:-1]) << 10
    return DEFAULT_CORE_CACHE_BYTES


@cache
def _cpu() -> tuple[str, frozenset[str]]:
    """Model and instruction-set flags of the first CPU."""
    fields: dict[str, str] = {}
    try:
        for line in Path("/proc/cpuinfo").read_text().split("\n\n")[0].splitlines():
            name, _, value = line.partition(":")
            fields[name.strip()] = value.strip()
    except OSError:
        return platform.processor() or "unknown", frozenset()
    model = "-".join(fields.get(name, "?") for name in ("vendor_id", "cpu family", "model"))
    return model, frozenset((fields.get("flags") or fields.get("Features") or "").split())
