"""torch without its CSR product: sparse.mm with a reduce, and gather followed by index_add."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..case import Case
from ..entrant import Kernel
from .contender import REDUCED_OPS, Contender, needs
from .torch_csr import csr_tensor
from .torch_version import describe_torch


def _reduce(case: Case, threads: int) -> Kernel:
    """torch.sparse.mm(A, x, reduce): the native mean, max and min, and a sum that bypasses MKL."""
    import torch

    torch.set_num_threads(threads)
    values = case.w if case.spmm.uses_edge else np.ones(case.graph.num_edges, np.float32)
    matrix = csr_tensor(case, values, "int64")
    reduce = {"max": "amax", "min": "amin"}.get(case.spmm.reduce, case.spmm.reduce)
    return lambda x: torch.sparse.mm(matrix, x, reduce)


def _index_add(case: Case, threads: int) -> Kernel:
    """Messages of all edges, shape (num_edges, F), added up by destination: the formulation of layers without CSR."""
    import torch

    torch.set_num_threads(threads)
    degrees = np.diff(case.graph.indptr)
    src = torch.tensor(case.graph.indices, dtype=torch.int64)
    dst = torch.tensor(np.repeat(np.arange(case.graph.num_dst), degrees), dtype=torch.int64)
    weights = torch.from_numpy(case.w).unsqueeze(1) if case.spmm.uses_edge else None
    divisor = None
    if case.spmm.reduce_op.divides_by_degree:
        divisor = torch.from_numpy(np.maximum(degrees, 1).astype(np.float32)).unsqueeze(1)

    def kernel(x: Any) -> Any:
        messages = x.index_select(0, src)
        if weights is not None:
            messages *= weights
        y = x.new_zeros(case.graph.num_dst, case.width).index_add_(0, dst, messages)
        return y if divisor is None else y.div_(divisor)

    return kernel


CONTENDERS = (
    Contender("torch_reduce", "default", _reduce, needs("torch"), describe_torch, takes="torch", ops=REDUCED_OPS),
    Contender("torch_index_add", "default", _index_add, needs("torch"), describe_torch, takes="torch"),
)
