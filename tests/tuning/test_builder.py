"""Building candidates: equal code once, and an error, crash or hang costs that candidate only."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import xxhash

from tvm_gnn.errors import BuildError, DependencyError
from tvm_gnn.runtime.library import Library
from tvm_gnn.templates.space import Decisions
from tvm_gnn.tuning.builder import Builder, build_once
from tvm_gnn.tuning.task import Task
from tvm_gnn.tuning.worker import Worker

# A C compiler that, once it is armed, does what `{harm}` says to the process that called it, one time.
COMPILER = """#!/bin/sh
if rmdir "{armed}" 2>/dev/null; then {harm}; fi
exec cc "$@"
"""


def spec(task: Task, **changes: Any) -> dict[str, Any]:
    return task.code_spec({**task.space.default, **changes})


@pytest.fixture
def compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Installs the compiler; the folder that arms it is returned."""

    def install(harm: str) -> Path:
        script, armed = tmp_path / "mycc", tmp_path / "armed"
        script.write_text(COMPILER.format(armed=armed, harm=harm))
        script.chmod(0o755)
        monkeypatch.setenv("CC", str(script))
        return armed

    return install


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "built").mkdir()
    return tmp_path / "built"


def test_equal_code_is_built_once_and_an_error_costs_one_candidate(task: Task, folder: Path) -> None:
    # These accumulators do not fit on the stack.
    too_large: Decisions = {"lanes": 8, "vectors": 16, "unroll": 4}
    builder = Builder(task.target, folder, workers=1)
    try:
        first, again, failed, other = builder.build(
            [spec(task), spec(task, prefetch=0), spec(task, **too_large), spec(task, unroll=2)]
        )
        assert first.library is not None
        assert first.library == again.library
        built_at = first.library.stat().st_mtime_ns
        (later,) = builder.build([spec(task, parts=64, dynamic=True)])  # a launch parameter, so the same code
    finally:
        builder.close()
    assert later.library == first.library
    assert first.library.stat().st_mtime_ns == built_at
    assert other.library is not None
    assert other.library != first.library
    assert failed.library is None
    assert failed.status == "build_error"
    assert "accumulators do not fit" in (failed.error or "")
    assert not failed.missing_dependency
    assert len(list(folder.glob("*.so"))) == 2
    Library(first.library)
    Library(other.library)


def test_results_keep_the_order_of_specs_with_several_workers(task: Task, folder: Path) -> None:
    specs = [spec(task, unroll=unroll, lanes=lanes, vectors=1) for unroll in (1, 2) for lanes in (8, 4)]
    specs.insert(1, {**specs[0], "op": "nothing"})
    builder = Builder(task.target, folder, workers=2)
    try:
        results = builder.build(specs)
        alone = [builder.build([each])[0] for each in specs]
    finally:
        builder.close()
    assert [result.library is None for result in results] == [False, True, False, False, False]
    assert results == alone
    assert len({result.library for result in results}) == 5


@pytest.mark.parametrize(
    ("harm", "status", "reason"),
    [
        ("kill -SEGV $PPID; sleep 1", "crash", "SIGSEGV"),
        ("echo $$ > {pid}; exec sleep 600", "timeout", "no answer within"),
    ],
)
def test_death_of_the_worker_costs_one_candidate(
    task: Task,
    folder: Path,
    compiler: Callable[[str], Path],
    is_running: Callable[[int], bool],
    harm: str,
    status: str,
    reason: str,
) -> None:
    armed = compiler(harm.format(pid=folder / "pid"))
    builder = Builder(task.target, folder, workers=1)
    try:
        builder.build([spec(task, lanes=4, vectors=1)])  # a worker that has TVM imported answers in time
        armed.mkdir()
        (failed,) = builder.build([spec(task)], timeout_s=3.0)
        (sound,) = builder.build([spec(task, unroll=2)])
    finally:
        builder.close()
    assert failed.status == status
    assert reason in (failed.error or "")
    assert failed.library is None
    assert sound.library is not None
    if status == "timeout":
        assert not is_running(int((folder / "pid").read_text()))


@pytest.mark.parametrize("sent", [1, 2])
def test_an_interrupt_after_a_request_files_no_library_under_another_name(
    task: Task, folder: Path, monkeypatch: pytest.MonkeyPatch, sent: int
) -> None:
    requests = itertools.count(1)
    send = Worker.send

    def interrupted(worker: Worker, request: dict[str, Any]) -> None:
        send(worker, request)
        if next(requests) == sent:
            raise KeyboardInterrupt

    monkeypatch.setattr(Worker, "send", interrupted)
    specs = [spec(task, unroll=unroll) for unroll in (1, 2, 4)]
    builder = Builder(task.target, folder, workers=1)
    try:
        with pytest.raises(KeyboardInterrupt):
            builder.build(specs)
        results = builder.build(specs[::-1])
    finally:
        builder.close()
    for each, result in zip(specs[::-1], results, strict=True):
        assert result.library is not None
        assert result.library.stem == xxhash.xxh3_64_hexdigest(json.dumps(each, sort_keys=True).encode())


def test_missing_compiler_is_a_missing_dependency(
    task: Task, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(DependencyError, match="Install gcc or clang"):
        build_once(spec(task), task.target, folder)
    (tmp_path / "cc").symlink_to("/bin/true")
    builder = Builder(task.target, folder, workers=1)
    try:
        (tmp_path / "cc").unlink()
        (result,) = builder.build([spec(task)])
    finally:
        builder.close()
    assert result.missing_dependency
    assert "Install gcc or clang" in (result.error or "")


def test_failing_compiler_is_a_build_error(task: Task, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "false")
    with pytest.raises(BuildError, match=r"link: .*false ended with 1"):
        build_once(spec(task), task.target, folder)
    assert list(folder.glob("*.so")) == []
