"""A kernel lock (`flock`) on an open file or folder: waits for a bounded time and dies with its holder."""

from __future__ import annotations

import fcntl
import time
from collections.abc import Iterator
from contextlib import contextmanager

WAIT_S = 10.0


@contextmanager
def kernel_lock(descriptor: int, wait_s: float = WAIT_S, *, shared: bool = False) -> Iterator[bool]:
    """Hold the lock of an open file or folder and yield whether it is held.

    False means that a holder did not let go within `wait_s` seconds, or that the file system has no such locks; the
    caller then goes on in a way that is safe without one. Two descriptors exclude each other within a process too.
    """
    held = _acquire(descriptor, fcntl.LOCK_SH if shared else fcntl.LOCK_EX, wait_s)
    try:
        yield held
    finally:
        # Closing the descriptor would not do: a forked child may hold a copy of it.
        if held:
            fcntl.flock(descriptor, fcntl.LOCK_UN)


def _acquire(descriptor: int, kind: int, wait_s: float) -> bool:
    deadline_s = time.monotonic() + wait_s
    pause_s = 0.0005
    while True:
        try:
            fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if time.monotonic() >= deadline_s:
                return False
        except OSError:
            # Some network file systems have no flock, or none on folders.
            return False
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, 0.02)
