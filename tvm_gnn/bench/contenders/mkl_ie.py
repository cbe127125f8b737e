"""MKL's inspector-executor product: the matrix is analysed once (`mkl_sparse_optimize`), then multiplied many times.

mean is the product with A whose values were divided by the in-degree once; copy_u is the product with ones, made once.
"""

from __future__ import annotations

import ctypes
import weakref
from typing import Any

import numpy as np
import numpy.typing as npt

from ...errors import BuildError, InputError
from ..case import Case
from ..entrant import Kernel
from . import mkl_library
from .address_kernel import AddressKernel, bind_address
from .contender import Contender

# Values of mkl_spblas.h.
ZERO_BASED, NOT_TRANSPOSED, GENERAL, ROW_MAJOR = 0, 10, 20, 101
EXPECTED_CALLS = 1000


class _Description(ctypes.Structure):
    """`matrix_descr`; fill mode and diagonal say nothing for a general matrix."""

    _fields_ = (("type", ctypes.c_int), ("mode", ctypes.c_int), ("diag", ctypes.c_int))


def _build(case: Case, threads: int) -> Kernel:
    mkl = mkl_library.load()
    mkl.MKL_Set_Num_Threads(threads)
    if case.graph.num_edges == 0:  # MKL refuses a matrix without values
        return AddressKernel(case, lambda x_address, out_address: None)
    handle, arrays = _create(mkl, case)
    general = _Description(GENERAL, 0, 0)
    feat = case.width
    status = mkl.mkl_sparse_set_mm_hint(handle, NOT_TRANSPOSED, general, ROW_MAJOR, feat, EXPECTED_CALLS)
    _done("mkl_sparse_set_mm_hint", status)
    _done("mkl_sparse_optimize", mkl.mkl_sparse_optimize(handle))
    multiply = mkl.mkl_sparse_s_mm
    one, zero, width = ctypes.c_float(1), ctypes.c_float(0), ctypes.c_int(feat)

    def launch(x_address: int, out_address: int) -> None:
        x, out = ctypes.c_void_p(x_address), ctypes.c_void_p(out_address)
        status = multiply(NOT_TRANSPOSED, one, handle, general, ROW_MAJOR, x, width, width, zero, out, width)
        if status:
            _done("mkl_sparse_s_mm", status)

    kernel = AddressKernel(case, launch)
    # MKL may keep reading our arrays, so they live until the handle is destroyed.
    weakref.finalize(kernel, _destroy, mkl, handle, arrays)
    return kernel


def _create(mkl: ctypes.CDLL, case: Case) -> tuple[ctypes.c_void_p, tuple[npt.NDArray[Any], ...]]:
    graph = case.graph
    if graph.indptr.dtype != np.int32:
        raise InputError(f"graph: MKL is called with 32-bit indices (got a graph that needs {graph.indptr.dtype}).")
    indptr, indices, values = graph.indptr, graph.indices, case.matrix_values
    handle = ctypes.c_void_p()
    status = mkl.mkl_sparse_s_create_csr(
        ctypes.byref(handle),
        ZERO_BASED,
        graph.num_dst,
        graph.num_src,
        ctypes.c_void_p(indptr.ctypes.data),
        ctypes.c_void_p(indptr.ctypes.data + indptr.itemsize),
        ctypes.c_void_p(indices.ctypes.data),
        ctypes.c_void_p(values.ctypes.data),
    )
    _done("mkl_sparse_s_create_csr", status)
    return handle, (indptr, indices, values)


def _destroy(mkl: ctypes.CDLL, handle: ctypes.c_void_p, arrays: tuple[npt.NDArray[Any], ...]) -> None:
    mkl.mkl_sparse_destroy(handle)


def _done(function: str, status: int) -> None:
    if status != 0:
        raise BuildError(f"{function}: must return 0 (got status {status}).")


def _describe() -> str:
    return f"MKL {mkl_library.version()}, {mkl_library.code_path()}"


CONTENDER = Contender("mkl_ie", "strongest", _build, mkl_library.missing, _describe, bind=bind_address)
