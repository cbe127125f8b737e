"""Gradient of compressed features over CSR rows: the TensorIR template, its schedule space and its default schedule.

A row of the reversed graph takes from each neighbour the columns that it kept itself, and nothing else: what is
gathered is read through the row's own columns, and a row of `out` is itself the accumulator of the sum; of half types
every part has a row of `sums` for this, which is rounded into `out` once.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from ..ops import Problem
from ..ops.dtypes import itemsize_of
from ..ops.maxk import MaxKBackward
from ..toolchain.importing import import_tvm
from ..toolchain.target import CpuTarget
from .compressed import CompressedSums
from .conversion import converted
from .launch import part_decisions, parts_are_distinct, parts_features, serial_or_balanced
from .space import Counts, Decision, Decisions, Space, Value
from .static_shapes import specialised

ARGUMENTS: tuple[str, ...] = (
    *("indptr", "indices", "edge_ids", "w", "gy", "columns", "out", "sums", "parts", "prefetch_distance"),
)
SOURCES: tuple[str, ...] = (
    "templates/maxk_backward_csr.py",
    "templates/compressed.py",
    "templates/conversion.py",
    "ops/maxk.py",
    "ops/dtypes.py",
)

_CACHE_LINE_BYTES = 64
# A graph whose features fit a core's own cache gains nothing from prefetching.
_PREFETCH_FROM_BYTES = 1 << 20
# Loops over more cache lines than this stay loops.
_MOST_UNROLLED = 16


def space(problem: Problem, target: CpuTarget, counts: Counts) -> Space:
    """The schedules of the problem on a graph of this size.

    Decisions: ``unroll`` kept features at once, ``prefetch`` distance in neighbours (0: none), and those of
    `launch.part_decisions`.
    """
    k = _k(problem)

    def legal(choice: Mapping[str, Value]) -> bool:
        return parts_are_distinct(choice, target.threads)

    decisions = (
        Decision("unroll", tuple(sorted({min(k, unroll) for unroll in (1, 4, 8, 16)}))),
        Decision("prefetch", (0, 8, 16, 32)),
        *part_decisions(target.threads),
    )
    bytes_gathered = counts.num_src * problem.width * problem.itemsize
    default: Decisions = {
        "unroll": min(k, 8),
        "prefetch": 16 if bytes_gathered > _PREFETCH_FROM_BYTES else 0,
        **serial_or_balanced(target.threads, counts.num_edges * k),
    }
    return Space(decisions, default, legal)


def schedule_features(
    problem: Problem, graph: Mapping[str, Any], choice: Mapping[str, Value], threads: int
) -> dict[str, float]:
    """What the cost model sees of a schedule: its decisions, and how they meet the graph and the width."""
    k = _k(problem)
    mean_degree = graph["num_edges"] / max(1, graph["num_dst"])
    return {
        "unroll": float(choice["unroll"]),
        "groups_left_over": float(k % int(choice["unroll"])),
        "prefetch": float(choice["prefetch"]),
        "prefetch_over_degree": float(choice["prefetch"]) / max(1.0, mean_degree),
        "selected": math.log2(k / problem.width),
        **parts_features(problem, graph, choice, threads),
    }


def scheduled_module(problem: Problem, code: Mapping[str, Value]) -> Any:
    """An IRModule with one function ``main``, ready to compile; node, edge and part counts are symbolic."""
    tvm = import_tvm()
    return tvm.IRModule({"main": _prim_func(problem, code)})


def static_module(problem: Problem, code: Mapping[str, Value], counts: Counts) -> Any:
    """The same function with static (num_dst, num_src, num_edges): the workload as MetaSchedule knows it."""
    import_tvm()
    return specialised(_prim_func(problem, code), problem, counts, ("out", "gy", "w", "columns", "indptr"))


def _prim_func(problem: Problem, code: Mapping[str, Value]) -> Any:
    from tvm.script import tirx as T

    op = problem.op
    assert isinstance(op, MaxKBackward)
    F, k, dtype, index_dtype = problem.width, op.k, problem.dtype, problem.index_dtype
    itemsize, index_size, arithmetic = problem.itemsize, problem.index_itemsize, problem.arithmetic_dtype
    kept_sums = CompressedSums(problem)
    message, edge_value = kept_sums.message, kept_sums.edge_value
    total, sums_row = kept_sums.buffer, kept_sums.row
    rounds, sums_width = kept_sums.rounds, kept_sums.width
    column_dtype = problem.dtype_of(problem.inputs[1])
    column_size = itemsize_of(column_dtype)
    unroll, prefetch = int(code["unroll"]), bool(code["prefetch"])
    line = _CACHE_LINE_BYTES // itemsize
    lines = -(-F // line)
    each_line = T.unroll if min(k, lines) <= _MOST_UNROLLED else T.serial

    def column(columns: Any, row: Any, n: Any) -> Any:  # a caller's wrong column must not lead outside the features
        found = T.Cast("int32", columns[row, n])
        covers_all = 1 << (8 * column_size)
        return found if covers_all == F else T.min(found, F - 1)

    def line_start(columns: Any, row: Any, p: Any) -> Any:  # of few kept features their own lines, else all
        return T.min(p * line, F - 1) if lines <= k else column(columns, row, p)

    @T.prim_func(s_tir=True)  # type: ignore[untyped-decorator]
    def maxk_backward(
        indptr_handle: T.handle,
        indices_handle: T.handle,
        edge_ids_handle: T.handle,
        w_handle: T.handle,
        gy_handle: T.handle,
        columns_handle: T.handle,
        out_handle: T.handle,
        sums_handle: T.handle,
        parts_handle: T.handle,
        prefetch_distance: T.int64,
    ):
        T.func_attr({"global_symbol": "main", "tirx.noalias": True})
        num_dst = T.int64()
        num_src = T.int64()
        num_edges = T.int64()
        num_ids = T.int64()
        num_weights = T.int64()
        num_sums = T.int64()
        num_bounds = T.int64()
        indices = T.match_buffer(indices_handle, (num_edges,), index_dtype, align=index_size)
        edge_ids = T.match_buffer(edge_ids_handle, (num_ids,), index_dtype, align=index_size)
        w = T.match_buffer(w_handle, (num_weights, 1), dtype, align=itemsize)
        gy = T.match_buffer(gy_handle, (num_src, F), dtype, align=itemsize)
        columns = T.match_buffer(columns_handle, (num_dst, k), column_dtype, align=column_size)
        out = T.match_buffer(out_handle, (num_dst, k), dtype, align=itemsize)
        sums = T.match_buffer(sums_handle, (num_sums, sums_width), arithmetic, align=problem.arithmetic_itemsize)
        indptr = T.match_buffer(indptr_handle, (num_dst + 1,), index_dtype, align=index_size)
        parts = T.match_buffer(parts_handle, (num_bounds,), index_dtype, align=index_size)
        for part in T.parallel(num_bounds - 1):
            with T.sblock("part"):
                vp = T.axis.spatial(num_bounds - 1, part)
                T.reads(
                    parts[vp : vp + 2],
                    indptr[0 : num_dst + 1],
                    indices[0:num_edges],
                    edge_ids[0:num_ids],
                    w[0:num_weights, 0:1],
                    gy[0:num_src, 0:F],
                    columns[0:num_dst, 0:k],
                    out[0:num_dst, 0:k],
                    sums[0:num_sums, 0:sums_width],
                )
                T.writes(out[0:num_dst, 0:k], sums[0:num_sums, 0:sums_width])
                weight = T.sblock_alloc_buffer((1,), arithmetic, scope="global")
                for r in T.serial(T.Cast("int64", parts[vp + 1] - parts[vp])):
                    row: T.let[T.int64] = T.Cast("int64", parts[vp]) + r
                    start: T.let[T.int64] = T.Cast("int64", indptr[row])
                    stop: T.let[T.int64] = T.Cast("int64", indptr[row + 1])
                    for c in T.serial(k):
                        total(out, sums)[sums_row(row, vp), c] = T.Cast(arithmetic, 0)
                    for j in T.serial(stop - start):
                        if prefetch:
                            ahead: T.let[T.int64] = T.Cast(
                                "int64", indices[T.min(start + j + prefetch_distance, num_edges - 1)]
                            )
                            for p in each_line(min(k, lines)):
                                T.evaluate(
                                    T.call_llvm_intrin(
                                        "void",
                                        "llvm.prefetch",
                                        T.address_of(gy[ahead, line_start(columns, row, p)]),
                                        T.int32(0),  # for reading
                                        T.int32(3),  # into every level of cache
                                        T.int32(1),  # data
                                    )
                                )
                        source: T.let[T.int64] = T.Cast("int64", indices[start + j])
                        weight[0] = edge_value(w, edge_ids, start + j)
                        for c in T.serial(k // unroll):
                            for u in T.unroll(unroll):
                                total(out, sums)[sums_row(row, vp), c * unroll + u] = total(out, sums)[
                                    sums_row(row, vp), c * unroll + u
                                ] + message(gy[source, column(columns, row, c * unroll + u)], weight[0])
                        for u in T.unroll(k % unroll):
                            total(out, sums)[sums_row(row, vp), k - k % unroll + u] = total(out, sums)[
                                sums_row(row, vp), k - k % unroll + u
                            ] + message(gy[source, column(columns, row, k - k % unroll + u)], weight[0])
                    if rounds:
                        for c in T.serial(k):
                            out[row, c] = converted(sums[vp, c], arithmetic, dtype)

    return maxk_backward


def _k(problem: Problem) -> int:
    operator = problem.op
    assert isinstance(operator, MaxKBackward)
    return operator.k
