"""A task: one operator at one width on one graph for one target, and the key its results are stored under."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np
import xxhash

from ..cache import TaskKey
from ..errors import InputError
from ..graph import Graph
from ..ops import SpMM
from ..ops.dims import DTYPES, RowShape, edge_shape, feature_shape, width
from ..templates import spmm_csr
from ..templates.space import Decisions, Space
from ..toolchain.importing import toolchain_version
from ..toolchain.target import CpuTarget

EDGE_ORDERS = ("caller", "csr")


@dataclass(frozen=True)
class Task:
    """What is tuned.

    Attributes
    ----------
    graph : Graph
    op : SpMM
    feat : int or (int, int)
        Feature width F >= 0, or heads and width per head.
    dtype : str
        Dtype of features, edge values and output.
    edge_order : {"caller", "csr"}
        Order in which edge values will be given: the caller's (the edge list's) or CSR order.
    target : CpuTarget
    edge_feat : shape, optional
        Of an edge's values; default: `SpMM.default_edge_feat`.
    """

    graph: Graph
    op: SpMM
    feat: int | tuple[int, int]
    dtype: str
    edge_order: str
    target: CpuTarget
    edge_feat: RowShape | None = None

    def __post_init__(self) -> None:
        shape = feature_shape(self.feat)
        # Plain ints: numpy's are neither JSON nor have a bit_length.
        object.__setattr__(self, "feat", shape[0] if len(shape) == 1 else shape)
        if self.edge_feat is None:
            object.__setattr__(self, "edge_feat", self.op.default_edge_feat(shape))
        elif not self.op.uses_edge:
            raise InputError(f"edge_feat: {self.op.name} reads no edge values (got {self.edge_feat}).")
        else:
            object.__setattr__(self, "edge_feat", edge_shape(self.edge_feat, shape))
            if not self.op.uses_src and width(self.edge_shape) != width(shape):
                raise InputError(f"edge_feat: must be feat for {self.op.name} (got {self.edge_feat} and {shape}).")
        if self.dtype not in DTYPES:
            raise InputError(f"dtype: must be one of {', '.join(DTYPES)} (got {self.dtype!r}).")
        if self.edge_order not in EDGE_ORDERS:
            raise InputError(f"edge_order: must be one of {', '.join(EDGE_ORDERS)} (got {self.edge_order!r}).")

    @property
    def shape(self) -> RowShape:
        """Shape of a row of features: (F,) or (heads, width)."""
        return self.feat if isinstance(self.feat, tuple) else (self.feat,)

    @property
    def width(self) -> int:
        """Numbers in a row of features."""
        return width(self.shape)

    @property
    def edge_shape(self) -> RowShape:
        """Shape of an edge's values."""
        assert self.edge_feat is not None
        return self.edge_feat

    @property
    def edge_width(self) -> int:
        """Numbers per edge; 1 where none are read."""
        return width(self.edge_shape) if self.op.uses_edge else 1

    @property
    def is_empty(self) -> bool:
        """Whether every output element is an empty sum, so that there is nothing to build."""
        return self.graph.num_edges == 0 or self.graph.num_dst == 0 or self.width == 0

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
        counts = self.graph.num_src, self.graph.num_edges
        return spmm_csr.space(self.width, self.dtype, self.target, *counts, self.edge_width)

    @cached_property
    def key(self) -> TaskKey:
        """What a tuned kernel depends on besides the graph."""
        return TaskKey(
            {
                "op": self.op.name,
                "feat": "x".join(map(str, self.shape)),
                "edge_feat": "x".join(map(str, self.edge_shape or (1,))) if self.op.uses_edge else "none",
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
            "feat": self.width,
            "edge_width": self.edge_width,
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
            self.op,
            self.width,
            self.dtype,
            spec["index_dtype"],
            spec["edge_order"],
            spec["code"],
            counts,
            self.edge_width,
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
