"""Typed knobs, and the only place that reads the environment and the process's CPU limits."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from .errors import InputError

ENVIRONMENT = {
    "TVM_GNN_CACHE": "folder of the artifact store (default: the user cache folder)",
    "TVM_GNN_DATA": "folder with more datasets (`<name>.npz`, also in a subfolder `npz`)",
    "TVM_GNN_LOGS": "folder of the tuning records (default: `records/` in the cache folder)",
    "TVM_GNN_MODELS": "folder of pre-trained cost models (default: those that come with the package)",
    "TVM_GNN_NUM_THREADS": "upper bound on kernel threads",
    "OMP_NUM_THREADS": "upper bound on kernel threads, as for every OpenMP program",
    "CC": "compiler that links kernels (default: the first of cc, gcc, clang on PATH)",
}

_MOST_DIGITS = 9


@dataclass(frozen=True)
class Config:
    """Everything a user may set through the environment, read once per call of `current`.

    Attributes
    ----------
    cache_dir : Path
        Folder of the artifact store; may not exist yet.
    log_dir : Path
        Folder of the tuning records; may not exist yet.
    data_dirs : tuple of Path
        Folders searched for datasets, in order; only those that exist.
    max_threads : int or None
        The user's own cap on kernel threads.
    compiler : str or None
        The user's own choice of compiler.
    models_dir : Path or None
        The user's own choice of pre-trained cost models.
    """

    cache_dir: Path
    log_dir: Path
    data_dirs: tuple[Path, ...]
    max_threads: int | None
    compiler: str | None
    models_dir: Path | None


def current() -> Config:
    """Read the environment into a `Config`; raises `InputError` on a value that breaks a rule."""
    cache_dir = _cache_dir()
    log_dir, models_dir = os.environ.get("TVM_GNN_LOGS"), os.environ.get("TVM_GNN_MODELS")
    return Config(
        cache_dir=cache_dir,
        log_dir=expanded("TVM_GNN_LOGS", log_dir) if log_dir else cache_dir / "records",
        data_dirs=_data_dirs(),
        max_threads=_positive("TVM_GNN_NUM_THREADS"),
        compiler=os.environ.get("CC") or None,
        models_dir=expanded("TVM_GNN_MODELS", models_dir) if models_dir else None,
    )


def expanded(name: str, path: str | os.PathLike[str]) -> Path:
    """The path with ``~`` and ``~user`` replaced; raises `InputError` under `name` where there is no such home."""
    try:
        return Path(path).expanduser()
    except RuntimeError as error:
        raise InputError(f"{name}: must name a home folder that exists (got {os.fspath(path)!r}: {error})") from error


def thread_limit() -> int:
    """Threads a kernel may use: min(user setting, OMP_NUM_THREADS, affinity mask, cgroup quota), at least 1."""
    limits = [usable_cpus(), current().max_threads, _omp_num_threads()]
    return max(1, min(limit for limit in limits if limit is not None))


def usable_cpus() -> int:
    """CPUs this process may run on, by its affinity mask and its cgroup's quota."""
    affinity = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota = _cgroup_quota()
    return affinity if quota is None else max(1, min(affinity, quota))


def _cache_dir() -> Path:
    given = os.environ.get("TVM_GNN_CACHE")
    if given:
        return expanded("TVM_GNN_CACHE", given)
    import platformdirs

    return Path(platformdirs.user_cache_dir("tvm_gnn", appauthor=False))


def _data_dirs() -> tuple[Path, ...]:
    given = os.environ.get("TVM_GNN_DATA")
    if given:
        folder = expanded("TVM_GNN_DATA", given)
        return tuple(path for path in (folder, folder / "npz") if path == folder or os.path.isdir(path))
    beside_checkout = Path(__file__).resolve().parents[2] / "shared" / "data" / "npz"
    return (beside_checkout,) if beside_checkout.is_dir() else ()


def _positive(name: str) -> int | None:
    text = os.environ.get(name, "").strip()
    if not text:
        return None
    if not text.isdecimal() or len(text) > _MOST_DIGITS or int(text) < 1:
        shown = text if len(text) <= _MOST_DIGITS else text[:_MOST_DIGITS] + "…"
        raise InputError(f"{name}: must be a positive integer (got {shown!r}). Unset it or give a number of threads.")
    return int(text)


def _omp_num_threads() -> int | None:
    # OMP_NUM_THREADS may be a list, one number per nesting level; a value OpenMP would ignore is ignored here too.
    first = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    return int(first) if first.isdecimal() and len(first) <= _MOST_DIGITS and int(first) > 0 else None


@cache
def _cgroup_quota() -> int | None:
    """Whole CPUs granted by the cgroup (v2, then v1), rounded up; None when unlimited or unknown."""
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
    except (OSError, ValueError):
        try:
            quota = Path("/sys/fs/cgroup/cpu/cpu.cfs_quota_us").read_text().strip()
            period = Path("/sys/fs/cgroup/cpu/cpu.cfs_period_us").read_text().strip()
        except OSError:
            return None
    if quota in ("max", "-1"):
        return None
    return max(1, -(-int(quota) // int(period)))
