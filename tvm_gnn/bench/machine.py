"""What a measurement ran on: processor, limits, versions, thread settings, commit."""

from __future__ import annotations

import os
import platform
import subprocess
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from .. import config

PACKAGES = (
    "tvm-gnn",
    "apache-tvm",
    "numpy",
    "scipy",
    "torch",
    "torch-geometric",
    "dgl",
    "mkl",
    "numba",
    "python-graphblas",
    "suitesparse-graphblas",
    "xgboost",
    "xgboost-cpu",
)
# Settings of other libraries' thread pools; they change every number in a report.
THREAD_SETTINGS = (
    "OMP_",
    "GOMP_",
    "KMP_",
    "MKL_",
    "NUMBA_NUM_THREADS",
    "NUMBA_THREADING_LAYER",
    "TVM_NUM_THREADS",
    "TVM_BIND_THREADS",
    "TVM_THREAD_POOL_SPIN_COUNT",
    "TVM_GNN_NUM_THREADS",
)


@dataclass(frozen=True)
class Machine:
    """The circumstances without which a timing means nothing.

    Attributes
    ----------
    cpu, vendor : str
        Model name and maker as the processor gives them; ``unknown`` where the system does not say.
    cores, cpus, threads : int
        Physical cores of the machine, logical CPUs this process may use, threads a kernel may use.
    platform, python : str
    versions : dict
        Of the installed packages among `PACKAGES`.
    environment : dict
        Variables that steer thread pools and code paths of the contenders.
    commit : str or None
        Of the checkout the package lies in, with ``+changes`` where files differ from it; None outside a checkout.
    """

    cpu: str
    vendor: str
    cores: int
    cpus: int
    threads: int
    platform: str
    python: str
    versions: dict[str, str]
    environment: dict[str, str]
    commit: str | None

    def as_dict(self) -> dict[str, Any]:
        """The same as plain values for JSON."""
        return asdict(self)


def this_machine(threads: int | None = None) -> Machine:
    """Describe where we run; `threads` is what the contenders were given (default: the limit of kernels)."""
    processors = _processors()
    first = processors[0] if processors else {}
    physical = {(cpu.get("physical id"), cpu.get("core id", number)) for number, cpu in enumerate(processors)}
    return Machine(
        cpu=first.get("model name") or platform.processor() or "unknown",
        vendor=cpu_vendor(),
        cores=len(physical) or os.cpu_count() or 1,
        cpus=config.usable_cpus(),
        threads=config.thread_limit() if threads is None else threads,
        platform=platform.platform(),
        python=platform.python_version(),
        versions=installed_versions(),
        environment={name: value for name, value in sorted(os.environ.items()) if name.startswith(THREAD_SETTINGS)},
        commit=checkout_commit(Path(__file__).resolve().parents[2]),
    )


def cpu_vendor() -> str:
    """Maker of the processor as it names itself, such as ``AuthenticAMD``; ``unknown`` where the system hides it."""
    processors = _processors()
    return processors[0].get("vendor_id", "unknown") if processors else "unknown"


def installed_versions() -> dict[str, str]:
    """Versions of the `PACKAGES` that are installed, read without importing them."""
    versions = {}
    for package in PACKAGES:
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return versions


def checkout_commit(root: Path) -> str | None:
    """Commit of the git checkout whose root is this folder, ``+changes`` appended when tracked files differ."""
    if not (root / ".git").exists():  # an installed package may lie inside somebody else's checkout
        return None
    commit = _git(root, "rev-parse", "--verify", "--quiet", "HEAD")
    if not commit:
        return None
    return f"{commit}+changes" if _git(root, "status", "--porcelain", "--untracked-files=no") else commit


def _git(root: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(root), *arguments], capture_output=True, text=True, timeout=10, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def _processors() -> list[dict[str, str]]:
    """One dict per logical CPU of /proc/cpuinfo; empty where there is no such file."""
    try:
        blocks = Path("/proc/cpuinfo").read_text().strip().split("\n\n")
    except OSError:
        return []
    lines = ([line.partition(":") for line in block.splitlines()] for block in blocks)
    return [{key.strip(): value.strip() for key, _, value in fields} for fields in lines]
