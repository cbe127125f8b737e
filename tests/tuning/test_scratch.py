"""Temporary folders of tuning runs: removed at the end, and afterwards when the run was killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tvm_gnn.errors import TuneError
from tvm_gnn.tuning import workload
from tvm_gnn.tuning.scratch import scratch_folder
from tvm_gnn.tuning.task import Task


@pytest.fixture(autouse=True)
def own_temp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


def test_removed_at_the_end_also_after_an_error(own_temp: Path) -> None:
    def fail() -> None:
        with scratch_folder() as folder:
            (folder / "x.npy").write_bytes(b"x")
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert list(own_temp.iterdir()) == []


def test_folder_of_a_killed_run_goes_and_of_a_live_one_stays(own_temp: Path) -> None:
    code = (
        "import sys, time; from tvm_gnn.tuning.scratch import scratch_folder\n"
        "with scratch_folder() as f: print(f, flush=True); time.sleep(60)"
    )
    environment = {**os.environ, "TMPDIR": str(own_temp)}
    runs = [
        subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=environment)
        for _ in range(2)
    ]
    try:
        killed, alive = (Path(run.stdout.readline().strip()) for run in runs if run.stdout)
        os.kill(runs[0].pid, signal.SIGKILL)
        runs[0].wait()
        with scratch_folder() as own:
            assert {path.name for path in own_temp.iterdir()} == {own.name, alive.name}
        assert not killed.exists()
        assert alive.exists()
    finally:
        for run in runs:
            run.kill()
            run.communicate()


@pytest.mark.parametrize("make", [lambda path: None, Path.touch])
def test_no_folder_for_temporary_files_is_told(
    own_temp: Path, monkeypatch: pytest.MonkeyPatch, make: Callable[[Path], None]
) -> None:
    make(own_temp / "temp")
    monkeypatch.setattr("tempfile.tempdir", str(own_temp / "temp"))
    with pytest.raises(TuneError, match=rf"^{own_temp}/temp: must be .*set TMPDIR"), scratch_folder():
        pass


def test_errors_of_the_run_itself_pass(own_temp: Path) -> None:
    with pytest.raises(OSError, match=r"^mine$"), scratch_folder():
        raise OSError("mine")


def test_a_disk_too_small_for_the_workload_is_told(task: Task, own_temp: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def save(file: Path, array: object) -> None:
        raise OSError("65536 requested and 36832 written")

    monkeypatch.setattr("numpy.save", save)
    with pytest.raises(TuneError, match=rf"^{own_temp}: must be .* written in part only: 65536 .*set TMPDIR"):
        workload.write(task, own_temp)
