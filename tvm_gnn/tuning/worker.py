"""A persistent child process that answers JSON requests, one at a time, and may be killed at any moment."""

from __future__ import annotations

import ctypes
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from ..errors import TvmGnnError
from ..toolchain.child import python_command

_PR_SET_PDEATHSIG = 1


class WorkerDied(TvmGnnError):
    """The process ended instead of answering; the text says how."""


class WorkerTimeout(TvmGnnError):
    """No answer came in time; the process was killed."""


class Worker:
    """One child process running the ``main`` of a module; started at once, restarted after it died.

    Parameters
    ----------
    module : str
        A module whose ``main`` calls `serve`.
    argument : str
        Its ``sys.argv[1]``.
    log : Path
        Receives what the process prints.
    """

    def __init__(self, module: str, argument: str, log: Path) -> None:
        self._command = python_command(f"import importlib; importlib.import_module({module!r}).main()", argument)
        self._log = log
        self._process = self._start()
        self._buffer = b""
        self._owes_answer = False

    def send(self, request: dict[str, Any]) -> None:
        """Hand over a request; `receive` gets its answer, and never that to an earlier one.

        An interrupt may come between any two steps of a request. Its answer would be taken for that to the next one,
        so a process that still owes an answer is not asked again but replaced.
        """
        if self._owes_answer or self._process.poll() is not None:
            self.close()
            self._buffer = b""
            self._process = self._start()
        self._owes_answer = True
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            pass  # `receive` reports the death

    def receive(self, timeout_s: float) -> dict[str, Any]:
        """The answer to the last request.

        Raises
        ------
        WorkerDied, WorkerTimeout
        """
        try:
            answer = self._receive(timeout_s)
        except KeyboardInterrupt:
            self.kill()  # nobody waits for its answer any more
            raise
        self._owes_answer = False
        return answer

    def _receive(self, timeout_s: float) -> dict[str, Any]:
        deadline = time.monotonic() + timeout_s
        assert self._process.stdout is not None
        descriptor = self._process.stdout.fileno()
        while b"\n" not in self._buffer:
            ready, _, _ = select.select([descriptor], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                self.kill()
                raise WorkerTimeout(f"no answer within {timeout_s:.1f} s")
            chunk = os.read(descriptor, 1 << 16)
            if not chunk:
                raise WorkerDied(self._how_it_died())
            self._buffer += chunk
        line, _, self._buffer = self._buffer.partition(b"\n")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def request(self, request: dict[str, Any], timeout_s: float) -> dict[str, Any]:
        """`send` and `receive`."""
        self.send(request)
        return self.receive(timeout_s)

    def kill(self) -> None:
        """End the process now, and what it has started."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def close(self) -> None:
        """End the process and free its pipes."""
        self.kill()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with suppress(BrokenPipeError):  # of a request that was not flushed
                    pipe.close()

    def _start(self) -> subprocess.Popen[bytes]:
        with self._log.open("ab") as log:
            return subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,  # Ctrl-C is for the parent to handle
            )

    def _how_it_died(self) -> str:
        code = self._process.wait()
        if code < 0:
            named = {int(each): each.name for each in signal.Signals}
            return f"killed by {named.get(-code, f'signal {-code}')}"
        last = self._log.read_text(errors="replace").strip().splitlines()[-1:] or ["no message"]
        return f"ended with exit code {code}: {last[0][:300]}"


def serve(handle: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """Answer requests from standard input until it closes; for a worker's ``main``.

    Whatever the handler or native code prints goes to standard error. The process dies with its parent.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    answers = os.dup(1)
    os.dup2(2, 1)
    for line in sys.stdin.buffer:
        answer = handle(json.loads(line))
        os.write(answers, json.dumps(answer).encode() + b"\n")
