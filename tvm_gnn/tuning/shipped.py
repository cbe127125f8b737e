"""The cost models that come with the package: trained by `scripts/pretrain` on many graphs, a start for any other."""

from __future__ import annotations

from pathlib import Path

from .task import Task

_PACKAGE = Path(__file__).parents[1]


def model_name(task: Task) -> str:
    """Name of the file for a task's primitive and kind of target."""
    return f"{task.op.primitive}-{task.target.kind}.ubj"


def model_file(task: Task) -> Path:
    """Where it lies: in an installed package, or beside the package in a checkout; there may be none."""
    installed = _PACKAGE / "schedules" / model_name(task)
    return installed if installed.is_file() else _PACKAGE.parent / "schedules" / model_name(task)
