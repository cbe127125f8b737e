"""What a record says of the machine and the versions it was measured with; imports nothing heavy."""

from __future__ import annotations

import platform
from typing import Any

from ..config import usable_cpus
from .importing import PINNED, installed_version
from .target import CpuTarget


def environment(target: CpuTarget) -> dict[str, Any]:
    """Machine, threads and versions as JSON-able values."""
    packages = ("tvm-gnn", "numpy", "xgboost-cpu", "xgboost", *PINNED)
    return {
        "cpu": target.cpu,
        "cores": usable_cpus(),
        "threads": target.threads,
        "system": platform.platform(),
        "python": platform.python_version(),
        "versions": {name: version for name in packages if (version := installed_version(name)) != "none"},
    }
