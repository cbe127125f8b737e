"""Child processes import what their parent does, never what lies in the folder they happen to start in."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import tvm_gnn
from tvm_gnn.toolchain.child import python_command

SHADOWS = ("json", "numpy", "random", "select", "tvm", "tvm_gnn", "typing", "xxhash")
REPORT = """
import json, numpy, orjson, random, select, typing, xxhash
import tvm_gnn.cache
print(json.dumps([tvm_gnn.__file__, sys.argv[1:], sys.path]))
"""
PARENT = (
    "import os, sys; from tvm_gnn.toolchain.child import python_command; "
    "os.execv(sys.executable, python_command(sys.argv[1], 'an argument'))"
)


@pytest.fixture
def hostile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, full of modules that must not be run."""
    folder = tmp_path / "hostile"
    folder.mkdir()
    for name in SHADOWS:
        (folder / f"{name}.py").write_text("raise SystemExit('shadowed')")
    monkeypatch.chdir(folder)
    return folder


def report(command: list[str]) -> tuple[str, list[str], list[str]]:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    file, arguments, path = json.loads(done.stdout)
    return file, arguments, path


@pytest.mark.parametrize("entry", ["", "."])
def test_the_current_folder_is_not_on_the_path(hostile: Path, monkeypatch: pytest.MonkeyPatch, entry: str) -> None:
    monkeypatch.syspath_prepend(entry)
    file, arguments, path = report(python_command(REPORT, "an argument"))
    assert (file, arguments) == (tvm_gnn.__file__, ["an argument"])
    assert not {"", ".", str(hostile)}.intersection(path)


def test_a_current_folder_that_is_on_the_path_by_name_comes_last(
    hostile: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(hostile))
    file, _, path = report(python_command(REPORT))
    assert file == tvm_gnn.__file__
    assert path[-1] == str(hostile)


def test_the_package_is_the_running_one(tmp_path: Path, run_python: Callable[..., str]) -> None:
    # Another tvm_gnn comes first on the path of a process that has imported this one.
    (tmp_path / "tvm_gnn").mkdir()
    (tmp_path / "tvm_gnn" / "__init__.py").write_text("raise SystemExit('another version')")
    code = f"import tvm_gnn, sys; sys.path.insert(0, {str(tmp_path)!r}); {PARENT}"
    assert json.loads(run_python(code, REPORT))[:2] == [tvm_gnn.__file__, ["an argument"]]


def test_a_removed_current_folder_does_no_harm(tmp_path: Path, run_python: Callable[..., str]) -> None:
    code = f"import os, tempfile; folder = tempfile.mkdtemp(); os.chdir(folder); os.rmdir(folder); {PARENT}"
    assert json.loads(run_python(code, "import json; print(json.dumps(sys.argv))"))[1:] == ["an argument"]
