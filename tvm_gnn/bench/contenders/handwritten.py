"""The yardstick in C (handwritten_spmm.c), compiled for this machine with its own compiler at first use."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import tempfile
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from ...errors import BuildError, DependencyError
from ..case import Case
from ..entrant import Kernel
from .address_kernel import AddressKernel, bind_address
from .contender import Contender

SOURCE = Path(__file__).with_name("handwritten_spmm.c")
COMPILERS = ("cc", "gcc", "clang")
FLAGS = ("-O3", "-march=native", "-std=gnu11", "-fopenmp", "-shared", "-fPIC")
MIN_PARTS, PARTS_PER_THREAD = 16, 4
COMPILE_TIMEOUT_S = 60


def _build(case: Case, threads: int) -> Kernel:
    graph = case.graph
    function = _library(graph.indptr.dtype.name).handwritten_spmm
    function.restype = None
    parts = max(MIN_PARTS, PARTS_PER_THREAD * threads)
    bounds = np.asarray(graph.row_partition(parts), graph.indptr.dtype)
    weights = case.w if case.spmm.uses_edge else None
    structure = (
        ctypes.c_void_p(graph.indptr.ctypes.data),
        ctypes.c_void_p(graph.indices.ctypes.data),
        ctypes.c_void_p(None if weights is None else weights.ctypes.data),
        ctypes.c_void_p(bounds.ctypes.data),
        ctypes.c_int64(parts),
        ctypes.c_int64(graph.num_edges),
        ctypes.c_int64(case.width),
        ctypes.c_int(case.spmm.reduce_op.divides_by_degree),
        ctypes.c_int(threads),
    )

    # `arrays` keeps alive what the addresses point to.
    def launch(x_address: int, out_address: int, arrays: object = (graph, weights, bounds)) -> None:
        function(*structure, ctypes.c_void_p(x_address), ctypes.c_void_p(out_address))

    return AddressKernel(case, launch)


@cache
def _library(index_dtype: str) -> ctypes.CDLL:
    """Compile and load; nothing stays on disk, for a loaded library needs its file no more."""
    compiler = _compiler()
    if compiler is None:
        raise DependencyError(f"handwritten: needs a C compiler (got none of {', '.join(COMPILERS)}). Install one.")
    if find_spec("torch") is not None:
        import torch  # noqa: F401  # brings the OpenMP runtime whose threads the kernel then shares
    with tempfile.TemporaryDirectory(prefix="tvm_gnn_bench_") as folder:
        target = Path(folder) / "handwritten_spmm.so"
        command = [compiler, *FLAGS, f"-DINDEX={index_dtype}_t", "-o", str(target), str(SOURCE)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=COMPILE_TIMEOUT_S, check=False)
        except subprocess.TimeoutExpired as error:
            raise BuildError(f"{SOURCE.name}: must compile within {COMPILE_TIMEOUT_S} s (got no end).") from error
        if done.returncode != 0:
            raise BuildError(f"{SOURCE.name}: must compile (got exit {done.returncode} of {compiler}).\n{done.stderr}")
        return ctypes.CDLL(str(target))


def _compiler() -> str | None:
    return next((path for path in map(shutil.which, COMPILERS) if path), None)


def _missing() -> str | None:
    return None if _compiler() else f"no C compiler on the path ({', '.join(COMPILERS)})"


def _describe() -> str:
    compiler = _compiler() or COMPILERS[0]
    done = subprocess.run([compiler, "-dumpfullversion", "-dumpversion"], capture_output=True, text=True, check=False)
    return f"{Path(compiler).name} {done.stdout.strip()} {' '.join(FLAGS[:2])}"


CONTENDER = Contender("handwritten", "strongest", _build, _missing, _describe, bind=bind_address)
