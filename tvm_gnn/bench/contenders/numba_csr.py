"""CSR product written with numba: parts of equal work in parallel, the feature loop vectorised by LLVM."""

from __future__ import annotations

from functools import cache
from importlib import import_module, metadata
from typing import Any

import numpy as np

from ..aligned import aligned_zeros
from ..case import Case
from ..entrant import Kernel
from .contender import Contender, needs

PARTS_PER_THREAD = 8


def _build(case: Case, threads: int) -> Kernel:
    numba = import_module("numba")
    numba.set_num_threads(min(threads, numba.config.NUMBA_NUM_THREADS))
    graph = case.graph
    multiply = _compiled()
    bounds = np.asarray(graph.row_partition(PARTS_PER_THREAD * threads))
    weights = case.w if case.spmm.uses_edge else None
    mean = case.spmm.reduce_op.divides_by_degree
    out = aligned_zeros((graph.num_dst, case.width))

    def kernel(x: Any) -> Any:
        multiply(graph.indptr, graph.indices, weights, bounds, mean, x, out)
        return out

    kernel(case.x)  # compiles for these types
    return kernel


@cache
def _compiled() -> Any:
    numba = import_module("numba")
    prange = numba.prange

    @numba.njit(parallel=True, fastmath=True, nogil=True)  # type: ignore[untyped-decorator,unused-ignore]
    def multiply(indptr: Any, indices: Any, weights: Any, bounds: Any, mean: Any, x: Any, out: Any) -> None:
        for part in prange(bounds.size - 1):
            for row in range(bounds[part], bounds[part + 1]):
                y = out[row]
                y[:] = 0
                begin, end = indptr[row], indptr[row + 1]
                for e in range(begin, end):
                    source = x[indices[e]]
                    # numba drops the branch that the type of `weights` rules out.
                    if weights is None:
                        for f in range(y.size):
                            y[f] += source[f]
                    else:
                        weight = weights[e]
                        for f in range(y.size):
                            y[f] += weight * source[f]
                if mean and end > begin:
                    scale = np.float32(1) / np.float32(end - begin)
                    for f in range(y.size):
                        y[f] *= scale

    return multiply


def _describe() -> str:
    return f"numba {metadata.version('numba')}, {import_module('numba').threading_layer()} threads"


CONTENDER = Contender("numba", "strongest", _build, needs("numba"), _describe)
