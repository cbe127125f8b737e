"""A task: one operator at one width on one graph for one target, and the key its results are stored under."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np
import xxhash

from ..cache import TaskKey
from ..errors import InputError, InputTypeError
from ..graph import Graph
from ..ops import SpMM
from ..templates import spmm_csr
from ..templates.space import Decisions, Space
from ..toolchain.importing import toolchain_version
from ..toolchain.target import CpuTarget

DTYPES = ("float32",)
EDGE_ORDERS = ("caller", "csr")
# Loops over features have 32-bit extents.
_LARGEST_FEAT = 2**31 - 1


@dataclass(frozen=True)
class Task:
    """What is tuned.

    Attributes
    ----------
    graph : Graph
    op : SpMM
    feat : int
        Feature width F >= 0.
    dtype : str
        Dtype of features, edge values and output.
    edge_order : {"caller", "csr"}
        Order in which edge values will be given: the caller's (the edge list's) or CSR order.
    target : CpuTarget
    """

    graph: Graph
    op: SpMM
    feat: int
    dtype: str
    edge_order: str
    target: CpuTarget

    def __post_init__(self) -> None:
        if isinstance(self.feat, bool) or not isinstance(self.feat, int | np.integer):
            raise InputTypeError(f"feat: must be an integer (got {type(self.feat).__name__}).")
        object.__setattr__(self, "feat", int(self.feat))  # numpy's integers are neither JSON nor have a bit_length
        if self.feat < 0:
            raise InputError(f"feat: must be at least 0 (got {self.feat}).")
        if self.feat > _LARGEST_FEAT:
            raise InputError(f"feat: must be at most {_LARGEST_FEAT} (got {self.feat}).")
        if self.dtype not in DTYPES:
            raise InputError(f"dtype: must be one of {', '.join(DTYPES)} (got {self.dtype!r}).")
        if self.edge_order not in EDGE_ORDERS:
            raise InputError(f"edge_order: must be one of {', '.join(EDGE_ORDERS)} (got {self.edge_order!r}).")

    @property
    def is_empty(self) -> bool:
        """Whether every output element is an empty sum, so that there is nothing to build."""
        return self.graph.num_edges == 0 or self.graph.num_dst == 0 or self.feat == 0

    @property
    def kernel_edge_order(self) -> str:
        """How the kernel finds edge values: ``csr`` (in order) or ``edge_ids`` (through the permutation)."""
        permuted = self.op.uses_edge and self.edge_order == "caller" and self.graph.edge_ids is not None
        return "edge_ids" if permuted else "csr"

    def other_edge_order(self) -> Task | None:
        """The task whose kernels find the same edge values in the other order; None when none are read."""
        if not self.op.uses_edge:
            return None
        if self.kernel_edge_order == "edge_ids":
            return replace(self, edge_order="csr")
        graph = self.graph
        if graph.edge_ids is None:
            ids = np.arange(graph.num_edges, dtype=graph.index_dtype)
            graph = Graph(graph.indptr, graph.indices, num_src=graph.num_src, edge_ids=ids, name=graph.name)
        return replace(self, graph=graph, edge_order="caller")

    @cached_property
    def space(self) -> Space:
        """The schedule space of this task."""
        return spmm_csr.space(self.feat, self.dtype, self.target, self.graph.num_src, self.graph.num_edges)

    @cached_property
    def key(self) -> TaskKey:
        """What a tuned kernel depends on besides the graph."""
        return TaskKey(
            {
                "op": self.op.name,
                "feat": str(self.feat),
                "dtype": self.dtype,
                "index": self.graph.index_dtype,
                "edge_order": self.kernel_edge_order,
                "target": self.target.kind,
                "cpu": self.target.cpu,
                "threads": str(self.target.threads),
                "template": _template_digest(),
                "toolchain": toolchain_version(),
            }
        )

    @cached_property
    def graph_fields(self) -> dict[str, Any]:
        """The graph as records and artifacts name it."""
        signature = self.graph.signature
        return {
            "name": self.graph.name or "unnamed",
            "exact": signature.exact,
            "bucket": signature.bucket,
            "features": dict(signature.features),
            "num_dst": self.graph.num_dst,
            "num_src": self.graph.num_src,
            "num_edges": self.graph.num_edges,
        }

    def code_spec(self, decisions: Decisions) -> dict[str, Any]:
        """Everything the generated code depends on, JSON-able; equal specs share one library."""
        return {
            "op": self.op.name,
            "feat": int(self.feat),
            "dtype": self.dtype,
            "index_dtype": self.graph.index_dtype,
            "edge_order": self.kernel_edge_order,
            "code": spmm_csr.code_decisions(decisions),
        }

    def static_module(self) -> Any:
        """The task's TensorIR function at this graph's sizes, for a search that needs static shapes."""
        spec = self.code_spec(self.space.default)
        counts = (self.graph.num_dst, self.graph.num_src, self.graph.num_edges)
        return spmm_csr.static_module(
            self.op, self.feat, self.dtype, spec["index_dtype"], spec["edge_order"], spec["code"], counts
        )

    def launch(self, decisions: Decisions) -> dict[str, int]:
        """The launch parameters of a schedule."""
        return spmm_csr.launch_parameters(decisions, self.target.threads)


@cache
def _template_digest() -> str:
    """Digest of the sources that decide what code a schedule becomes."""
    package = Path(__file__).parents[1]
    digest = xxhash.xxh3_64()
    for name in ("templates/spmm_csr.py", "ops/messages.py", "toolchain/launcher.py", "toolchain/link.py"):
        digest.update((package / name).read_bytes())
    return digest.hexdigest()
