"""torch's CSR product: A @ x, and torch.mm with a given output, each with int32 and with int64 indices.

mean is the product with A whose values were divided by the in-degree once; copy_u is the product with ones, made once.
"""

from __future__ import annotations

import warnings
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from ..case import Case
from ..entrant import Kernel
from .contender import Contender, needs
from .torch_version import describe_torch

if TYPE_CHECKING:
    import torch

IndexDtype = Literal["int32", "int64"]


def csr_tensor(case: Case, values: Any, index_dtype: IndexDtype) -> torch.Tensor:
    """The adjacency as a torch CSR tensor of shape (num_dst, num_src) with these values in CSR order."""
    import torch

    index = getattr(torch, index_dtype)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")
        # The graph is valid by construction, and torch's check would refuse parallel edges, which its kernels handle.
        return torch.sparse_csr_tensor(
            torch.tensor(case.graph.indptr, dtype=index),
            torch.tensor(case.graph.indices, dtype=index),
            torch.tensor(values),
            size=(case.graph.num_dst, case.graph.num_src),
            check_invariants=False,
        )


def _product(index_dtype: IndexDtype, case: Case, threads: int) -> Kernel:
    import torch

    torch.set_num_threads(threads)
    matrix = csr_tensor(case, case.matrix_values, index_dtype)
    return lambda x: matrix @ x


def _product_out(index_dtype: IndexDtype, case: Case, threads: int) -> Kernel:
    import torch

    torch.set_num_threads(threads)
    matrix = csr_tensor(case, case.matrix_values, index_dtype)
    out = torch.zeros(case.graph.num_dst, case.width)
    return lambda x: torch.mm(matrix, x, out=out)


def _contender(name: str, build: partial[Kernel]) -> Contender:
    return Contender(name, "default", build, needs("torch"), describe_torch, takes="torch")


CONTENDERS = (
    _contender("torch_int32", partial(_product, "int32")),
    _contender("torch_int64", partial(_product, "int64")),
    _contender("torch_int32_out", partial(_product_out, "int32")),
    _contender("torch_int64_out", partial(_product_out, "int64")),
)
