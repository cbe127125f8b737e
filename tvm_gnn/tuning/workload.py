"""The data a task is measured on: graph, seeded inputs and float64 reference, as files that workers map."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..graph import Graph
from ..ops import parse_op
from ..ops.reference import spmm_reference
from ..ops.tolerance import rounding_scale
from .task import Task

_DESCRIPTION = "workload.json"
_LARGEST_INPUT = 4


def write(task: Task, folder: Path, seed: int = 0) -> None:
    """Write everything that measuring the task needs into `folder`.

    Inputs are small positive integers: sums are exact in float32 in whatever order they are taken, so that one missing
    edge shows even in a row of a million.
    """
    graph = task.graph
    rng = np.random.default_rng(seed)
    x = rng.integers(1, _LARGEST_INPUT + 1, (graph.num_src, task.feat)).astype(task.dtype)
    w = rng.integers(1, _LARGEST_INPUT + 1, graph.num_edges).astype(task.dtype)
    edge_ids = graph.edge_ids if task.kernel_edge_order == "edge_ids" else None
    arrays = {"indptr": graph.indptr, "indices": graph.indices, "x": x, "w": w}
    arrays["reference"] = spmm_reference(task.op, graph.indptr, graph.indices, edge_ids, x, w)
    if edge_ids is not None:
        arrays["edge_ids"] = edge_ids
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array)
    description = {
        "op": task.op.name,
        "feat": int(task.feat),
        "dtype": task.dtype,
        "edge_order": task.kernel_edge_order,
        "num_src": graph.num_src,
        "threads": task.target.threads,
    }
    (folder / _DESCRIPTION).write_text(json.dumps(description))


class Workload:
    """The data `write` wrote, mapped read-only: a kernel that writes to an input dies of it.

    Attributes
    ----------
    graph : Graph
    x, w : arrays of shape (num_src, F) and (num_edges,)
    reference, rounded_reference, rounding_scale : arrays of shape (num_dst, F)
    threads : int
    """

    def __init__(self, folder: Path) -> None:
        description: dict[str, Any] = json.loads((folder / _DESCRIPTION).read_text())
        self.op = parse_op(description["op"])
        self.feat: int = description["feat"]
        self.dtype: str = description["dtype"]
        self.edge_order: str = description["edge_order"]
        self.threads: int = description["threads"]
        edge_ids = _mapped(folder, "edge_ids") if self.edge_order == "edge_ids" else None
        self.graph = Graph(
            _mapped(folder, "indptr"),
            _mapped(folder, "indices"),
            num_src=description["num_src"],
            edge_ids=edge_ids,
        )
        self.x = _mapped(folder, "x")
        self.w = _mapped(folder, "w")
        self.reference: npt.NDArray[np.float64] = _mapped(folder, "reference")
        self.rounded_reference = self.reference.astype(self.dtype)
        self.rounding_scale = self._rounding_scale()

    def _rounding_scale(self) -> npt.NDArray[np.float64]:
        # One eps for the division of a mean; the sums are exact until they need more than the significand's bits.
        longest_row = int(self.graph.in_degrees.max(initial=0))
        exact = longest_row * _LARGEST_INPUT**2 * float(np.finfo(self.dtype).eps) < 2
        return self.reference if exact else rounding_scale(self.reference, self.graph.in_degrees)


def _mapped(folder: Path, name: str) -> npt.NDArray[Any]:
    # Empty arrays cannot be mapped; a plain view keeps np.memmap's slow attribute hooks out of the timed path.
    array = np.load(folder / f"{name}.npy", mmap_mode="r", allow_pickle=False)
    return np.asarray(array)
