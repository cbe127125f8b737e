"""g-SDDMM over CSR rows in nnz-balanced parts: the TensorIR template, its schedule space and its default schedule.

A part is a run of destination rows; with slices of sources (`graph.sliced`) it takes one slice after the other, all of
its rows in each. Within a row the neighbours are taken in groups of `unroll`, so that their gathers and the latencies
of their sums overlap. A dot product multiplies vectors of `lanes` features and sums across the lanes once per head;
where the width is no multiple, the last vector overlaps the one before it, with the lanes counted already left out (a
sum) or written twice (a plain result).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from ..ops import Problem
from ..ops.sddmm import SDDMM
from ..toolchain.importing import import_tvm
from ..toolchain.target import CpuTarget
from .conversion import converted
from .expressions import sum_across
from .launch import part_decisions, parts_are_distinct, parts_features, serial_or_balanced, slice_counts
from .space import Counts, Decision, Decisions, Space, Value
from .static_shapes import specialised

ARGUMENTS: tuple[str, ...] = (
    *("indptr", "slice_indptr", "indices", "edge_ids", "lhs", "rhs", "out"),
    *("parts", "slices", "prefetch_distance"),
)
SOURCES: tuple[str, ...] = ("templates/sddmm_csr.py", "templates/expressions.py", "ops/sddmm.py")

_CACHE_LINE_BYTES = 64
# A graph whose features fit a core's own cache gains nothing from prefetching.
_PREFETCH_FROM_BYTES = 1 << 20
# Loops of more vectors than this stay loops.
_MOST_UNROLLED = 16


def space(problem: Problem, target: CpuTarget, counts: Counts) -> Space:
    """The schedules of a g-SDDMM problem on a graph of this size.

    Decisions: ``lanes`` per vector, ``unroll`` neighbours at once, ``slices`` of sources (1: none), ``prefetch``
    distance of source rows in neighbours (0: none), and those of `launch.part_decisions`.
    """
    _, width = _heads(problem)
    widest = _floor_power_of_two(min(width, max(1, target.vector_bytes // problem.arithmetic_itemsize)))
    gathers = "src" in {each.rows for each in problem.inputs}

    def legal(choice: Mapping[str, Value]) -> bool:
        prefetches, sliced = int(choice["prefetch"]) > 0, int(choice["slices"]) > 1
        return parts_are_distinct(choice, target.threads) and not (prefetches and (sliced or not gathers))

    decisions = (
        Decision("lanes", tuple(sorted({max(1, widest // 2), widest}))),
        Decision("unroll", (1, 2, 4, 8)),
        Decision("slices", slice_counts(counts, gathers * problem.width * problem.itemsize)),
        Decision("prefetch", (0, 8, 16, 32)),
        *part_decisions(target.threads),
    )
    bytes_gathered = counts.num_src * problem.width * problem.itemsize
    default: Decisions = {
        "lanes": widest,
        "unroll": 4,
        "slices": 1,
        "prefetch": 16 if gathers and bytes_gathered > _PREFETCH_FROM_BYTES else 0,
        **serial_or_balanced(target.threads, counts.num_edges * problem.width),
    }
    return Space(decisions, default, legal)


def schedule_features(
    problem: Problem, graph: Mapping[str, Any], choice: Mapping[str, Value], threads: int
) -> dict[str, float]:
    """What the cost model sees of a schedule: its decisions, and how they meet the graph and the width."""
    lanes, unroll = int(choice["lanes"]), int(choice["unroll"])
    mean_degree = graph["num_edges"] / max(1, graph["num_dst"])
    _, width = _heads(problem)
    return {
        "lanes": math.log2(lanes),
        "unroll": float(unroll),
        "vectors": -(-width // lanes) / 1.0,
        "columns_computed": -(-width // lanes) * lanes / max(1, width),
        "slices": math.log2(int(choice["slices"])),
        "edges_in_slice": mean_degree / int(choice["slices"]),
        "prefetch": float(choice["prefetch"]),
        "prefetch_over_degree": float(choice["prefetch"]) / max(1.0, mean_degree),
        "full_groups": mean_degree / unroll,
        **parts_features(problem, graph, choice, threads),
    }


def scheduled_module(problem: Problem, code: Mapping[str, Value]) -> Any:
    """An IRModule with one function ``main``, ready to compile; node, edge and part counts are symbolic."""
    tvm = import_tvm()
    return tvm.IRModule({"main": _prim_func(problem, code)})


def static_module(problem: Problem, code: Mapping[str, Value], counts: Counts) -> Any:
    """The same function with static (num_dst, num_src, num_edges): the workload as MetaSchedule knows it."""
    import_tvm()
    return specialised(_prim_func(problem, code), problem, counts)


def _prim_func(problem: Problem, code: Mapping[str, Value]) -> Any:
    from tvm.script import tirx as T

    op = problem.op
    assert isinstance(op, SDDMM)
    dtype, index_dtype, edge_order = problem.dtype, problem.index_dtype, problem.edge_order
    itemsize, index_size, arithmetic = problem.itemsize, problem.index_itemsize, problem.arithmetic_dtype
    lanes, unroll, prefetch = int(code["lanes"]), int(code["unroll"]), bool(code["prefetch"])
    sliced = bool(code["slices"])
    heads, D = _heads(problem)
    whole, left_over = D // lanes, D % lanes
    each_head = T.unroll if heads * whole <= _MOST_UNROLLED else T.serial
    each_vector = T.unroll if whole <= _MOST_UNROLLED else T.serial
    widths = {each.name: each.width for each in problem.inputs}
    lhs_width, rhs_width, out_width = widths["lhs"], widths.get("rhs", 1), problem.outputs[0].width
    lhs_is_gathered = op.lhs == "u"
    gathered_width = lhs_width if lhs_is_gathered else rhs_width
    line = _CACHE_LINE_BYTES // itemsize
    lines = -(-gathered_width // line)

    def place(target: str | None, source: Any, row: Any, edge: Any) -> Any:
        return {"u": source, "v": row, "e": edge, None: T.int64(0)}[target]

    def column(of_width: int, head: Any, start: Any, lane: Any) -> Any:
        return head * D + start + lane if of_width == heads * D else 0 if of_width == 1 else head

    def combined(lhs: Any, rhs: Any, at: tuple[Any, Any], head: Any, start: Any, lane: Any) -> Any:
        left = lhs[at[0], column(lhs_width, head, start, lane)]
        if op.combine_op is None:
            return left
        right = rhs[at[1], column(rhs_width, head, start, lane)]
        return op.combine_op.function(converted(left, dtype, arithmetic), converted(right, dtype, arithmetic))

    def stored(*operands: Any) -> Any:
        return combined(*operands) if op.combine_op is None else converted(combined(*operands), arithmetic, dtype)

    def not_counted_yet(lane: Any, product: Any) -> Any:  # in the last vector, which overlaps the one before it
        return T.Select(lane >= lanes - left_over, product, T.Cast(arithmetic, 0))

    def edge_at(edge_ids: Any, p: Any) -> Any:
        return T.Cast("int64", edge_ids[p]) if sliced or edge_order == "edge_ids" else p

    def pointers(indptr: Any, slice_indptr: Any) -> Any:
        return slice_indptr if sliced else indptr

    def grouped(size: int) -> Any:
        """``group(…)`` for use in TVMScript: all of `size` edges of a row, from the one at `first`."""

        @T.macro
        def group(arrays, row, first, distance):
            lhs, rhs, out, indices, edge_ids, acc, sums = arrays
            if prefetch:
                for u in T.unroll(size):
                    ahead: T.let[T.int64] = T.Cast("int64", indices[T.min(first + u + distance, indices.shape[0] - 1)])
                    for p in T.unroll(lines):
                        T.evaluate(
                            T.call_llvm_intrin(
                                "void",
                                "llvm.prefetch",
                                T.address_of(
                                    lhs[ahead, T.min(p * line, lhs_width - 1)]
                                    if lhs_is_gathered
                                    else rhs[ahead, T.min(p * line, rhs_width - 1)]
                                ),
                                T.int32(0),  # for reading
                                T.int32(3),  # into every level of cache
                                T.int32(1),  # data
                            )
                        )
            for h in each_head(heads):
                if op.reduces:
                    for u in T.unroll(size):
                        for lane in T.vectorized(lanes):
                            acc[u, lane] = T.Cast(arithmetic, 0)
                for u in T.unroll(size):
                    source: T.let[T.int64] = T.Cast("int64", indices[first + u])
                    edge: T.let[T.int64] = edge_at(edge_ids, first + u)
                    lhs_row: T.let[T.int64] = place(op.lhs, source, row, edge)
                    rhs_row: T.let[T.int64] = place(op.rhs, source, row, edge)
                    if op.reduces:
                        for v in each_vector(whole):
                            for lane in T.vectorized(lanes):
                                acc[u, lane] = acc[u, lane] + combined(lhs, rhs, (lhs_row, rhs_row), h, v * lanes, lane)
                        if left_over > 0:
                            for lane in T.vectorized(lanes):
                                acc[u, lane] = acc[u, lane] + not_counted_yet(
                                    lane, combined(lhs, rhs, (lhs_row, rhs_row), h, D - lanes, lane)
                                )
                    else:
                        for v in each_vector(whole):
                            for lane in T.vectorized(lanes):
                                out[edge, h * D + v * lanes + lane] = stored(
                                    lhs, rhs, (lhs_row, rhs_row), h, v * lanes, lane
                                )
                        if left_over > 0:
                            for lane in T.vectorized(lanes):
                                out[edge, h * D + D - lanes + lane] = stored(
                                    lhs, rhs, (lhs_row, rhs_row), h, D - lanes, lane
                                )
                if op.reduces:
                    for u in T.unroll(size):
                        # Kept first: LLVM sees a vector of one number, which it converts to no half type.
                        sums[u] = sum_across(acc, (u,), lanes, arithmetic)
                    for u in T.unroll(size):
                        out[edge_at(edge_ids, first + u), h] = converted(sums[u], arithmetic, dtype)

        return group

    full_group, one_edge = grouped(unroll), grouped(1)

    # `indptr` has a size of its own: not every operator has an operand that tells the number of rows.
    @T.prim_func(s_tir=True)  # type: ignore[untyped-decorator]
    def sddmm(
        indptr_handle: T.handle,
        slice_indptr_handle: T.handle,
        indices_handle: T.handle,
        edge_ids_handle: T.handle,
        lhs_handle: T.handle,
        rhs_handle: T.handle,
        out_handle: T.handle,
        parts_handle: T.handle,
        slices: T.int64,
        prefetch_distance: T.int64,
    ):
        T.func_attr({"global_symbol": "main", "tirx.noalias": True})
        num_pointers = T.int64()
        num_slice_pointers = T.int64()
        num_edges = T.int64()
        num_ids = T.int64()
        num_lhs = T.int64()
        num_rhs = T.int64()
        num_bounds = T.int64()
        indptr = T.match_buffer(indptr_handle, (num_pointers,), index_dtype, align=index_size)
        slice_indptr = T.match_buffer(slice_indptr_handle, (num_slice_pointers,), index_dtype, align=index_size)
        indices = T.match_buffer(indices_handle, (num_edges,), index_dtype, align=index_size)
        edge_ids = T.match_buffer(edge_ids_handle, (num_ids,), index_dtype, align=index_size)
        lhs = T.match_buffer(lhs_handle, (num_lhs, lhs_width), dtype, align=itemsize)
        rhs = T.match_buffer(rhs_handle, (num_rhs, rhs_width), dtype, align=itemsize)
        out = T.match_buffer(out_handle, (num_edges, out_width), dtype, align=itemsize)
        parts = T.match_buffer(parts_handle, (num_bounds,), index_dtype, align=index_size)
        for part in T.parallel(num_bounds - 1):
            with T.sblock("part"):
                vp = T.axis.spatial(num_bounds - 1, part)
                T.reads(
                    parts[vp : vp + 2],
                    indptr[0:num_pointers],
                    slice_indptr[0:num_slice_pointers],
                    indices[0:num_edges],
                    edge_ids[0:num_ids],
                    lhs[0:num_lhs, 0:lhs_width],
                    rhs[0:num_rhs, 0:rhs_width],
                )
                T.writes(out[0:num_edges, 0:out_width])
                acc = T.sblock_alloc_buffer((unroll, lanes), arithmetic, scope="global")
                sums = T.sblock_alloc_buffer((unroll,), arithmetic, scope="global")
                for s, r in T.grid(slices if sliced else 1, T.Cast("int64", parts[vp + 1] - parts[vp])):
                    row: T.let[T.int64] = T.Cast("int64", parts[vp]) + r
                    at: T.let[T.int64] = s * (num_pointers - 1) + row
                    start: T.let[T.int64] = T.Cast("int64", pointers(indptr, slice_indptr)[at])
                    stop: T.let[T.int64] = T.Cast("int64", pointers(indptr, slice_indptr)[at + 1])
                    full: T.let[T.int64] = (stop - start) // unroll * unroll
                    for j in T.serial((stop - start) // unroll):
                        full_group(
                            (lhs, rhs, out, indices, edge_ids, acc, sums), row, start + j * unroll, prefetch_distance
                        )
                    if unroll > 1:
                        for j in T.serial(stop - start - full):
                            one_edge(
                                (lhs, rhs, out, indices, edge_ids, acc, sums), row, start + full + j, prefetch_distance
                            )

    return sddmm


def _heads(problem: Problem) -> tuple[int, int]:
    """Heads with a sum or an edge value of their own, and the width of each."""
    feat = problem.dims.feat
    operator = problem.op
    assert isinstance(operator, SDDMM)
    per_head = {each.width for each in problem.inputs} - {problem.width, 1}
    if len(feat) == 2 and (operator.reduces or per_head):
        return feat[0], feat[1]
    return 1, problem.width


def _floor_power_of_two(value: int) -> int:
    return 1 << (max(1, value).bit_length() - 1)
