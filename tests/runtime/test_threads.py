"""Kernels beside other threads and processes: concurrent calls, fork, torch's setting and its pool, import order."""

from __future__ import annotations

import os
import threading
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tvm_gnn.runtime import pool
from tvm_gnn.testing.odd_graphs import ODD_GRAPHS

GRAPH = ODD_GRAPHS["long_row"]()
X = np.random.default_rng(0).standard_normal((GRAPH.num_src, 33)).astype(np.float32)

# Loads two kernels on a graph and checks them on two threads; `torch` is imported where the arguments say.
RUN = """
import sys
order = sys.argv[1]
if order == "torch first":
    import torch
if order == "tvm first":
    from tvm_gnn.toolchain.importing import import_tvm
    import_tvm()
import numpy as np
from pathlib import Path
from tvm_gnn.graph import Graph
from tvm_gnn.runtime import pool
from tvm_gnn.runtime.kernel import BoundLibrary, Kernel, Provenance
from tvm_gnn.runtime.library import Library
from tvm_gnn.templates.spmm_csr import ARGUMENTS
from tvm_gnn.testing.operands import problem
threads = int(sys.argv[3]) if len(sys.argv) > 3 else 2
rng = np.random.default_rng(0)
graph = Graph.from_coo(rng.integers(0, 200, 4000), rng.integers(0, 200, 4000), num_src=200, num_dst=200)
x = rng.integers(-5, 5, (200, 16)).astype(np.float32)
dense = np.zeros((200, 200))
np.add.at(dense, (np.repeat(np.arange(200), graph.in_degrees), graph.indices), 1)
def kernel():
    launch = {"parts": 16, "tasks": 16, "slices": 1, "prefetch_distance": 0}
    bound = BoundLibrary(Library(Path(sys.argv[2])), ARGUMENTS, launch)
    return Kernel(graph, problem("copy_u_sum", 16), bound, threads, Provenance("default"))
before = kernel()
for _ in range(20):
    assert (before(x) == dense @ x).all()
"""


@pytest.fixture
def library_path(libraries: Any, make_kernel: Any) -> str:
    """A copy_u_sum library of width 16."""
    kernel = make_kernel(GRAPH, "copy_u_sum", 16)
    return str(kernel._bound.library.path)


RUNTIMES = """
runtimes = {line.split()[-1] for line in open("/proc/self/maps") if any(n in line for n in ("gomp", "libomp", "iomp"))}
"""


def test_eight_python_threads_share_a_kernel(make_kernel: Any) -> None:
    kernel = make_kernel(GRAPH, "copy_u_sum", 33)
    inputs = [X * (i + 1) for i in range(8)]
    expected = [kernel(x).tobytes() for x in inputs]
    wrong: list[int] = []
    start = threading.Barrier(8)

    def call(i: int) -> None:
        start.wait()
        if any(kernel(inputs[i]).tobytes() != expected[i] for _ in range(100)):
            wrong.append(i)

    threads = [threading.Thread(target=call, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert not any(thread.is_alive() for thread in threads)
    assert not wrong


def test_two_kernels_with_other_thread_counts_do_not_disturb_each_other(make_kernel: Any) -> None:
    serial, shared = (make_kernel(GRAPH, "copy_u_sum", 33, threads=threads) for threads in (1, 4))
    expected = serial(X).tobytes()
    results: list[bool] = []

    def call(kernel: Any) -> None:
        results.append(all(kernel(X).tobytes() == expected for _ in range(100)))

    threads = [threading.Thread(target=call, args=(kernel,)) for kernel in (serial, shared) * 2]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert results == [True] * 4


def in_child(action: Any, timeout_s: float = 30) -> bytes:
    """What `action` returns in a forked child, which is killed when it hangs."""
    import select

    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(write, action())
        finally:
            os._exit(0)
    os.close(write)
    try:
        ready, _, _ = select.select([read], [], [], timeout_s)
        answer = os.read(read, 1 << 16) if ready else b""
        if not ready:
            os.kill(child, 9)
        return answer
    finally:
        os.waitpid(child, 0)
        os.close(read)


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_forked_child_runs_serially_and_right(make_kernel: Any) -> None:
    kernel = make_kernel(GRAPH, "copy_u_sum", 33)
    expected = kernel(X).tobytes()  # the parent's pool has threads now, which the child lacks

    def child() -> bytes:
        right = all(kernel(X).tobytes() == expected for _ in range(20))
        return f"{right} {pool.omp_parallel_address()} {pool.runtime_name()}".encode()

    assert in_child(child).decode() == "True 0 none (serial)"
    assert kernel(X).tobytes() == expected
    assert pool.runtime_name() != "none (serial)" or pool.omp_parallel_address() == 0


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_library_loaded_in_a_forked_child_runs_there(make_kernel: Any) -> None:
    kernel = make_kernel(GRAPH, "copy_u_sum", 33)
    expected = kernel(X).tobytes()

    def child() -> bytes:
        from tvm_gnn.runtime.kernel import Kernel
        from tvm_gnn.runtime.library import Library

        bound = replace(kernel._bound, library=Library(kernel._bound.library.path))
        again = Kernel(GRAPH, kernel.problem, bound, 2, kernel.provenance)
        return str(again(X).tobytes() == expected).encode()

    assert in_child(child) == b"True"


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_multiprocessing_pool_by_fork(make_kernel: Any) -> None:
    import multiprocessing

    kernel = make_kernel(GRAPH, "copy_u_sum", 33)
    expected = kernel(X).tobytes()
    context = multiprocessing.get_context("fork")
    queue = context.SimpleQueue()

    def work() -> None:
        queue.put(kernel(X).tobytes() == expected)

    children = [context.Process(target=work) for _ in range(3)]
    for child in children:
        child.start()
    for child in children:
        child.join(timeout=30)
    hung = [child for child in children if child.is_alive()]
    for child in hung:
        child.kill()
    assert not hung
    assert [queue.get() for _ in children] == [True] * 3


@pytest.mark.torch
def test_torchs_thread_setting_is_respected(make_kernel: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch", reason="needs torch")
    from tvm_gnn.runtime.kernel import KernelFrame

    used: list[int] = []
    run = KernelFrame.run

    def watched(frame: KernelFrame, addresses: list[int], threads: int) -> None:
        used.append(threads)
        run(frame, addresses, threads)

    monkeypatch.setattr(KernelFrame, "run", watched)
    kernel = make_kernel(GRAPH, "copy_u_sum", 33, threads=2)
    before = torch.get_num_threads()
    try:
        for setting in (1, 2, 3):
            torch.set_num_threads(setting)
            assert pool.host_threads() == setting
            kernel(X)
    finally:
        torch.set_num_threads(before)
    assert used == [1, 2, 2]


@pytest.mark.torch
def test_the_pool_is_the_one_of_torch(run_python: Any, library_path: str) -> None:
    pytest.importorskip("torch", reason="needs torch")
    for order in ("torch first", "torch later"):
        found = run_python(
            RUN
            + "import torch\n(torch.ones(300, 300) @ torch.ones(300, 300)).sum()\n"
            + "assert (before(x) == dense @ x).all() and (kernel()(x) == dense @ x).all()\n"
            + "y = before(torch.from_numpy(x))\nassert (y.numpy() == dense @ x).all()\n"
            + RUNTIMES
            + "print(len([r for r in runtimes if 'gomp' in r]), 'torch' in pool._runtime()._name)",
            order,
            library_path,
        )
        assert found.split() == ["1", "True"], order


@pytest.mark.parametrize("order", ["alone", "tvm first"])
def test_without_torch_in_the_process(run_python: Any, library_path: str, order: str) -> None:
    run_python(RUN + "assert 'torch' not in sys.modules\n", order, library_path)


def test_tvm_imported_after_a_kernel_ran(run_python: Any, library_path: str) -> None:
    code = "from tvm_gnn.toolchain.importing import import_tvm\nimport_tvm()\n"
    run_python(
        RUN + code + "assert (before(x) == dense @ x).all() and (kernel()(x) == dense @ x).all()\n", "", library_path
    )


def test_without_openmp_the_pool_is_tvms(run_python: Any, library_path: str) -> None:
    hidden = "from tvm_gnn.runtime import pool\npool._runtime = lambda: None\n"
    code = (
        "import threading, os\n"
        "assert pool.runtime_name() == 'libtvm_runtime.so', pool.runtime_name()\n"
        "wrong = []\n"
        "def call():\n"
        "    wrong.extend(1 for _ in range(50) if not (before(x) == dense @ x).all())\n"
        "threads = [threading.Thread(target=call) for _ in range(4)]\n"
        "[thread.start() for thread in threads]\n"
        "[thread.join() for thread in threads]\n"
        "assert not wrong\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    os._exit(0 if (before(x) == dense @ x).all() and pool.runtime_name() == 'none (serial)' else 1)\n"
        "assert os.waitpid(child, 0)[1] == 0\n"
    )
    run_python(hidden + RUN + code, "alone", library_path)


def test_both_threads_take_part(make_kernel: Any, run_python: Any, library_path: str) -> None:
    """Static shares of a long kernel on two threads burn processor time in a second thread; one thread does not."""
    if len(os.sched_getaffinity(0)) < 2 or pool.omp_parallel_address() == 0:
        pytest.skip("needs two CPUs and an OpenMP runtime")
    code = RUN + "import os\n" + "count = lambda: len(os.listdir('/proc/self/task'))\n" + "print(count())\n"
    shared = int(run_python(code, "alone", library_path, 2))
    serial = int(run_python(code, "alone", library_path, 1))
    assert serial < shared
