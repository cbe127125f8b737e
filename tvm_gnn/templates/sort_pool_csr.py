"""Sort pooling over CSR rows in nnz-balanced parts: the TensorIR template, its schedules and its default schedule.

Each of the k rows is found in one pass over its segment: the largest of those that come after the one before it. This
takes no memory, whatever a segment's length; it is meant for segments of some hundred rows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from ..ops import Problem
from ..ops.sort_pool import SortPool
from ..toolchain.importing import import_tvm
from ..toolchain.target import CpuTarget
from .conversion import converted
from .expressions import BITS, place_among_floats
from .launch import part_decisions, parts_are_distinct, parts_features, serial_or_balanced
from .space import Counts, Decision, Decisions, Space, Value
from .static_shapes import specialised

ARGUMENTS: tuple[str, ...] = ("indptr", "edge_ids", "x", "y", "rows", "parts")
SOURCES: tuple[str, ...] = ("templates/sort_pool_csr.py", "templates/expressions.py", "ops/dtypes.py")


def space(problem: Problem, target: CpuTarget, counts: Counts) -> Space:
    """The schedules of the problem on a graph of this size: ``lanes`` of a copy, and `launch.part_decisions`."""
    widest = 1 << (min(problem.width, max(1, target.vector_bytes // problem.itemsize)).bit_length() - 1)

    def legal(choice: Mapping[str, Value]) -> bool:
        return parts_are_distinct(choice, target.threads)

    decisions = (
        Decision("lanes", tuple(sorted({max(1, widest // 2), widest}))),
        Decision("prefetch", (0,)),
        *part_decisions(target.threads),
    )
    default: Decisions = {
        "lanes": widest,
        "prefetch": 0,
        **serial_or_balanced(target.threads, counts.num_edges * _k(problem)),
    }
    return Space(decisions, default, legal)


def schedule_features(
    problem: Problem, graph: Mapping[str, Any], choice: Mapping[str, Value], threads: int
) -> dict[str, float]:
    """What the cost model sees of a schedule."""
    return {"lanes": math.log2(int(choice["lanes"])), **parts_features(problem, graph, choice, threads)}


def scheduled_module(problem: Problem, code: Mapping[str, Value]) -> Any:
    """An IRModule with one function ``main``, ready to compile; node, edge and part counts are symbolic."""
    tvm = import_tvm()
    return tvm.IRModule({"main": _prim_func(problem, code)})


def static_module(problem: Problem, code: Mapping[str, Value], counts: Counts) -> Any:
    """The same function with static (num_dst, num_src, num_edges): the workload as MetaSchedule knows it."""
    import_tvm()
    return specialised(_prim_func(problem, code), problem, counts, ("y", "rows", "indptr"))


def _prim_func(problem: Problem, code: Mapping[str, Value]) -> Any:
    from tvm import tirx
    from tvm.script import tirx as T

    F, k, dtype, index_dtype = problem.width, _k(problem), problem.dtype, problem.index_dtype
    itemsize, index_size, arithmetic = problem.itemsize, problem.index_itemsize, problem.arithmetic_dtype
    lanes = int(code["lanes"])
    whole, left_over = F // lanes, F % lanes
    bits = BITS[arithmetic]
    first_place = (1 << (8 * problem.arithmetic_itemsize - 1)) - 1  # that of NaN
    last_place = -first_place - 1  # below every float's

    def place(number: Any) -> Any:
        is_number = tirx.any(number < math.inf, number == math.inf)
        return tirx.Select(is_number, place_among_floats(number, arithmetic), tirx.const(first_place, bits))

    def edge_at(edge_ids: Any, p: Any) -> Any:
        return T.Cast("int64", edge_ids[p]) if problem.edge_order == "edge_ids" else p

    @T.prim_func(s_tir=True)  # type: ignore[untyped-decorator]
    def sort_pool(
        indptr_handle: T.handle,
        edge_ids_handle: T.handle,
        x_handle: T.handle,
        y_handle: T.handle,
        rows_handle: T.handle,
        parts_handle: T.handle,
    ):
        T.func_attr({"global_symbol": "main", "tirx.noalias": True})
        num_dst = T.int64()
        num_edges = T.int64()
        num_ids = T.int64()
        num_bounds = T.int64()
        edge_ids = T.match_buffer(edge_ids_handle, (num_ids,), index_dtype, align=index_size)
        x = T.match_buffer(x_handle, (num_edges, F), dtype, align=itemsize)
        y = T.match_buffer(y_handle, (num_dst, k * F), dtype, align=itemsize)
        rows = T.match_buffer(rows_handle, (num_dst, k), index_dtype, align=index_size)
        indptr = T.match_buffer(indptr_handle, (num_dst + 1,), index_dtype, align=index_size)
        parts = T.match_buffer(parts_handle, (num_bounds,), index_dtype, align=index_size)
        for part in T.parallel(num_bounds - 1):
            with T.sblock("part"):
                vp = T.axis.spatial(num_bounds - 1, part)
                T.reads(parts[vp : vp + 2], indptr[0 : num_dst + 1], edge_ids[0:num_ids], x[0:num_edges, 0:F])
                T.writes(y[0:num_dst, 0 : k * F], rows[0:num_dst, 0:k])
                # The place and the position of the row taken last, and of the best one after it so far.
                places = T.sblock_alloc_buffer((2,), bits, scope="global")
                positions = T.sblock_alloc_buffer((2,), "int64", scope="global")
                number = T.sblock_alloc_buffer((1,), arithmetic, scope="global")
                for r in T.serial(T.Cast("int64", parts[vp + 1] - parts[vp])):
                    row: T.let[T.int64] = T.Cast("int64", parts[vp]) + r
                    start: T.let[T.int64] = T.Cast("int64", indptr[row])
                    stop: T.let[T.int64] = T.Cast("int64", indptr[row + 1])
                    places[0] = T.Cast(bits, first_place)
                    positions[0] = start - T.int64(1)
                    for j in T.serial(k):
                        places[1] = T.Cast(bits, last_place)
                        positions[1] = T.int64(-1)
                        for p in T.serial(stop - start):
                            # Into a buffer first; see `conversion`.
                            number[0] = converted(x[edge_at(edge_ids, start + p), F - 1], dtype, arithmetic)
                            own: T.let[getattr(T, bits)] = place(number[0])
                            comes_after: T.let[T.bool] = T.Or(
                                own < places[0], T.And(own == places[0], start + p > positions[0])
                            )
                            better: T.let[T.bool] = T.And(comes_after, own > places[1])
                            places[1] = T.Select(better, own, places[1])
                            positions[1] = T.Select(better, start + p, positions[1])
                        places[0] = places[1]
                        positions[0] = positions[1]
                        if positions[1] >= T.int64(0):
                            edge: T.let[T.int64] = edge_at(edge_ids, positions[1])
                            rows[row, j] = T.Cast(index_dtype, edge)
                            for v in T.serial(whole):
                                for lane in T.vectorized(lanes):
                                    y[row, j * F + v * lanes + lane] = x[edge, v * lanes + lane]
                            for c in T.serial(left_over):
                                y[row, j * F + whole * lanes + c] = x[edge, whole * lanes + c]
                        else:
                            rows[row, j] = T.Cast(index_dtype, -1)
                            for c in T.serial(F):
                                y[row, j * F + c] = T.Cast(dtype, 0)

    return sort_pool


def _k(problem: Problem) -> int:
    operator = problem.op
    assert isinstance(operator, SortPool)
    return operator.k
