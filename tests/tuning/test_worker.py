"""A worker process: it answers, dies with a reason, hangs no longer than allowed, and starts again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tvm_gnn.tuning.worker import Worker, WorkerDied, WorkerTimeout

SERVER = '''
"""A worker's main with requests that do harm."""
import os, subprocess, sys, time
from tvm_gnn.tuning.worker import serve

def handle(request):
    action = request["do"]
    if action == "echo":
        print("chatter of Python", flush=True)
        os.write(1, b"chatter of native code\\n")
        time.sleep(request.get("after_s", 0))
        return {"value": request["value"], "pid": os.getpid(), "argument": sys.argv[1]}
    if action == "exit":
        print("last words", file=sys.stderr, flush=True)
        os._exit(request["code"])
    if action == "signal":
        os.kill(os.getpid(), request["number"])
    if action == "hang":
        time.sleep(600)
    if action == "big":
        return {"text": "x" * request["size"]}
    raise RuntimeError("no such action")

def main():
    serve(handle)
'''
PARENT = """
import sys
from pathlib import Path
from tvm_gnn.tuning.worker import Worker
worker = Worker("serving", "a", Path(sys.argv[1]))
print(worker.request({"do": "echo", "value": 0}, 30)["pid"], flush=True)
worker.request({"do": "hang"}, 600)
"""
PATIENCE_S = 30.0


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "serving.py").write_text(SERVER)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


@pytest.fixture
def worker(server: Path) -> Iterator[Worker]:
    worker = Worker("serving", "an argument", server / "log")
    yield worker
    worker.close()


class Pipe:
    def __init__(self, write: Callable[[bytes], None]) -> None:
        self.write, self.close = write, lambda: None


def echo(worker: Worker, value: object = 1) -> dict[str, Any]:
    return worker.request({"do": "echo", "value": value}, PATIENCE_S)


def test_requests_are_answered_by_one_process(worker: Worker, server: Path) -> None:
    answers = [echo(worker, value) for value in ("a", [1, 2], None)]
    assert [answer["value"] for answer in answers] == ["a", [1, 2], None]
    assert {answer["argument"] for answer in answers} == {"an argument"}
    assert len({answer["pid"] for answer in answers}) == 1
    printed = (server / "log").read_text()
    assert printed.count("chatter of Python") == printed.count("chatter of native code") == 3


def test_answers_may_exceed_a_pipe(worker: Worker) -> None:
    answer = worker.request({"do": "big", "size": 1_000_000}, PATIENCE_S)
    assert answer["text"] == "x" * 1_000_000
    assert echo(worker)["value"] == 1


@pytest.mark.parametrize(
    ("number", "name"),
    [(signal.SIGSEGV, "SIGSEGV"), (signal.SIGABRT, "SIGABRT"), (signal.SIGKILL, "SIGKILL"), (40, "signal 40")],
)
def test_death_by_signal_is_named_and_survived(worker: Worker, number: int, name: str) -> None:
    pid = echo(worker)["pid"]
    with pytest.raises(WorkerDied, match=f"killed by {name}"):
        worker.request({"do": "signal", "number": number}, PATIENCE_S)
    answer = echo(worker, "again")
    assert answer["value"] == "again"
    assert answer["pid"] != pid


def test_exit_tells_code_and_last_line(worker: Worker) -> None:
    with pytest.raises(WorkerDied, match=r"exit code 7: last words"):
        worker.request({"do": "exit", "code": 7}, PATIENCE_S)
    with pytest.raises(WorkerDied, match=r"exit code 1: RuntimeError: no such action"):
        worker.request({"do": "nothing"}, PATIENCE_S)
    assert echo(worker)["value"] == 1


def test_a_module_that_cannot_start_is_a_death(server: Path) -> None:
    worker = Worker("serving_nowhere", "a", server / "log")
    with pytest.raises(WorkerDied, match="No module named"):
        worker.request({"do": "echo", "value": 0}, PATIENCE_S)
    worker.close()


def test_a_hang_is_killed_in_time(worker: Worker, is_running: Callable[[int], bool]) -> None:
    pid = echo(worker)["pid"]
    start = time.monotonic()
    with pytest.raises(WorkerTimeout, match=r"no answer within 0\.3 s"):
        worker.request({"do": "hang"}, 0.3)
    assert time.monotonic() - start < 10.0
    assert not is_running(pid)
    assert echo(worker, "again")["value"] == "again"


def test_an_interrupted_answer_is_not_given_to_the_next_request(worker: Worker) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    echo(worker)
    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        with pytest.raises(KeyboardInterrupt):
            worker.request({"do": "echo", "value": "old", "after_s": 1.0}, PATIENCE_S)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert echo(worker, "new")["value"] == "new"


def test_an_answer_nobody_came_for_is_not_given_to_the_next_request(worker: Worker) -> None:
    # As when an interrupt comes between the two calls.
    pid = echo(worker)["pid"]
    worker.send({"do": "echo", "value": "old"})
    answer = echo(worker, "new")
    assert answer["value"] == "new"
    assert answer["pid"] != pid


def test_a_request_interrupted_half_way_is_not_completed_by_the_next(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    echo(worker)
    assert worker._process.stdin is not None
    descriptor = worker._process.stdin.fileno()

    def write_half(data: bytes) -> None:
        os.write(descriptor, data[: len(data) // 2])
        raise KeyboardInterrupt

    monkeypatch.setattr(worker._process, "stdin", Pipe(write_half))
    with pytest.raises(KeyboardInterrupt):
        worker.send({"do": "echo", "value": "old"})
    assert echo(worker, "new")["value"] == "new"


def test_a_request_to_a_dead_process_starts_a_new_one(worker: Worker) -> None:
    pid = echo(worker)["pid"]
    os.kill(pid, signal.SIGKILL)
    worker.kill()
    assert echo(worker)["pid"] != pid


def test_close_ends_the_process(server: Path, is_running: Callable[[int], bool]) -> None:
    worker = Worker("serving", "a", server / "log")
    pid = echo(worker)["pid"]
    worker.close()
    assert not is_running(pid)


def test_dies_with_its_parent(server: Path, is_running: Callable[[int], bool], wait_until: Callable[..., Any]) -> None:
    command = [sys.executable, "-c", PARENT, str(server / "log")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        assert is_running(pid)
        parent.kill()
    wait_until(lambda: not is_running(pid), 10.0)
