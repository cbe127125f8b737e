"""torch without any graph library: products and softmax per edge, by gather and scatter and by `sampled_addmm`."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..case import Case
from ..entrant import Kernel
from .contender import Contender, needs
from .torch_csr import csr_tensor
from .torch_version import describe_torch


def ends(case: Case) -> tuple[Any, Any]:
    """Source and destination of every edge as int64 tensors, in CSR order."""
    import torch

    src = torch.tensor(case.graph.indices, dtype=torch.int64)
    dst = torch.tensor(np.repeat(np.arange(case.graph.num_dst), np.diff(case.graph.indptr)), dtype=torch.int64)
    return src, dst


def softmax_by_row(values: Any, dst: Any, num_dst: int) -> Any:
    """Softmax of (num_edges, H) over the edges of each destination, in four passes."""
    index = dst.unsqueeze(1).expand_as(values)
    largest = values.new_full((num_dst, values.shape[1]), -float("inf"))
    largest.scatter_reduce_(0, index, values, "amax")
    shifted = (values - largest.index_select(0, dst)).exp_()
    total = values.new_zeros(num_dst, values.shape[1]).index_add_(0, dst, shifted)
    return shifted.div_(total.index_select(0, dst))


def _sampled(case: Case, threads: int) -> Kernel:
    """`torch.sparse.sampled_addmm`: the product at the pattern's places; the values of its result."""
    import torch

    torch.set_num_threads(threads)
    pattern = csr_tensor(case, np.zeros(case.graph.num_edges, np.float32), "int64")
    return lambda lhs, rhs: torch.sparse.sampled_addmm(pattern, rhs, lhs.t(), beta=0.0).values()


def _gather(case: Case, threads: int) -> Kernel:
    """Rows of both ends of every edge, shape (num_edges, F) each, combined."""
    import torch

    torch.set_num_threads(threads)
    src, dst = ends(case)
    if case.op.name == "u_dot_v":
        return lambda lhs, rhs: (lhs.index_select(0, src) * rhs.index_select(0, dst)).sum(-1)
    return lambda lhs, rhs: lhs.index_select(0, src) + rhs.index_select(0, dst)


def _softmax(case: Case, threads: int) -> Kernel:
    import torch

    torch.set_num_threads(threads)
    _, dst = ends(case)
    return lambda logits: softmax_by_row(logits, dst, case.graph.num_dst)


def _gat(case: Case, threads: int) -> Kernel:
    """Scores, softmax and weighted sum with arrays of (num_edges, H) and (num_edges, H, D)."""
    import torch

    torch.set_num_threads(threads)
    src, dst = ends(case)
    slope = case.op.negative_slope  # type: ignore[attr-defined]

    def kernel(z: Any, score_src: Any, score_dst: Any) -> Any:
        scores = score_src.index_select(0, src) + score_dst.index_select(0, dst)
        weights = softmax_by_row(torch.nn.functional.leaky_relu_(scores, slope), dst, case.graph.num_dst)
        messages = z.index_select(0, src).mul_(weights.unsqueeze(-1))
        return z.new_zeros(case.graph.num_dst, *z.shape[1:]).index_add_(0, dst, messages)

    return kernel


def _contender(name: str, build: Any, *ops: str) -> Contender:
    return Contender(name, "default", build, needs("torch"), describe_torch, takes="torch", ops=frozenset(ops))


CONTENDERS = (
    _contender("torch_sampled_addmm", _sampled, "u_dot_v"),
    _contender("torch_gather", _gather, "u_dot_v", "u_add_v"),
    _contender("torch_softmax", _softmax, "edge_softmax"),
    _contender("torch_gat", _gat, "gat"),
)
