"""PyG without its compiled add-ons: what its layers do with an edge index, its `spmm`, softmax and GATConv."""

from __future__ import annotations

from importlib import metadata
from typing import Any

import numpy as np

from ..case import Case
from ..entrant import Kernel
from .contender import REDUCED_OPS, Contender, needs
from .torch_csr import csr_tensor
from .torch_edges import ends
from .torch_version import describe_torch


def _scatter(case: Case, threads: int) -> Kernel:
    import torch
    from torch_geometric.utils import scatter  # type: ignore[import-untyped,import-not-found,unused-ignore]

    torch.set_num_threads(threads)
    src = torch.tensor(case.graph.indices, dtype=torch.int64)
    dst = torch.tensor(np.repeat(np.arange(case.graph.num_dst), np.diff(case.graph.indptr)), dtype=torch.int64)
    weights = torch.from_numpy(case.w).unsqueeze(1) if case.spmm.uses_edge else None

    def kernel(x: Any) -> Any:
        messages = x.index_select(0, src)
        if weights is not None:
            messages = messages * weights
        return scatter(messages, dst, dim=0, dim_size=case.graph.num_dst, reduce=case.spmm.reduce)

    return kernel


def _spmm(case: Case, threads: int) -> Kernel:
    """`torch_geometric.utils.spmm`; its mean divides by the in-degree itself."""
    import torch
    from torch_geometric.utils import spmm  # type: ignore[import-untyped,import-not-found,unused-ignore]

    torch.set_num_threads(threads)
    values = case.w if case.spmm.uses_edge else np.ones(case.graph.num_edges, np.float32)
    matrix = csr_tensor(case, values, "int64")
    return lambda x: spmm(matrix, x, case.spmm.reduce)


def _softmax(case: Case, threads: int) -> Kernel:
    import torch
    from torch_geometric.utils import softmax  # type: ignore[import-untyped,import-not-found,unused-ignore]

    torch.set_num_threads(threads)
    _, dst = ends(case)
    return lambda logits: softmax(logits, dst, num_nodes=case.graph.num_dst)


def _gat(case: Case, threads: int) -> Kernel:
    """`GATConv` after its linear part: attention of every edge, then message passing."""
    import torch
    from torch_geometric.nn import GATConv  # type: ignore[import-untyped,import-not-found,unused-ignore]

    torch.set_num_threads(threads)
    heads, width = case.problem.dims.feat
    layer = GATConv((width, width), width, heads, negative_slope=case.op.negative_slope, add_self_loops=False)  # type: ignore[attr-defined]
    edge_index = torch.stack(ends(case))
    size = (case.graph.num_src, case.graph.num_dst)
    layer.eval()

    def kernel(z: Any, score_src: Any, score_dst: Any) -> Any:
        with torch.no_grad():
            alpha = layer.edge_updater(edge_index, alpha=(score_src, score_dst), edge_attr=None, size=size)
            return layer.propagate(edge_index, x=(z, None), alpha=alpha, size=size)

    return kernel


def _describe() -> str:
    return f"torch_geometric {metadata.version('torch-geometric')} on {describe_torch()}"


_MISSING = needs("torch", "torch_geometric")
CONTENDERS = (
    Contender("pyg_scatter", "default", _scatter, _MISSING, _describe, takes="torch", ops=REDUCED_OPS),
    Contender("pyg_spmm", "default", _spmm, _MISSING, _describe, takes="torch"),
    Contender("pyg_softmax", "default", _softmax, _MISSING, _describe, takes="torch", ops=frozenset({"edge_softmax"})),
    Contender("pyg_gat", "default", _gat, _MISSING, _describe, takes="torch", ops=frozenset({"gat"})),
)
