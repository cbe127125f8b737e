"""The tuning log: one record a line in a file that many processes append to and that survives their death."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, NamedTuple

from ..errors import RecordError
from .key import TaskKey
from .locks import kernel_lock
from .record import SCHEMA, Record, Status

__all__ = ["MAX_LINE_BYTES", "SCHEMA", "Damage", "ReadResult", "Record", "RecordLog", "Status"]

MAX_LINE_BYTES = 16 * 2**20


class Damage(NamedTuple):
    """A line that is no record: its number, counted from 1, and why."""

    line: int
    reason: str


@dataclass(frozen=True)
class ReadResult:
    """The records of a log, oldest first, and the lines that are none."""

    records: list[Record]
    damaged: list[Damage]


class RecordLog:
    """An append-only log of tuning records.

    Nothing is opened or created before the first `append` or `check_writable`.

    Parameters
    ----------
    path : path
        The JSONL file; it and its parent folders may not exist yet.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    def append(self, record: Record, *, fsync: bool = False) -> None:
        """Add one record as one whole line, beside any number of other writers.

        Parameters
        ----------
        record : Record
        fsync : bool
            Also survive a power loss; the death of the process is survived in any case.

        Raises
        ------
        RecordError
            The file cannot be written (read-only, full disk) or the line is over 16 MiB; the log is then as before.
        """
        line = record.to_json() + b"\n"
        if len(line) > MAX_LINE_BYTES:
            raise RecordError(
                f"record: must fit a line of {MAX_LINE_BYTES} bytes (got {len(line)}). Shorten its trace."
            )
        with self._opened_to_append() as descriptor, kernel_lock(descriptor) as held:
            _append_line(descriptor, line, held, fsync)

    def check_writable(self) -> None:
        """Raise `RecordError` where `append` would for want of a file that can be written; makes an empty one."""
        with self._opened_to_append():
            pass

    def read(self) -> ReadResult:
        """All records; a missing file is an empty log.

        Raises
        ------
        RecordError
            The file exists but cannot be read at all. Damaged lines are no error but part of the result.
        """
        damaged: list[Damage] = []
        return ReadResult(list(self.scan(damaged)), damaged)

    def for_task(self, task: TaskKey | str, exact: str | None = None) -> ReadResult:
        """The records of one task (a key or its digest) and, if given, of one graph by its exact signature.

        Damaged lines are reported whatever task they were of. Memory is that of the records kept.
        """
        digest = task.digest if isinstance(task, TaskKey) else task
        damaged: list[Damage] = []
        records = [
            record
            for record in self.scan(damaged)
            if record.task_digest == digest and exact in (None, record.graph["exact"])
        ]
        return ReadResult(records, damaged)

    def scan(self, damaged: list[Damage]) -> Iterator[Record]:
        """Records one by one, in constant memory; lines that are none are added to `damaged` on the way."""
        try:
            with os.fdopen(_open_file(self.path, os.O_RDONLY), "rb") as file:
                for number, line in _lines(file, _settled_size(file)):
                    if line is None:
                        damaged.append(Damage(number, f"line: must be at most {MAX_LINE_BYTES} bytes."))
                        continue
                    if not line.strip():
                        continue
                    try:
                        yield Record.from_json(line)
                    except RecordError as cause:
                        damaged.append(Damage(number, str(cause)))
        except FileNotFoundError:
            return
        except OSError as cause:
            reason = cause.strerror or str(cause)
            raise RecordError(f"{self.path}: must be a readable file (got: {reason}).") from cause

    @contextmanager
    def _opened_to_append(self) -> Iterator[int]:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            descriptor = _open_file(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT)
            try:
                yield descriptor
            finally:
                os.close(descriptor)
        except OSError as cause:
            reason = cause.strerror or str(cause)
            raise RecordError(
                f"{self.path}: must be a writable file on a disk with free space (got: {reason}). "
                "Free space or set TVM_GNN_LOGS to another folder."
            ) from cause


def _open_file(path: Path, flags: int) -> int:
    # Without NONBLOCK a FIFO would be waited for until somebody writes to it.
    descriptor = os.open(path, flags | os.O_NONBLOCK, 0o666)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "it is no regular file")
    return descriptor


def _append_line(descriptor: int, line: bytes, held: bool, fsync: bool) -> None:
    end_bytes = os.fstat(descriptor).st_size
    # A writer that was killed leaves half a line. Without the lock somebody may be half way through one right now, so
    # the line's start is then forced; an empty line too many is skipped by readers.
    at_line_start = held and (end_bytes == 0 or os.pread(descriptor, 1, end_bytes - 1) == b"\n")
    text = line if at_line_start else b"\n" + line
    try:
        # One write: the kernel keeps it in one piece even beside a writer that could not get the lock.
        if os.write(descriptor, text) != len(text):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        if fsync:
            os.fsync(descriptor)
    except OSError:
        if held:
            with suppress(OSError):
                os.ftruncate(descriptor, end_bytes)
        raise


def _settled_size(file: BinaryIO) -> int:
    """Bytes written by appends that are over, so that no line is read while it is being written."""
    with kernel_lock(file.fileno(), shared=True):
        return os.fstat(file.fileno()).st_size


def _lines(file: BinaryIO, end_bytes: int) -> Iterator[tuple[int, bytes | None]]:
    """Numbered lines up to `end_bytes`; None stands for a line over the bound, which is never held in memory."""
    number = position = 0
    while position < end_bytes:
        number += 1
        line = file.readline(min(MAX_LINE_BYTES, end_bytes - position))
        if not line:
            return
        position += len(line)
        if line.endswith(b"\n") or position >= end_bytes:
            yield number, line
            continue
        while line and not line.endswith(b"\n"):
            line = file.readline(min(MAX_LINE_BYTES, end_bytes - position))
            position += len(line)
        yield number, None
