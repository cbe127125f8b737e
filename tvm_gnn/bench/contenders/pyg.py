"""PyG without its compiled add-ons: gather and `scatter` as its layers do with an edge index, and its `spmm`."""

from __future__ import annotations

from importlib import metadata
from typing import Any

import numpy as np

from ..case import Case
from ..entrant import Kernel
from .contender import Contender, needs
from .torch_csr import csr_tensor
from .torch_version import describe_torch


def _scatter(case: Case, threads: int) -> Kernel:
    import torch
    from torch_geometric.utils import scatter  # type: ignore[import-untyped,import-not-found,unused-ignore]

    torch.set_num_threads(threads)
    src = torch.tensor(case.graph.indices, dtype=torch.int64)
    dst = torch.tensor(np.repeat(np.arange(case.graph.num_dst), np.diff(case.graph.indptr)), dtype=torch.int64)
    weights = torch.from_numpy(case.w).unsqueeze(1) if case.op.uses_edge else None

    def kernel(x: Any) -> Any:
        messages = x.index_select(0, src)
        if weights is not None:
            messages = messages * weights
        return scatter(messages, dst, dim=0, dim_size=case.graph.num_dst, reduce=case.op.reduce)

    return kernel


def _spmm(case: Case, threads: int) -> Kernel:
    """`torch_geometric.utils.spmm`; its mean divides by the in-degree itself."""
    import torch
    from torch_geometric.utils import spmm  # type: ignore[import-untyped,import-not-found,unused-ignore]

    torch.set_num_threads(threads)
    values = case.w if case.op.uses_edge else np.ones(case.graph.num_edges, np.float32)
    matrix = csr_tensor(case, values, "int64")
    return lambda x: spmm(matrix, x, case.op.reduce)


def _describe() -> str:
    return f"torch_geometric {metadata.version('torch-geometric')} on {describe_torch()}"


_MISSING = needs("torch", "torch_geometric")
CONTENDERS = (
    Contender("pyg_scatter", "default", _scatter, _MISSING, _describe, takes="torch"),
    Contender("pyg_spmm", "default", _spmm, _MISSING, _describe, takes="torch"),
)
