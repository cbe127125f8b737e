"""The cost models that come with the package: trained by `scripts/pretrain` on many graphs, a start for any other."""

from __future__ import annotations

from pathlib import Path

from .. import config
from .task import Task

_PACKAGE = Path(__file__).parents[1]


def model_name(task: Task) -> str:
    """Name of the file for a task's primitive and kind of target."""
    return f"{task.op.primitive}-{task.target.kind}.trees"


def model_file(task: Task) -> Path:
    """Where it lies: where the user says, in an installed package, or beside it in a checkout; there may be none."""
    name, chosen = model_name(task), config.current().models_dir
    if chosen is not None:
        return chosen / name
    installed = _PACKAGE / "schedules" / name
    return installed if installed.is_file() else _PACKAGE.parent / "schedules" / name
