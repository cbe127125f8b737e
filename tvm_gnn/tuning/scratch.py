"""The temporary folder of a tuning run, and the removal of those that killed runs left behind."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from ..errors import TuneError
from ..toolchain.temporary import temporary_files, temporary_folder

_PREFIX = "tvm_gnn-tune-"
_LOCK = "in-use"


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """A new temporary folder, removed at the end; first removes folders of runs that were killed.

    A run holds a kernel lock in its folder. The lock dies with the process, so a folder whose lock is free belongs to
    nobody, whatever process numbers mean in other containers on the same disk.

    Raises
    ------
    TuneError
        There is no folder for temporary files, or it cannot be written.
    """
    with ExitStack() as stack:
        with temporary_files(TuneError):
            _remove_abandoned()
        folder = stack.enter_context(temporary_folder(TuneError, _PREFIX))
        with temporary_files(TuneError, folder):
            lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT, 0o600)
            stack.callback(os.close, lock)
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield folder


def _remove_abandoned() -> None:
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with suppress(OSError):
            if folder.is_symlink() or folder.stat().st_uid != os.getuid():
                continue
            # Without O_CREAT: a folder whose run has not come to its lock yet is left alone.
            lock = os.open(folder / _LOCK, os.O_RDWR)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(lock)
