"""The data a task is measured on: graph, seeded inputs and float64 reference, as files that a worker reads once."""

from __future__ import annotations

import ctypes
import json
import mmap
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import TuneError
from ..graph import Graph
from ..ops import Problem
from ..ops.dtypes import numpy_dtype, rounded, storage_dtype
from ..ops.operand import Operand, Structure
from ..toolchain.temporary import temporary_files
from .task import Task

_DESCRIPTION = "workload.json"
EDGE_ORDERS = ("csr", "edge_ids")
# numpy asks for huge pages from this size on.
_HUGE_PAGES_FROM_BYTES = 4 << 20


def write(task: Task, folder: Path, seed: int = 0) -> None:
    """Write everything that measuring the task needs into `folder`.

    Inputs are what the operator calls its probe. Where sums of them are exact in the dtype, in whatever order they are
    taken, one missing edge shows even in a row of a million.

    Raises
    ------
    TuneError
        The folder's disk is full.
    """
    graph, problem = task.graph, task.problem
    rng = np.random.default_rng(seed)
    structure = Structure(graph.indptr, graph.indices, None, graph.num_src)  # rows of edges are made in CSR order
    counts = graph.row_counts
    inputs = {each.name: _probe(task, each, counts[each.rows], rng) for each in problem.inputs}
    reference = task.op.reference(problem.dims, structure, *inputs.values())
    longest_row = int(graph.in_degrees.max(initial=0))
    if task.op.largest_sum(problem.dims, longest_row) * float(np.finfo(problem.arithmetic_dtype).eps) < 2:
        scale = tuple(np.abs(each) for each in reference)  # one eps, for a last division
    else:
        scale = task.op.error_scale(problem.dims, structure, *inputs.values())
    arrays = {"indptr": graph.indptr, "indices": graph.indices}
    if task.op.uses_edges:
        arrays["edge_ids"] = _edge_ids(graph)
    # numpy cannot save bfloat16.
    stored = [(each, inputs[each.name].view(storage_dtype(problem.dtype_of(each)))) for each in problem.inputs]
    for each, values, allowed in zip(problem.outputs, reference, scale, strict=True):
        stored += [(_named(each, "reference"), values)] + ([] if each.is_index else [(_named(each, "scale"), allowed)])
    for each, values in stored:
        for order in orders_of(each):
            arrays[f"{each.name}.{order}"] = values if order == "csr" else _reordered(each, values, arrays["edge_ids"])
    description = {"problem": problem.as_dict(), "num_src": graph.num_src, "threads": task.target.threads}
    with temporary_files(TuneError, folder):
        for name, array in arrays.items():
            np.save(folder / f"{name}.npy", array)
        (folder / _DESCRIPTION).write_text(json.dumps(description))


def orders_of(operand: Operand) -> tuple[str, ...]:
    """The orders of edges in which a workload has an operand."""
    return EDGE_ORDERS if operand.rows == "edge" or operand.holds_edges else EDGE_ORDERS[:1]


class Workload:
    """The data `write` wrote, inputs in read-only memory: a kernel that writes to one dies of it.

    Attributes
    ----------
    problem : Problem
        With the task's edge order; the data of the other one is there too.
    graph : Graph
        With edge ids if the operator takes or gives rows of edges.
    threads : int
    """

    def __init__(self, folder: Path) -> None:
        description: dict[str, Any] = json.loads((folder / _DESCRIPTION).read_text())
        self.problem = Problem.from_dict(description["problem"])
        self.threads: int = description["threads"]
        edge_ids = _read(folder, "edge_ids") if self.problem.op.uses_edges else None
        self.graph = Graph(
            _read(folder, "indptr"),
            _read(folder, "indices"),
            num_src=description["num_src"],
            edge_ids=edge_ids,
        )
        self._inputs = {
            (each.name, order): _read(folder, f"{each.name}.{order}").view(numpy_dtype(self.problem.dtype_of(each)))
            for each in self.problem.inputs
            for order in orders_of(each)
        }
        self._expected = {
            (each.name, order): Expected(folder, each, order, self.problem.dtype_of(each))
            for each in self.problem.outputs
            for order in orders_of(each)
        }

    def inputs(self, edge_order: str) -> list[npt.NDArray[Any]]:
        """The inputs, each of shape (rows, width), with rows of edges in this order."""
        return [self._inputs[each.name, _order(each, edge_order)] for each in self.problem.inputs]

    def expected(self, edge_order: str) -> list[Expected]:
        """What the outputs must be, likewise."""
        return [self._expected[each.name, _order(each, edge_order)] for each in self.problem.outputs]


class Expected:
    """The right values of one output.

    Attributes
    ----------
    rounded : array of shape (rows, width)
        In the output's dtype.
    reference, scale : float64 arrays of that shape
        See `tolerance.first_mismatch`.
    """

    def __init__(self, folder: Path, operand: Operand, order: str, dtype: str) -> None:
        self.reference: npt.NDArray[Any] = _load(folder, f"{_named(operand, 'reference').name}.{order}")
        # Indices are compared exactly.
        scale = "reference" if operand.is_index else "scale"
        self.scale: npt.NDArray[Any] = _load(folder, f"{_named(operand, scale).name}.{order}")
        self.rounded = self.reference.astype(dtype) if operand.is_index else rounded(self.reference, dtype)


def _probe(task: Task, operand: Operand, rows: int, rng: np.random.Generator) -> npt.NDArray[Any]:
    values = task.op.probe(operand, rows, rng)
    if task.problem.itemsize < task.problem.arithmetic_itemsize and not operand.is_index:
        # Of either sign, so that sums stay small: a half type tells large integers apart no more, and overflows.
        values *= rng.choice((-1.0, 1.0), values.shape)
    return values.astype(numpy_dtype(task.problem.dtype_of(operand)))


def _order(operand: Operand, edge_order: str) -> str:
    return edge_order if edge_order in orders_of(operand) else "csr"


def _named(operand: Operand, what: str) -> Operand:
    return replace(operand, name=f"{operand.name}.{what}")


def _edge_ids(graph: Graph) -> npt.NDArray[Any]:
    """The graph's own, or the reverse of CSR order, so that a kernel that does not follow them is caught."""
    if graph.edge_ids is not None:
        return graph.edge_ids
    ids: npt.NDArray[Any] = np.arange(graph.num_edges, dtype=graph.index_dtype)[::-1]
    return np.ascontiguousarray(ids)


def _reordered(operand: Operand, values: npt.NDArray[Any], edge_ids: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """What an operand in CSR order is when edges are known by their ids."""
    if operand.holds_edges:
        return np.where(values < 0, values, edge_ids[np.maximum(values, 0)])
    placed = np.empty_like(values)
    placed[edge_ids] = values
    return placed


def _load(folder: Path, name: str) -> npt.NDArray[Any]:
    array: npt.NDArray[Any] = np.load(folder / f"{name}.npy", allow_pickle=False)
    return array


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
