"""A task: one operator at one width on one graph for one target, and the key its results are stored under."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np
import xxhash

from ..cache import TaskKey
from ..errors import InputError
from ..graph import Graph
from ..ops import Operator, Problem
from ..ops.dims import RowShape, feature_shape
from ..templates import launch
from ..templates.registry import Template, template_of
from ..templates.space import Counts, Decisions, Space
from ..toolchain.importing import toolchain_version
from ..toolchain.target import CpuTarget

EDGE_ORDERS = ("caller", "csr")


@dataclass(frozen=True)
class Task:
    """What is tuned.

    Attributes
    ----------
    graph : Graph
    op : Operator
    feat : int or (int, int)
        Feature width F >= 0, or heads and width per head.
    dtype : str
        Dtype of values, in and out.
    edge_order : {"caller", "csr"}
        Order in which rows of edges will be given: the caller's (the edge list's) or CSR order.
    target : CpuTarget
    edge_feat : shape, optional
        Of an edge's values; default: the operator's.
    problem : Problem
        What is computed, without the graph; made of the others.
    """

    graph: Graph
    op: Operator
    feat: int | tuple[int, int]
    dtype: str
    edge_order: str
    target: CpuTarget
    edge_feat: RowShape | None = None
    problem: Problem = field(init=False)

    def __post_init__(self) -> None:
        shape = feature_shape(self.feat)
        # Plain ints: numpy's are neither JSON nor have a bit_length.
        object.__setattr__(self, "feat", shape[0] if len(shape) == 1 else shape)
        if self.edge_order not in EDGE_ORDERS:
            raise InputError(f"edge_order: must be one of {', '.join(EDGE_ORDERS)} (got {self.edge_order!r}).")
        dims = self.op.dims(shape, self.edge_feat)
        self.op.check_graph(self.graph.row_counts, self.graph.num_relations)
        permuted = self.op.uses_edges and self.edge_order == "caller" and self.graph.edge_ids is not None
        order = "edge_ids" if permuted else "csr"
        object.__setattr__(self, "problem", Problem(self.op, dims, self.dtype, self.graph.index_dtype, order))

    @property
    def kernel_edge_order(self) -> str:
        """How the kernel finds rows of edges: ``csr`` (in order) or ``edge_ids`` (through the permutation)."""
        return self.problem.edge_order

    @property
    def is_empty(self) -> bool:
        """Whether every output element is an empty sum, so that there is nothing to build."""
        return self.op.is_empty(self.problem.dims, self.graph.row_counts)

    def other_edge_order(self) -> Task | None:
        """The task whose kernels find the same rows of edges in the other order; None when there are none."""
        if not self.op.uses_edges:
            return None
        if self.kernel_edge_order == "edge_ids":
            return replace(self, edge_order="csr")
        graph = self.graph
        if graph.edge_ids is None:
            ids = np.arange(graph.num_edges, dtype=graph.index_dtype)
            graph = Graph(
                graph.indptr,
                graph.indices,
                num_src=graph.num_src,
                edge_ids=ids,
                name=graph.name,
                num_relations=graph.num_relations,
            )
        return replace(self, graph=graph, edge_order="caller")

    @cached_property
    def template(self) -> Template:
        """The template that computes it."""
        return template_of(self.problem)

    @cached_property
    def space(self) -> Space:
        """The schedule space of this task."""
        return self.template.space(self.problem, self.target, self._counts)

    @cached_property
    def key(self) -> TaskKey:
        """What a tuned kernel depends on besides the graph."""
        dims = self.problem.dims
        reads_edges = any(each.rows == "edge" for each in self.problem.inputs)
        return TaskKey(
            {
                "op": self.op.name,
                "feat": "x".join(map(str, dims.feat)),
                "edge_feat": "x".join(map(str, dims.edge_feat or (1,))) if reads_edges else "none",
                "dtype": self.dtype,
                "index": self.graph.index_dtype,
                "edge_order": self.kernel_edge_order,
                "target": self.target.kind,
                "cpu": self.target.cpu,
                "threads": str(self.target.threads),
                "template": _template_digest(self.template.SOURCES),
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
        return code_spec(self.problem, decisions)

    def static_module(self) -> Any:
        """The task's TensorIR function at this graph's sizes, for a search that needs static shapes."""
        return self.template.static_module(self.problem, launch.code_decisions(self.space.default), self._counts)

    @property
    def _counts(self) -> Counts:
        return Counts(self.graph.num_dst, self.graph.num_src, self.graph.num_edges)

    def launch(self, decisions: Decisions) -> dict[str, int]:
        """The launch parameters of a schedule."""
        return launch.launch_parameters(decisions, self.target.threads)


def code_spec(problem: Problem, decisions: Decisions) -> dict[str, Any]:
    """`Task.code_spec` of a problem on any graph."""
    return {**problem.as_dict(), "code": launch.code_decisions(decisions)}


# What decides the code of every template, besides its own sources.
_SHARED_SOURCES = (
    "templates/conversion.py",
    "templates/launch.py",
    "ops/dtypes.py",
    "toolchain/launcher.py",
    "toolchain/link.py",
)


@cache
def _template_digest(sources: tuple[str, ...]) -> str:
    """Digest of the sources that decide what code a schedule becomes."""
    package = Path(__file__).parents[1]
    digest = xxhash.xxh3_64()
    for name in (*sources, *_SHARED_SOURCES):
        digest.update((package / name).read_bytes())
    return digest.hexdigest()
