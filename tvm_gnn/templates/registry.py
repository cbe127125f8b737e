"""All templates by primitive; a new one is a module beside this and a line here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from ..ops import Problem
from ..toolchain.target import CpuTarget
from . import (
    edge_softmax_csr,
    gat_csr,
    gatv2_csr,
    maxk_backward_csr,
    maxk_csr,
    relational_csr,
    sddmm_csr,
    sort_pool_csr,
    spmm_csr,
)
from .space import Counts, Space, Value


class Template(Protocol):
    """What a template's module has. Importing it imports no TVM.

    Attributes
    ----------
    ARGUMENTS : tuple of str
        Of a built library, in order: ``indptr``, ``indices``, ``edge_ids``, ``parts`` (row bounds of the parts), the
        operands by name, and scalars that are launch parameters. What a problem does not use gets a stand-in without
        rows.
    SOURCES : tuple of str
        Files of the package, besides those every template shares, that decide what code a schedule becomes.
    """

    ARGUMENTS: tuple[str, ...]
    SOURCES: tuple[str, ...]

    def space(self, problem: Problem, target: CpuTarget, counts: Counts) -> Space:
        """The schedules of a problem on a graph of this size; part and prefetch decisions as in `launch`."""

    def schedule_features(
        self, problem: Problem, graph: Mapping[str, Any], choice: Mapping[str, Value], threads: int
    ) -> dict[str, float]:
        """What the cost model sees of a schedule on a graph (as in a record); the same names for every schedule."""

    def scheduled_module(self, problem: Problem, code: Mapping[str, Value]) -> Any:
        """An IRModule with one function ``main``, ready to compile; node, edge and part counts are symbolic."""

    def static_module(self, problem: Problem, code: Mapping[str, Value], counts: Counts) -> Any:
        """The unscheduled function at static (num_dst, num_src, num_edges)."""


TEMPLATES: dict[str, Template] = {
    "spmm": spmm_csr,
    "sddmm": sddmm_csr,
    "edge_softmax": edge_softmax_csr,
    "gat": gat_csr,
    "relational": relational_csr,
    "gatv2": gatv2_csr,
    "maxk": maxk_csr,
    "maxk_backward": maxk_backward_csr,
    "sort_pool": sort_pool_csr,
}


def template_of(problem: Problem) -> Template:
    """The template that computes a problem."""
    return TEMPLATES[problem.op.primitive]
