"""Temporary files: whatever their disk refuses becomes one error that says which folder and what to do."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from ..errors import TvmGnnError

# A kernel's objects and library take less.
_LITTLE_BYTES = 1 << 20


@contextmanager
def temporary_files(error: type[TvmGnnError], folder: Path | None = None) -> Iterator[None]:
    """Raise `error` in place of an `OSError`; for code that does nothing but write temporary files.

    Parameters
    ----------
    error : type
    folder : Path, optional
        Where they are written; default: the system's temporary folder.
    """
    try:
        yield
    except OSError as cause:
        # numpy tells a full disk without the system's code for it.
        reason = cause.strerror or f"a file was written in part only: {cause}"
        raise error(
            f"{folder or _usual_folder()}: must be a writable folder with free space for temporary files "
            f"(got: {reason}). Free space or set TMPDIR to another folder."
        ) from cause


@contextmanager
def temporary_folder(error: type[TvmGnnError], prefix: str = "tvm_gnn-") -> Iterator[Path]:
    """A new temporary folder, removed at the end; raises `error` where none can be made."""
    with ExitStack() as stack:
        with temporary_files(error):
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix=prefix)))
        yield folder


def full_disk_hint(folder: Path) -> str:
    """What to add to the failure of a program that wrote there: nothing unless the disk is full."""
    try:
        free_bytes = shutil.disk_usage(folder).free
    except OSError:
        return ""
    if free_bytes >= _LITTLE_BYTES:
        return ""
    return f" ({folder}: only {free_bytes} bytes are free; free space or set TMPDIR to another folder)"


def _usual_folder() -> str:
    try:
        return tempfile.gettempdir()
    except OSError:
        return "temporary folder"
