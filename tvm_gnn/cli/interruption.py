"""Ctrl-C: the first ends the search under way and keeps what it found, the second ends everything at once."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import TYPE_CHECKING

from .exit_codes import INTERRUPTED

if TYPE_CHECKING:
    from ..tuning.budget import Budget
    from ..tuning.report import Observer, TrialEvent
    from ..tuning.task import Task

# Calls back into Python from C++, which would make an error without a name of an exception that passes through it.
_CALLS_BACK = "tvm.s_tir.meta_schedule"


@contextmanager
def handling(handle: Callable[[int, FrameType | None], object]) -> Iterator[None]:
    """Let `handle` answer Ctrl-C, unless somebody else does already or it is to be ignored."""
    if threading.current_thread() is not threading.main_thread() or (
        signal.getsignal(signal.SIGINT) is not signal.default_int_handler
    ):
        yield
        return
    signal.signal(signal.SIGINT, handle)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def leave_at_once(_signal: int, _frame: FrameType | None) -> None:
    """Exit while nothing is at stake: an exception may be swallowed half-way through an import."""
    with suppress(OSError):
        os.write(2, b"tvm-gnn: interrupted\n")
    os._exit(INTERRUPTED)


class Interruption:
    """Ctrl-C during one or several tuning runs; an observer that hears of their progress and hands it on.

    Attributes
    ----------
    asked : bool
        Whether it was pressed. Nothing further is to be begun then.
    """

    def __init__(self) -> None:
        self.asked = False
        self._finishing = False
        self._observer: Observer | None = None

    def watch(self, observer: Observer) -> Observer:
        """The observer to give to the next run; it tells `observer`."""
        self._observer, self._finishing = observer, False
        return self

    def handle(self, _signal: int, frame: FrameType | None) -> None:
        """See `handling`."""
        first, self.asked = not self.asked, True
        if first and (self._finishing or _is_called_back(frame)):
            return  # the run is over in a moment, or `trial` ends it
        raise KeyboardInterrupt

    def started(self, task: Task, budget: Budget, reused: int) -> None:
        """See `Observer`."""
        if self._observer is not None:
            self._observer.started(task, budget, reused)

    def trial(self, event: TrialEvent) -> None:
        """See `Observer`."""
        if self.asked:
            raise KeyboardInterrupt  # the first was put off, or native code swallowed it
        if self._observer is not None:
            self._observer.trial(event)

    def comparing(self, candidates: int) -> None:
        """See `Observer`."""
        self._finishing = True
        if self._observer is not None:
            self._observer.comparing(candidates)


@contextmanager
def interruptible() -> Iterator[Interruption]:
    """An `Interruption` that answers Ctrl-C meanwhile."""
    interruption = Interruption()
    with handling(interruption.handle):
        yield interruption


def _is_called_back(frame: FrameType | None) -> bool:
    while frame is not None:
        if str(frame.f_globals.get("__name__")).startswith(_CALLS_BACK):
            return True
        frame = frame.f_back
    return False
