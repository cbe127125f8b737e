"""DGL's operators (`dgl.ops`), on a block graph in CSC form.

DGL 2.1.0 is built for an older torch: its graphbolt part cannot be loaded beside torch 2.13, but its kernels need only
libdgl. `pip install --no-deps dgl==2.1.0` and its small dependencies
(requests, tqdm, psutil, networkx) are enough; modules that its import wants and its kernels do not are left empty.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module, metadata
from importlib.util import find_spec
from types import ModuleType
from typing import Any

import numpy as np

from ...ops import SDDMM
from ..case import Case
from ..entrant import Kernel
from .contender import REDUCED_OPS, Contender, needs

NEVER_NEEDED = ("dgl.graphbolt", "torchdata", "torchdata.datapipes", "torchdata.datapipes.iter")
EMPTY_IF_ABSENT = ("pandas", "pydantic")


def _build(case: Case, threads: int) -> Kernel:
    import torch

    _dgl()
    ops = import_module("dgl.ops")
    torch.set_num_threads(threads)  # DGL's OpenMP loops run on the pool that torch loaded
    graph = _block(case)
    if case.op.primitive in ("sddmm", "gat"):
        graph = graph.formats(["coo", "csc"])  # its SDDMM knows no other than COO and CSR
    if case.op.name == "edge_softmax":
        return lambda logits: ops.edge_softmax(graph, logits)
    if case.op.name == "gat":
        slope = case.op.negative_slope  # type: ignore[attr-defined]

        def gat(z: Any, score_src: Any, score_dst: Any) -> Any:
            """The operators that `dgl.nn.GATConv` runs after its linear part."""
            scores = ops.u_add_v(graph, score_src.unsqueeze(-1), score_dst.unsqueeze(-1))
            weights = ops.edge_softmax(graph, torch.nn.functional.leaky_relu(scores, slope))
            return ops.u_mul_e_sum(graph, z, weights)

        return gat
    if isinstance(case.op, SDDMM):
        function = getattr(ops, case.op.name)
        return lambda lhs, rhs: function(graph, lhs, rhs)
    weights = torch.from_numpy(case.w).unsqueeze(1) if case.spmm.uses_edge else None
    message = "mul" if case.spmm.uses_edge else "copy_lhs"
    empty = torch.from_numpy(np.flatnonzero(case.graph.in_degrees == 0))
    if case.spmm.reduce_op.better is None or len(empty) == 0:
        return lambda x: ops.gspmm(graph, message, case.spmm.reduce, x, weights)
    # Its max and min of no edge are infinite.
    return lambda x: ops.gspmm(graph, message, case.spmm.reduce, x, weights).index_fill_(0, empty, 0)


def _block(case: Case) -> Any:
    """Sources → destinations in CSC form only, whose arrays are our CSR by destination."""
    import torch

    index = getattr(torch, np.dtype(case.graph.indptr.dtype).name)
    structure = (
        torch.tensor(case.graph.indptr, dtype=index),
        torch.tensor(case.graph.indices, dtype=index),
        # DGL's libxsmm kernels refuse edge values without edge ids, even where the order is CSC order.
        torch.arange(case.graph.num_edges, dtype=index),
    )
    counts = {"src": case.graph.num_src, "dst": case.graph.num_dst}
    return _dgl().heterograph({("src", "edge", "dst"): ("csc", structure)}, num_nodes_dict=counts).formats("csc")


@cache
def _dgl() -> ModuleType:
    with _surroundings():
        return import_module("dgl")


@contextmanager
def _surroundings() -> Iterator[None]:
    """What DGL's import needs, gone afterwards: empty modules, and a backend, lest DGL write one into the home folder.

    The package object keeps its empty `graphbolt`; a process that has prepared this contender cannot use the real one.
    """
    names = [*NEVER_NEEDED, *(name for name in EMPTY_IF_ABSENT if find_spec(name) is None)]
    empty = {name: ModuleType(name) for name in names if name not in sys.modules}
    backend = os.environ.get("DGLBACKEND")
    sys.modules.update(empty)
    os.environ["DGLBACKEND"] = "pytorch"
    try:
        yield
    finally:
        for name in empty:
            sys.modules.pop(name, None)
        if backend is None:
            del os.environ["DGLBACKEND"]
        else:
            os.environ["DGLBACKEND"] = backend


@cache
def _missing() -> str | None:
    absent = needs("torch", "dgl")()
    if absent:
        return absent
    try:
        _dgl()
    except Exception as error:  # whatever a package built for other versions raises while it loads
        return f"dgl {metadata.version('dgl')} cannot be imported here: {type(error).__name__}: {error}"
    return None


def _describe() -> str:
    return f"dgl {metadata.version('dgl')}"


OPS = REDUCED_OPS | {"u_dot_v", "u_add_v", "edge_softmax", "gat"}
CONTENDER = Contender("dgl", "default", _build, _missing, _describe, takes="torch", ops=OPS)
