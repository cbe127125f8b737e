"""g-SpMM over CSR rows in nnz-balanced parts, whole or in slices of sources: its space and its default schedule."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from ..ops import Problem
from ..ops.spmm import SpMM
from ..toolchain.importing import import_tvm
from ..toolchain.target import CpuTarget
from . import spmm_sliced_function
from .launch import dense_default, part_decisions, parts_are_distinct, parts_features, serial_or_balanced, slice_counts
from .space import Counts, Decision, Decisions, Space, Value
from .spmm_cells import accumulators, heads_of
from .spmm_csr_function import prim_func, scheduled
from .static_shapes import specialised

ARGUMENTS: tuple[str, ...] = (
    *("indptr", "slice_indptr", "indices", "edge_ids", "w", "x", "y", "arg"),
    *("parts", "slices", "prefetch_distance"),
)
SOURCES: tuple[str, ...] = (
    "templates/spmm_csr.py",
    "templates/spmm_cells.py",
    "templates/spmm_csr_function.py",
    "templates/spmm_sliced_function.py",
    "templates/expressions.py",
    "ops/messages.py",
)

# TVM moves a stack buffer of this size to its heap workspace (see `toolchain.link`).
_STACK_BUFFER_BYTES = 1024
# A graph whose features fit a core's own cache gains nothing from prefetching.
_PREFETCH_FROM_BYTES = 1 << 20


def space(problem: Problem, target: CpuTarget, counts: Counts) -> Space:
    """The schedules of a g-SpMM problem on a graph of this size.

    Decisions: ``lanes`` per vector, ``vectors`` per tile, ``unroll`` over neighbours with separate accumulators,
    ``order`` of the loops over rows and tiles inside a part, ``slices`` of sources (1: none), ``prefetch`` distance in
    neighbours (0: none), and those of `launch.part_decisions`.
    """
    itemsize, feat = problem.arithmetic_itemsize, problem.width
    heads, width = heads_of(feat, problem.edge_width)
    widest = _floor_power_of_two(min(width, max(1, target.vector_bytes // itemsize)))
    lanes = tuple(sorted({max(1, widest // 2), widest}))

    def total_vectors(per_vector: int) -> int:
        return heads * -(-width // per_vector)

    # What an accumulator takes: the value and, where the edge is asked for, its position.
    index_size = problem.index_itemsize if _arg(problem) else 0
    registers_each = 1 + -(-index_size // itemsize)
    most_vectors = total_vectors(lanes[0])
    vectors = tuple(sorted({v for v in (1, 2, 3, 4, 8, 16, total_vectors(widest)) if v <= most_vectors}))

    def legal(choice: Mapping[str, Value]) -> bool:
        per_vector, tile, unroll = int(choice["lanes"]), int(choice["vectors"]), int(choice["unroll"])
        total = total_vectors(per_vector)
        sliced = int(choice["slices"]) > 1
        registers = accumulators(unroll) * tile * registers_each
        return (
            tile <= total
            and not (sliced and (choice["prefetch"] or total % tile))
            and unroll * tile * per_vector * max(itemsize, index_size) < _STACK_BUFFER_BYTES
            and registers <= target.vector_registers - 3
            and (choice["order"] == "rows" or tile < total)
            # Inside a thread's share only the tile loop sees where it is cut.
            and parts_are_distinct(choice, target.threads, sees_cuts=choice["order"] == "tiles")
        )

    slices = _slice_counts(problem, counts)
    decisions = (
        Decision("lanes", lanes),
        Decision("vectors", vectors),
        Decision("unroll", (1, 2, 4)),
        Decision("order", ("rows", "tiles")),
        Decision("slices", slices),
        Decision("prefetch", (0, 8, 16, 32)),
        *part_decisions(target.threads),
    )
    default: Decisions = {
        "lanes": widest,
        "vectors": 1,
        "unroll": 1,
        "order": "rows",
        "slices": 1,
        "prefetch": 16 if counts.num_src * feat * problem.itemsize > _PREFETCH_FROM_BYTES else 0,
        **serial_or_balanced(target.threads, counts.num_edges * feat),
        **dense_default(counts, feat * problem.itemsize, target.threads, slices),
    }
    default["vectors"] = max((v for v in vectors if legal({**default, "vectors": v})), default=1)
    return Space(decisions, default, legal)


def schedule_features(
    problem: Problem, graph: Mapping[str, Any], choice: Mapping[str, Value], threads: int
) -> dict[str, float]:
    """What the cost model sees of a schedule: its decisions, and how they meet the graph and the width."""
    lanes, vectors, unroll = int(choice["lanes"]), int(choice["vectors"]), int(choice["unroll"])
    tile = lanes * vectors
    tiles = -(-problem.width // tile)
    mean_degree = graph["num_edges"] / max(1, graph["num_dst"])
    return {
        "lanes": math.log2(lanes),
        "vectors": float(vectors),
        "unroll": float(unroll),
        "registers": float(vectors * accumulators(unroll)),
        "tile": math.log2(tile),
        "tiles": float(tiles),
        "columns_computed": tiles * tile / problem.width,  # over 1 where the last vector or tile overlaps
        "tiles_outermost": float(choice["order"] == "tiles"),
        "slices": math.log2(int(choice["slices"])),
        "edges_in_slice": mean_degree / int(choice["slices"]),
        "slice_bytes": math.log2(1 + graph["num_src"] * min(tile, problem.width) * problem.itemsize)
        - math.log2(int(choice["slices"])),
        "prefetch": float(choice["prefetch"]),
        "prefetch_over_degree": float(choice["prefetch"]) / max(1.0, mean_degree),
        "tile_bytes": math.log2(1 + graph["num_src"] * min(tile, problem.width) * problem.itemsize),
        "full_groups": mean_degree / unroll,
        **parts_features(problem, graph, choice, threads),
    }


def scheduled_module(problem: Problem, code: Mapping[str, Value]) -> Any:
    """An IRModule with one function ``main``, ready to compile; node, edge and part counts are symbolic.

    Parameters
    ----------
    code : mapping
        `launch.code_decisions` of a schedule.
    """
    tvm = import_tvm()
    if code["slices"]:
        return tvm.IRModule({"main": spmm_sliced_function.prim_func(problem, code)})
    return scheduled(prim_func(problem, code), problem, unroll=int(code["unroll"]), order=str(code["order"]))


def static_module(problem: Problem, code: Mapping[str, Value], counts: Counts) -> Any:
    """The unscheduled function with static (num_dst, num_src, num_edges): the workload as MetaSchedule knows it."""
    import_tvm()
    function = (spmm_sliced_function.prim_func if code["slices"] else prim_func)(problem, code)
    # `y` comes before `indptr`: its shape is the plain variable that both share.
    return specialised(function, problem, counts, ("y", "x", "w", "indptr"))


def _slice_counts(problem: Problem, counts: Counts) -> tuple[int, ...]:
    """How many slices may pay: sums of slices are kept in the output, which a half type would round each time."""
    op = problem.op
    assert isinstance(op, SpMM)
    if op.arg or not op.uses_src or problem.dtype != problem.arithmetic_dtype:
        return (1,)
    return slice_counts(counts, problem.width * problem.itemsize)


def _arg(problem: Problem) -> bool:
    return isinstance(problem.op, SpMM) and problem.op.arg


def _floor_power_of_two(value: int) -> int:
    return 1 << (max(1, value).bit_length() - 1)
