"""Entries of scipy and torch sparse matrices, uncoalesced and in the order of their values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from ..errors import GraphError, InputTypeError
from .validate import IntArray, integer_array, is_tensor


@dataclass(frozen=True)
class Entries:
    """Index arrays of one sparse matrix of shape (num_dst, num_src).

    `first` and `second` are row indptr and columns (csr), column indptr and rows (csc), or rows and columns (coo).
    """

    layout: Literal["csr", "csc", "coo"]
    first: IntArray
    second: IntArray
    shape: tuple[int, int]


def from_scipy(matrix: Any) -> Entries:
    """Entries of any scipy sparse matrix or array with two dimensions."""
    import scipy.sparse  # type: ignore[import-untyped,unused-ignore]

    if not scipy.sparse.issparse(matrix):
        raise InputTypeError(
            f"matrix: must be a scipy sparse matrix (got {type(matrix).__name__}). "
            "Use from_torch for torch tensors, from_coo or from_csr for plain arrays."
        )
    if matrix.ndim != 2:
        raise GraphError(f"matrix: must have two dimensions (got shape {matrix.shape}).")
    if matrix.format in ("csr", "csc"):
        # scipy allows spare room behind the last entry.
        stored = int(matrix.indptr[-1])
        return Entries(matrix.format, matrix.indptr, matrix.indices[:stored], matrix.shape)
    coo = matrix if matrix.format == "coo" else matrix.tocoo()
    return Entries("coo", coo.row, coo.col, matrix.shape)


def from_torch(matrix: Any) -> Entries:
    """Entries of a torch tensor in sparse CSR, CSC or COO layout with two sparse dimensions."""
    if not is_tensor(matrix):
        raise InputTypeError(
            f"matrix: must be a torch sparse tensor (got {type(matrix).__name__}). Use from_scipy for scipy matrices."
        )
    layout = str(matrix.layout).removeprefix("torch.")
    if layout not in ("sparse_csr", "sparse_csc", "sparse_coo"):
        raise InputTypeError(
            f"matrix: must have layout sparse_csr, sparse_csc or sparse_coo (got {layout}). "
            "Convert it, for example with .to_sparse_csr()."
        )
    sparse_dims = matrix.sparse_dim()
    if sparse_dims != 2 or (layout != "sparse_coo" and matrix.dim() != 2 + matrix.dense_dim()):
        raise GraphError(f"matrix: must have two sparse dimensions and no batch (got shape {tuple(matrix.shape)}).")
    shape = (int(matrix.shape[0]), int(matrix.shape[1]))
    if layout == "sparse_csr":
        return Entries("csr", _numpy(matrix.crow_indices()), _numpy(matrix.col_indices()), shape)
    if layout == "sparse_csc":
        return Entries("csc", _numpy(matrix.ccol_indices()), _numpy(matrix.row_indices()), shape)
    # indices() would demand coalescing, which merges parallel edges.
    rows, columns = matrix._indices()
    return Entries("coo", _numpy(rows), _numpy(columns), shape)


def _numpy(indices: Any) -> IntArray:
    return integer_array(indices, "matrix")
