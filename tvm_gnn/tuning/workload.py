"""The data a task is measured on: graph, seeded inputs and float64 reference, as files that a worker reads once."""

from __future__ import annotations

import ctypes
import json
import mmap
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import TuneError
from ..graph import Graph
from ..ops import parse_op
from ..ops.reference import spmm_reference
from ..ops.tolerance import rounding_scale
from ..toolchain.temporary import temporary_files
from .task import Task

_DESCRIPTION = "workload.json"
_REFERENCE = "reference"
EDGE_ORDERS = ("csr", "edge_ids")
_LARGEST_INPUT = 4
# numpy asks for huge pages from this size on.
_HUGE_PAGES_FROM_BYTES = 4 << 20


def write(task: Task, folder: Path, seed: int = 0) -> None:
    """Write everything that measuring the task needs into `folder`.

    Inputs are small positive integers: sums are exact in float32 in whatever order they are taken, so that one missing
    edge shows even in a row of a million.

    Raises
    ------
    TuneError
        The folder's disk is full.
    """
    graph = task.graph
    rng = np.random.default_rng(seed)
    x = rng.integers(1, _LARGEST_INPUT + 1, (graph.num_src, task.width if task.op.uses_src else 0)).astype(task.dtype)
    # Powers of two: quotients are as exact as products.
    w = np.exp2(rng.integers(0, 3, (graph.num_edges, task.edge_width))).astype(task.dtype)
    arrays = {"indptr": graph.indptr, "indices": graph.indices, "x": x, "w_csr": w}
    arrays[_REFERENCE] = spmm_reference(task.op, graph.indptr, graph.indices, None, x, w)
    if task.op.uses_edge:
        arrays["edge_ids"] = edge_ids = _edge_ids(graph)
        arrays["w_edge_ids"] = np.empty_like(w)
        arrays["w_edge_ids"][edge_ids] = w
    description = {
        "op": task.op.name,
        "feat": task.width,
        "edge_width": task.edge_width,
        "dtype": task.dtype,
        "edge_order": task.kernel_edge_order,
        "num_src": graph.num_src,
        "threads": task.target.threads,
    }
    with temporary_files(TuneError, folder):
        for name, array in arrays.items():
            np.save(folder / f"{name}.npy", array)
        (folder / _DESCRIPTION).write_text(json.dumps(description))


def _edge_ids(graph: Graph) -> npt.NDArray[Any]:
    """The graph's own, or the reverse of CSR order, so that a kernel that does not follow them is caught."""
    if graph.edge_ids is not None:
        return graph.edge_ids
    ids: npt.NDArray[Any] = np.arange(graph.num_edges, dtype=graph.index_dtype)[::-1]
    return np.ascontiguousarray(ids)


class Workload:
    """The data `write` wrote, in read-only memory: a kernel that writes to an input dies of it.

    Attributes
    ----------
    graph : Graph
        With edge ids if the operator reads edge values.
    edge_order : str
        Of the task: ``csr`` or ``edge_ids``.
    x : array of shape (num_src, F)
    w : dict of arrays of shape (num_edges, edge_width)
        The same edge values in each order; only ``csr`` if the operator reads none.
    reference, rounded_reference, rounding_scale : arrays of shape (num_dst, F)
    threads : int
    """

    def __init__(self, folder: Path) -> None:
        description: dict[str, Any] = json.loads((folder / _DESCRIPTION).read_text())
        self.op = parse_op(description["op"])
        self.feat: int = description["feat"]
        self.edge_width: int = description["edge_width"]
        self.dtype: str = description["dtype"]
        self.edge_order: str = description["edge_order"]
        self.threads: int = description["threads"]
        edge_ids = _read(folder, "edge_ids") if self.op.uses_edge else None
        self.graph = Graph(
            _read(folder, "indptr"),
            _read(folder, "indices"),
            num_src=description["num_src"],
            edge_ids=edge_ids,
        )
        self.x = _read(folder, "x")
        self.w = {order: _read(folder, f"w_{order}") for order in EDGE_ORDERS[: 2 if self.op.uses_edge else 1]}
        self.reference: npt.NDArray[np.float64] = np.load(folder / f"{_REFERENCE}.npy", allow_pickle=False)
        self.rounded_reference = self.reference.astype(self.dtype)
        self.rounding_scale = self._rounding_scale()

    def _rounding_scale(self) -> npt.NDArray[np.float64]:
        # One eps for the division of a mean; the sums are exact until they need more than the significand's bits.
        longest_row = int(self.graph.in_degrees.max(initial=0))
        exact = longest_row * _LARGEST_INPUT**2 * float(np.finfo(self.dtype).eps) < 2
        return self.reference if exact else rounding_scale(self.reference, self.graph.in_degrees)


def _read(folder: Path, name: str) -> npt.NDArray[Any]:
    """An array in read-only memory of the kind that numpy gives a caller's arrays.

    Mapping the file would be simpler, but its pages are small: schedules that touch fewer pages at a time then look
    better than they are for a caller.
    """
    stored = np.load(folder / f"{name}.npy", mmap_mode="r", allow_pickle=False)
    memory = mmap.mmap(-1, max(1, stored.nbytes))
    if hasattr(mmap, "MADV_HUGEPAGE") and stored.nbytes >= _HUGE_PAGES_FROM_BYTES:
        memory.madvise(mmap.MADV_HUGEPAGE)
    array: npt.NDArray[Any] = np.ndarray(stored.shape, stored.dtype, memory)
    array[...] = stored
    protected = ctypes.CDLL(None, use_errno=True).mprotect(
        ctypes.c_void_p(array.ctypes.data), ctypes.c_size_t(len(memory)), ctypes.c_int(mmap.PROT_READ)
    )
    if protected != 0:
        raise OSError(ctypes.get_errno(), f"mprotect of {name}")
    array.flags.writeable = False
    return array
