"""DGL's g-SpMM (`dgl.ops.gspmm`), on a block graph in CSC form.

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

from ..case import Case
from ..entrant import Kernel
from .contender import Contender, needs

NEVER_NEEDED = ("dgl.graphbolt", "torchdata", "torchdata.datapipes", "torchdata.datapipes.iter")
EMPTY_IF_ABSENT = ("pandas", "pydantic")


def _build(case: Case, threads: int) -> Kernel:
    import torch

    _dgl()
    gspmm = import_module("dgl.ops").gspmm
    torch.set_num_threads(threads)  # DGL's OpenMP loops run on the pool that torch loaded
    graph = _block(case)
    weights = torch.from_numpy(case.w).unsqueeze(1) if case.op.uses_edge else None
    message = "mul" if case.op.uses_edge else "copy_lhs"
    return lambda x: gspmm(graph, message, case.op.reduce, x, weights)


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


CONTENDER = Contender("dgl", "default", _build, _missing, _describe, takes="torch")
