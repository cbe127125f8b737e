"""The yardstick in C (handwritten_spmm.c), compiled for this machine with its own compiler at first use."""

from __future__ import annotations

import ctypes
import subprocess
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from .. import native
from ..case import Case
from ..entrant import Kernel
from ..native import c_compiler, compiled, no_c_compiler
from .address_kernel import AddressKernel, bind_address
from .contender import Contender

SOURCE = Path(__file__).with_name("handwritten_spmm.c")
FLAGS = (*native.FLAGS, "-fopenmp")
MIN_PARTS, PARTS_PER_THREAD = 16, 4


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
    if find_spec("torch") is not None:
        import torch  # noqa: F401  # brings the OpenMP runtime whose threads the kernel then shares
    return compiled(SOURCE, (*FLAGS, f"-DINDEX={index_dtype}_t"))


def _missing() -> str | None:
    return None if c_compiler() else no_c_compiler()


def _describe() -> str:
    compiler = c_compiler() or native.COMPILERS[0]
    done = subprocess.run([compiler, "-dumpfullversion", "-dumpversion"], capture_output=True, text=True, check=False)
    return f"{Path(compiler).name} {done.stdout.strip()} {' '.join(FLAGS[:2])}"


CONTENDER = Contender("handwritten", "strongest", _build, _missing, _describe, bind=bind_address)
