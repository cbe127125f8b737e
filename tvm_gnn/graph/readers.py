"""Graphs from files: `.npz`, Matrix Market, edge lists; what a file breaks is said with its path and the rule."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import DatasetError, GraphError, InputTypeError
from .edge_list import read_edge_list
from .graph import Graph

# A number of nodes far beyond that of edges comes from ids that are labels, or from damage, and would cost an indptr
# of that length.
_NODES_PER_EDGE = 1000
_NODES_ALWAYS = 10_000_000


def read(path: Path) -> Graph:
    """The graph in a file, chosen by its suffix; edge order as its reader gives it.

    Raises
    ------
    DatasetError
        No such file, an unknown suffix, or content that is damaged or breaks a rule of the format.
    """
    reader = _reader(path)
    try:
        if not path.is_file():
            state = "a folder" if path.is_dir() else "nothing"
            raise DatasetError(f"{path}: must be a file (got {state} there). Check the path.")
        return reader(path)
    except DatasetError:
        raise
    except PermissionError as error:
        raise DatasetError(f"{path}: must be readable (got {error.strerror}). Check its permissions.") from error
    except (GraphError, InputTypeError) as error:
        raise DatasetError(f"{path}: does not hold a graph: {error}") from error
    except Exception as error:  # numpy, scipy, zipfile and zlib each have their own errors for damaged bytes
        raise DatasetError(
            f"{path}: cannot be read as {_suffix(path)} (got {type(error).__name__}: {error}). "
            "It may be damaged or cut short; fetch it again."
        ) from error


def in_csr_order(graph: Graph) -> Graph:
    """The graph with its edges numbered in CSR order, whatever order they were given in."""
    return graph if graph.edge_ids is None else Graph(graph.indptr, graph.indices, num_src=graph.num_src)


def stem(path: Path) -> str:
    """File name without the suffix the reader was chosen by."""
    return Path(path.name.removesuffix(".gz")).stem


def is_readable(path: Path) -> bool:
    """Whether some reader takes files of this suffix."""
    return _suffix(path) in READERS


def _suffix(path: Path) -> str:
    return Path(path.name.removesuffix(".gz")).suffix.lower()


def _reader(path: Path) -> Callable[[Path], Graph]:
    suffix = _suffix(path)
    if suffix not in READERS or (suffix == ".npz" and path.suffix == ".gz"):
        raise DatasetError(f"{path}: the suffix must be one of {', '.join(READERS)} (got {suffix!r}).")
    return READERS[suffix]


def _read_npz(path: Path) -> Graph:
    if not zipfile.is_zipfile(path):  # numpy would take anything else for a pickle
        raise DatasetError(f"{path}: must be an archive of arrays (got another kind of file, or part of one).")
    with np.load(path, allow_pickle=False) as loaded:
        names = set(loaded.files)
        if {"indptr", "indices", "num_nodes"} <= names:
            num_nodes = _scalar(path, "num_nodes", loaded["num_nodes"])
            num_cols = _scalar(path, "num_cols", loaded["num_cols"]) if "num_cols" in names else num_nodes
            return _from_source_rows(path, loaded["indptr"], loaded["indices"], num_nodes, num_cols)
        if "edge_index" in names:
            edges = loaded["edge_index"]
            if "num_nodes" in names:
                return Graph.from_edge_index(edges, _scalar(path, "num_nodes", loaded["num_nodes"]))
            if edges.size and np.issubdtype(edges.dtype, np.integer):
                _check_nodes(path, int(edges.max()) + 1, edges.size // 2, "largest id + 1")
            return Graph.from_edge_index(edges)
    if not {"format", "shape", "data"} <= names:
        raise DatasetError(
            f"{path}: must hold edge_index, or indptr, indices and num_nodes, or be written by scipy.sparse.save_npz "
            f"(got {', '.join(sorted(names)) or 'no array'})."
        )
    import scipy.sparse  # type: ignore[import-untyped,unused-ignore]

    return _from_scipy(path, scipy.sparse.load_npz(path))


def _from_source_rows(path: Path, indptr: NDArray[Any], indices: NDArray[Any], num_nodes: int, num_cols: int) -> Graph:
    """Rows of the file are sources and its columns destinations, so the graph is its transpose.

    The file lists no edge values, so nobody's edge order is to be kept.
    """
    if indptr.size != num_nodes + 1:
        raise GraphError(f"indptr: must have num_nodes + 1 = {num_nodes + 1} entries (got {indptr.size}).")
    _check_nodes(path, num_cols, indices.size, "num_cols")
    return in_csr_order(Graph.from_csr(indptr, indices, num_src=num_cols).reverse())


def _scalar(path: Path, name: str, value: NDArray[Any]) -> int:
    if value.size != 1 or not np.issubdtype(value.dtype, np.integer):
        raise DatasetError(f"{path}: {name} must be one integer (got {value.dtype} of shape {value.shape}).")
    return int(value.item())


def _read_matrix_market(path: Path) -> Graph:
    import scipy.io  # type: ignore[import-untyped,unused-ignore]
    import scipy.sparse

    matrix = scipy.io.mmread(str(path))
    if not scipy.sparse.issparse(matrix):
        raise DatasetError(f"{path}: must be in Matrix Market coordinate format (got a dense array).")
    return _from_scipy(path, matrix)


def _from_scipy(path: Path, matrix: Any) -> Graph:
    _check_nodes(path, max(matrix.shape), matrix.nnz, "rows and columns")
    return Graph.from_scipy(matrix)


def _read_edge_list(path: Path) -> Graph:
    edges = read_edge_list(path)
    largest = int(edges.max())
    position = int(np.argmax(edges.max(axis=0)))
    _check_nodes(path, largest + 1, edges.shape[1], f"largest id + 1 (at edge {position})")
    return Graph.from_edge_index(edges)


def _check_nodes(path: Path, num_nodes: int, num_edges: int, what: str) -> None:
    limit = max(_NODES_ALWAYS, _NODES_PER_EDGE * num_edges)
    if num_nodes > limit:
        raise DatasetError(
            f"{path}: {what} must be at most {limit} for {num_edges} edges (got {num_nodes}). "
            "Relabel the nodes to 0 … n-1."
        )


READERS: dict[str, Callable[[Path], Graph]] = {
    ".npz": _read_npz,
    ".mtx": _read_matrix_market,
    **dict.fromkeys((".txt", ".tsv", ".csv", ".edges", ".el"), _read_edge_list),
}
