"""scipy's CSR product A @ x, on one thread whatever is asked: scipy has no other.

mean is the product with A whose values were divided by the in-degree once; copy_u is the product with ones, made once.
"""

from __future__ import annotations

from importlib import metadata
from typing import Any

from ..case import Case
from ..entrant import Kernel
from .contender import Contender, needs


def csr_matrix(case: Case) -> Any:
    """The adjacency as a scipy CSR array of shape (num_dst, num_src), parallel edges kept apart."""
    import scipy.sparse  # type: ignore[import-untyped,unused-ignore]

    arrays = (case.matrix_values, case.graph.indices, case.graph.indptr)
    return scipy.sparse.csr_array(arrays, shape=(case.graph.num_dst, case.graph.num_src))


def _build(case: Case, threads: int) -> Kernel:
    matrix = csr_matrix(case)
    return lambda x: matrix @ x


def _describe() -> str:
    return f"scipy {metadata.version('scipy')}, one thread"


CONTENDER = Contender("scipy", "default", _build, needs("scipy"), _describe)
