"""The launcher hands every task out once, to no more threads than asked for, and passes errors on."""

from __future__ import annotations

import ctypes
import threading
from pathlib import Path
from typing import Any

import pytest

from tvm_gnn.runtime import pool
from tvm_gnn.toolchain.importing import import_tvm
from tvm_gnn.toolchain.launcher import CALL, IR, OMP_PARALLEL, TVM_PARALLEL
from tvm_gnn.toolchain.link import link

# Stands in for a compiled kernel: launches `visit`, which reports every task it is given.
KERNEL = r"""
@__TVMBackendParallelLaunch = global ptr null
@visitor = global ptr null
define i32 @visit(i32 %task, ptr %env, ptr %data) {
  %count_at = getelementptr { ptr, i32 }, ptr %env, i32 0, i32 1
  %count = load i32, ptr %count_at
  %callback = load ptr, ptr @visitor
  %code = call i32 %callback(i32 %task, i32 %count)
  ret i32 %code
}
define i32 @__tvm_ffi_main(ptr %self, ptr %args, i32 %num_args, ptr %result) {
  %launch = load ptr, ptr @__TVMBackendParallelLaunch
  %code = call i32 %launch(ptr @visit, ptr null, i32 0)
  ret i32 %code
}
"""
VISITOR = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int32, ctypes.c_int32)


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    folder: Path = tmp_path_factory.mktemp("launcher")
    tvm = import_tvm()
    triple = tvm.target.codegen.llvm_get_system_triple()
    objects = []
    for name, text in (("launcher", IR), ("kernel", KERNEL)):
        source = folder / f"{name}.ll"
        source.write_text(f'target triple = "{triple}"\n{text}')
        objects.append(folder / f"{name}.o")
        tvm.runtime.load_module(str(source)).write_to_file(str(objects[-1]), "o")
    link(objects, folder / "library.so")
    return ctypes.CDLL(str(folder / "library.so"))


def run(library: ctypes.CDLL, tasks: int, threads: int, code: int = 0) -> tuple[int, list[tuple[int, int, int]]]:
    """The launcher's answer and (task, count, thread) of every visit."""
    visits: list[tuple[int, int, int]] = []

    def visit(task: int, count: int) -> int:
        visits.append((task, count, threading.get_ident()))
        return code if task == tasks - 1 else 0

    callback = VISITOR(visit)
    ctypes.c_void_p.in_dll(library, "visitor").value = ctypes.cast(callback, ctypes.c_void_p).value
    call: Any = getattr(library, CALL)
    return call(None, 0, None, tasks, threads), visits


def use(library: ctypes.CDLL, name: str) -> None:
    """Let the library run on that pool: ``openmp``, ``tvm`` or ``none``."""
    openmp = pool.omp_parallel_address() if name == "openmp" else 0
    tvm = pool._tvm_runtime() if name == "tvm" else None
    if (name == "openmp" and not openmp) or (name == "tvm" and tvm is None):
        pytest.skip(f"needs the {name} runtime")
    tvm_address = ctypes.cast(tvm.TVMBackendParallelLaunch, ctypes.c_void_p).value if tvm is not None else None
    ctypes.c_void_p.in_dll(library, OMP_PARALLEL).value = openmp or None
    ctypes.c_void_p.in_dll(library, TVM_PARALLEL).value = tvm_address


@pytest.mark.parametrize("pool_name", ["openmp", "tvm", "none"])
@pytest.mark.parametrize(("tasks", "threads"), [(1, 1), (1, 4), (4, 1), (2, 2), (64, 2), (3, 8), (0, 2)])
def test_every_task_once_on_at_most_so_many_threads(
    library: ctypes.CDLL, tasks: int, threads: int, pool_name: str
) -> None:
    use(library, pool_name)
    code, visits = run(library, tasks, threads)
    assert code == 0
    assert sorted(task for task, _, _ in visits) == list(range(tasks))
    assert all(count == tasks for _, count, _ in visits)
    assert len({thread for _, _, thread in visits}) <= (1 if pool_name == "none" else threads)


@pytest.mark.parametrize("pool_name", ["openmp", "tvm", "none"])
@pytest.mark.parametrize("threads", [1, 2])
def test_a_failing_task_is_reported_and_the_next_call_is_clean(
    library: ctypes.CDLL, threads: int, pool_name: str
) -> None:
    use(library, pool_name)
    code, visits = run(library, 8, threads, code=-1)
    assert code == -1
    assert len(visits) == 8
    assert run(library, 8, threads)[0] == 0
