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
from .errors import BuildError, TvmGnnError
from .runtime import pool
from .toolchain.child import python_command
from .toolchain.importing import PINNED, installed_version, pinned_requirements
from .toolchain.link import linker, try_linker
from .toolchain.target import detect

_PAIR_TIMEOUT_S = 60
_LINK_TIMEOUT_S = 30
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
        _records_folder,
        _data,
    ]
    return [_guarded(check) for check in checks]


def _guarded(check: Callable[[], Finding]) -> Finding:
    try:
        return check()
    except (TvmGnnError, OSError) as error:
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
    # TVMScript reads its own source, which must therefore be a file.
    with tempfile.TemporaryDirectory() as folder:
        probe = Path(folder, "probe.py")
        probe.write_text(_PAIR_PROBE)
        try:
            done = subprocess.run(
                python_command("import runpy; runpy.run_path(sys.argv[1])", str(probe)),
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
    try:
        try_linker(_LINK_TIMEOUT_S)
    except BuildError as error:
        remedy = "install gcc with binutils, or clang with lld, or set CC to a compiler that links for this machine"
        return Finding("compiler", " ".join(str(error).split()), "problem", remedy)
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
    return _written_folder("cache", config.current().cache_dir, "TVM_GNN_CACHE")


def _records_folder() -> Finding:
    return _written_folder("records", config.current().log_dir, "TVM_GNN_LOGS")


def _written_folder(name: str, folder: Path, setting: str) -> Finding:
    """Whether the folder, or the first of its parents that exists, takes a new folder; nothing is left there."""
    try:
        existing = folder.absolute()
        while not _exists(existing):
            existing = existing.parent
        with tempfile.TemporaryDirectory(prefix=".tvm_gnn-", dir=existing):
            return Finding(name, str(folder))
    except OSError as error:
        found = f"{folder} cannot be written ({error.strerror or error}): nothing can be tuned"
        return Finding(name, found, "problem", f"set {setting} to a folder of yours")


def _exists(path: Path) -> bool:
    try:
        os.stat(path)
    except FileNotFoundError:
        return False  # anything else, such as a name that is too long, keeps it from being made too
    return True


def _data() -> Finding:
    folders = config.current().data_dirs
    if not folders:
        return Finding(
            "datasets", "built-in and files only", "note", "set TVM_GNN_DATA to a folder of <name>.npz graphs"
        )
    for folder in folders:
        try:
            os.listdir(folder)
        except OSError as error:
            found = f"{folder} cannot be read ({error.strerror or error})"
            return Finding("datasets", found, "problem", "set TVM_GNN_DATA to a folder of <name>.npz graphs")
    return Finding("datasets", ", ".join(map(str, folders)))
