"""The kernel lock: excludes, gives up in time, and dies with its holder."""

from __future__ import annotations

import errno
import fcntl
import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tvm_gnn.cache.locks import kernel_lock


def test_excludes_within_a_process_and_gives_up_in_time(tmp_path: Path) -> None:
    first, second = (os.open(tmp_path, os.O_RDONLY) for _ in range(2))
    with kernel_lock(first) as held:
        start_s = time.monotonic()
        with kernel_lock(second, wait_s=0.05) as also_held:
            assert (held, also_held) == (True, False)
        assert 0.05 <= time.monotonic() - start_s < 2
    with kernel_lock(second, wait_s=0.0) as held_after:
        assert held_after
    os.close(first)
    os.close(second)


def test_shared_locks_go_together(tmp_path: Path) -> None:
    first, second = (os.open(tmp_path, os.O_RDONLY) for _ in range(2))
    with kernel_lock(first, shared=True), kernel_lock(second, wait_s=0.0, shared=True) as held:
        assert held
    os.close(first)
    os.close(second)


def test_dies_with_its_holder(tmp_path: Path, spawn: Callable[..., subprocess.Popen[str]]) -> None:
    holder = spawn(
        "import os, sys, time\n"
        "from tvm_gnn.cache.locks import kernel_lock\n"
        "with kernel_lock(os.open(sys.argv[1], os.O_RDONLY)):\n"
        "    print('held', flush=True)\n"
        "    time.sleep(60)\n",
        tmp_path,
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    mine = os.open(tmp_path, os.O_RDONLY)
    with kernel_lock(mine, wait_s=0.0) as held_beside:
        assert not held_beside
    holder.kill()
    holder.communicate()
    with kernel_lock(mine, wait_s=0.0) as held_after:
        assert held_after
    os.close(mine)


def test_a_file_system_without_locks_is_told_as_not_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", refuse)
    descriptor = os.open(tmp_path, os.O_RDONLY)
    with kernel_lock(descriptor) as held:
        assert not held
    os.close(descriptor)
