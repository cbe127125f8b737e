"""SuiteSparse:GraphBLAS: mxm over (plus, times) of the sparse matrix and the features as a full matrix.

Parallel edges are added up once, since a GraphBLAS matrix holds one value per place; mean is the product with A whose
values were divided by the in-degree once; copy_u is the product with ones, made once. GraphBLAS owns its matrices:
features known in advance are taken in once, those that change (in a layer) are copied in on every call.
"""

from __future__ import annotations

from importlib import import_module, metadata
from typing import Any

import numpy as np

from ..case import Case
from ..entrant import Kernel, Run
from .contender import Contender, needs
from .scipy_csr import csr_matrix


class _Product:
    """A @ x with x as a numpy array, or taken in beforehand."""

    def __init__(self, case: Case) -> None:
        self._blas = import_module("graphblas")
        matrix = csr_matrix(case).copy()  # the graph's own arrays are shared and stay as they are
        matrix.sum_duplicates()
        self._matrix = self._blas.Matrix.ss.import_csr(
            nrows=case.graph.num_dst,
            ncols=case.graph.num_src,
            indptr=matrix.indptr.astype(np.uint64),
            col_indices=matrix.indices.astype(np.uint64),
            values=matrix.data,
            sorted_cols=True,
        )
        self._out_shape = (case.graph.num_dst, case.width)

    def __call__(self, x: Any) -> Any:
        return self._multiply(self._full(x))

    def bind(self, x: Any) -> Run:
        taken_in = self._full(x)
        return lambda: self._multiply(taken_in)

    def _full(self, x: Any) -> Any:
        return self._blas.Matrix.ss.import_fullr(values=x, take_ownership=False)

    def _multiply(self, x: Any) -> Any:
        # Adding onto a full matrix keeps the result full: rows without an edge stay 0 instead of becoming absent.
        out = self._blas.Matrix.ss.import_fullr(values=np.zeros(self._out_shape, np.float32), take_ownership=True)
        out(self._blas.binary.plus) << self._blas.semiring.plus_times(self._matrix @ x)
        return out.ss.export("fullr", raw=False, give_ownership=True)["values"]


def _build(case: Case, threads: int) -> Kernel:
    import_module("graphblas").ss.config["nthreads"] = threads
    return _Product(case)


def _bind(kernel: Any, x: Any) -> Run:
    run: Run = kernel.bind(x)
    return run


def _describe() -> str:
    version = ".".join(str(part) for part in import_module("graphblas").ss.about["library_version"])
    return f"SuiteSparse:GraphBLAS {version}, python-graphblas {metadata.version('python-graphblas')}"


CONTENDER = Contender("graphblas", "strongest", _build, needs("graphblas", "scipy"), _describe, bind=_bind)
