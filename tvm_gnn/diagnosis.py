"""Checks of the machine and the installation, each with its remedy; what `tvm-gnn doctor` prints."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from . import config
from .errors import TvmGnnError
from .runtime import pool
from .toolchain.importing import PINNED, installed_version, pinned_requirements
from .toolchain.link import linker
from .toolchain.target import detect

_PAIR_TIMEOUT_S = 60
# Saving a module is what the wrong pair of packages crashes on; a child process takes the crash.
_PAIR_PROBE = """
from tvm_gnn.toolchain.importing import import_tvm
tvm = import_tvm()
from tvm.script import tirx as T
@T.prim_func(s_tir=True)
def add(a: T.Buffer((4,), "float32")):
    for i in range(4):
        with T.sblock("add"):
            vi = T.axis.spatial(4, i)
            a[vi] = a[vi] + T.float32(1)
tvm.ir.load_json(tvm.ir.save_json(tvm.IRModule({"main": add})))
"""


@dataclass(frozen=True)
class Finding:
    """One check's outcome.

    Attributes
    ----------
    name, found : str
    status : {"ok", "note", "problem"}
        A problem keeps tuning or loading from working; a note costs speed or a feature.
    remedy : str or None
    """

    name: str
    found: str
    status: Literal["ok", "note", "problem"] = "ok"
    remedy: str | None = None

    def as_dict(self) -> dict[str, str | None]:
        """Plain values for JSON."""
        return asdict(self)


def diagnose() -> list[Finding]:
    """Run every check; none of them raises."""
    checks: list[Callable[[], Finding]] = [
        _python,
        _versions,
        _tvm_pair,
        _cost_model,
        _compiler,
        _cpu,
        _threads,
        _pool,
        _torch,
        _cache_folder,
        _data,
    ]
    return [_guarded(check) for check in checks]


def _guarded(check: Callable[[], Finding]) -> Finding:
    try:
        return check()
    except TvmGnnError as error:
        return Finding(check.__name__.strip("_").replace("_", " "), str(error), "problem")


def _python() -> Finding:
    return Finding("python", f"{sys.version.split()[0]} at {sys.executable}")


def _versions() -> Finding:
    found = {name: installed_version(name) for name in PINNED}
    text = ", ".join(f"{name} {version}" for name, version in found.items())
    if found == PINNED:
        return Finding("tvm packages", text)
    return Finding("tvm packages", text, "problem", f"pip install {pinned_requirements()}")


def _tvm_pair() -> Finding:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[1]), *sys.path])}
    # TVMScript reads its own source, which must therefore be a file.
    with tempfile.TemporaryDirectory() as folder:
        probe = Path(folder, "probe.py")
        probe.write_text(_PAIR_PROBE)
        try:
            done = subprocess.run(
                [sys.executable, str(probe)],
                env=environment,
                capture_output=True,
                text=True,
                timeout=_PAIR_TIMEOUT_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return Finding("tvm at work", f"no answer within {_PAIR_TIMEOUT_S} s", "problem", "run doctor again")
    if done.returncode == 0:
        return Finding("tvm at work", "parses, saves and loads a module")
    last = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
    return Finding("tvm at work", last[:300], "problem", f"pip install {pinned_requirements()}")


def _cost_model() -> Finding:
    for name in ("xgboost-cpu", "xgboost"):
        if (version := installed_version(name)) != "none":
            return Finding("cost model", f"{name} {version}")
    return Finding("cost model", "xgboost is not installed", "problem", "pip install xgboost-cpu")


def _compiler() -> Finding:
    return Finding("compiler", " ".join(linker()))


def _cpu() -> Finding:
    return Finding("cpu", detect().cpu)


def _threads() -> Finding:
    usable, limit = config.usable_cpus(), config.thread_limit()
    total = os.cpu_count() or usable
    text = f"{limit} of {total} CPUs"
    if limit < total:
        return Finding("threads", f"{text} (affinity, cgroup quota or environment)", "note")
    return Finding("threads", text)


def _pool() -> Finding:
    name = pool.runtime_name()
    if pool.omp_parallel_address():
        return Finding("thread pool", name)
    return Finding(
        "thread pool", f"{name}: there is no OpenMP runtime to share with others", "note", "install libgomp1"
    )


def _torch() -> Finding:
    version = installed_version("torch")
    if version == "none":
        return Finding("torch", "not installed: numpy only", "note", "pip install torch, if you call kernels from it")
    return Finding("torch", version)


def _cache_folder() -> Finding:
    folder = config.current().cache_dir
    existing = next(path for path in (folder, *folder.absolute().parents) if os.path.exists(path))
    if os.access(existing, os.W_OK | os.X_OK):
        return Finding("cache", str(folder))
    remedy = "set TVM_GNN_CACHE to a folder of yours"
    return Finding("cache", f"{folder} cannot be written: artifacts are not kept", "note", remedy)


def _data() -> Finding:
    folders = config.current().data_dirs
    if folders:
        return Finding("datasets", ", ".join(map(str, folders)))
    return Finding("datasets", "built-in and files only", "note", "set TVM_GNN_DATA to a folder of <name>.npz graphs")
