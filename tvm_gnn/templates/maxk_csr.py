"""MaxK over CSR rows: first every source row is compressed to its k largest, then rows gather compressed sources.

The template, its schedule space and its default schedule. Both steps are parallel loops of one function: the first cuts
the sources into even shares, the second the rows into nnz-balanced parts.

Compressing a row: the bound that k features pass is found by bisection, on the bits of floats, which as integers are in
the order of the floats; each step counts the features up to a bound with vector compares. Then one pass writes the
columns above it and, as far as k reaches, those equal to it. A row of `y` is itself the accumulator of the sum: it
stays in the core's first cache, while a kept feature may add to any of its columns. Of half types every part has a row
of `sums` for this, which is rounded into `y` once.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from ..ops import Problem
from ..ops.dtypes import itemsize_of
from ..ops.maxk import MaxK
from ..toolchain.importing import import_tvm
from ..toolchain.target import CpuTarget
from .compressed import CompressedSums
from .conversion import converted
from .expressions import BITS, float_at, folding, place_among_floats
from .launch import part_decisions, parts_are_distinct, parts_features, serial_or_balanced
from .space import Counts, Decision, Decisions, Space, Value
from .static_shapes import specialised

ARGUMENTS: tuple[str, ...] = (
    *("indptr", "indices", "edge_ids", "w", "x", "y", "values", "columns", "sums", "parts", "prefetch_distance"),
)
SOURCES: tuple[str, ...] = (
    "templates/maxk_csr.py",
    "templates/expressions.py",
    "templates/compressed.py",
    "templates/conversion.py",
    "ops/maxk.py",
    "ops/dtypes.py",
)

_CACHE_LINE_BYTES = 64
# A graph whose compressed features fit a core's own cache gains nothing from prefetching.
_PREFETCH_FROM_BYTES = 1 << 20
# Loops over more cache lines than this stay loops.
_MOST_UNROLLED = 16
# Vectors of maxima that are kept apart to find where the bisection may start.
_MOST_GROUPS = 8


def space(problem: Problem, target: CpuTarget, counts: Counts) -> Space:
    """The schedules of a MaxK problem on a graph of this size.

    Decisions: ``lanes`` of the vectors that the selection compares, ``unroll`` kept features of a neighbour at once,
    ``prefetch`` distance in neighbours (0: none), and those of `launch.part_decisions`.
    """
    k = _k(problem)
    widest = _floor_power_of_two(min(problem.width, max(1, target.vector_bytes // problem.arithmetic_itemsize)))

    def legal(choice: Mapping[str, Value]) -> bool:
        return parts_are_distinct(choice, target.threads, sees_cuts=True)

    decisions = (
        Decision("lanes", tuple(sorted({max(1, widest // 2), widest}))),
        Decision("unroll", tuple(sorted({min(k, unroll) for unroll in (1, 4, 8, 16)}))),
        Decision("prefetch", (0, 8, 16, 32)),
        *part_decisions(target.threads),
    )
    bytes_gathered = counts.num_src * k * problem.itemsize
    default: Decisions = {
        "lanes": widest,
        "unroll": min(k, 8),
        "prefetch": 16 if bytes_gathered > _PREFETCH_FROM_BYTES else 0,
        **serial_or_balanced(target.threads, counts.num_edges * k + counts.num_src * problem.width),
    }
    return Space(decisions, default, legal)


def schedule_features(
    problem: Problem, graph: Mapping[str, Any], choice: Mapping[str, Value], threads: int
) -> dict[str, float]:
    """What the cost model sees of a schedule: its decisions, and how they meet the graph and the width."""
    k = _k(problem)
    mean_degree = graph["num_edges"] / max(1, graph["num_dst"])
    return {
        "lanes": math.log2(int(choice["lanes"])),
        "unroll": float(choice["unroll"]),
        "groups_left_over": float(k % int(choice["unroll"])),
        "prefetch": float(choice["prefetch"]),
        "prefetch_over_degree": float(choice["prefetch"]) / max(1.0, mean_degree),
        "selected": k / problem.width,
        "edges_per_source": math.log2(1 + graph["num_edges"] / max(1, graph["num_src"])),
        **parts_features(problem, graph, choice, threads),
    }


def scheduled_module(problem: Problem, code: Mapping[str, Value]) -> Any:
    """An IRModule with one function ``main``, ready to compile; node, edge and part counts are symbolic."""
    tvm = import_tvm()
    return tvm.IRModule({"main": _prim_func(problem, code)})


def static_module(problem: Problem, code: Mapping[str, Value], counts: Counts) -> Any:
    """The same function with static (num_dst, num_src, num_edges): the workload as MetaSchedule knows it."""
    import_tvm()
    return specialised(_prim_func(problem, code), problem, counts, ("y", "x", "w", "indptr"))


def _prim_func(problem: Problem, code: Mapping[str, Value]) -> Any:
    from tvm import tirx
    from tvm.script import tirx as T

    op = problem.op
    assert isinstance(op, MaxK)
    F, k, dtype, index_dtype = problem.width, op.k, problem.dtype, problem.index_dtype
    itemsize, index_size, arithmetic = problem.itemsize, problem.index_itemsize, problem.arithmetic_dtype
    column_dtype = problem.dtype_of(problem.outputs[2])
    column_size = itemsize_of(column_dtype)
    kept_sums = CompressedSums(problem)
    loaded, message, edge_value = kept_sums.loaded, kept_sums.message, kept_sums.edge_value
    total, sums_row = kept_sums.buffer, kept_sums.row
    rounds, sums_width = kept_sums.rounds, kept_sums.width
    lanes, unroll, prefetch = int(code["lanes"]), int(code["unroll"]), bool(code["prefetch"])
    whole, left_over = F // lanes, F % lanes
    bits_dtype = BITS[arithmetic]

    # The least of at least k maxima of disjoint sets of features is passed or met by k features.
    groups = -(-k // lanes)
    if groups > min(whole, _MOST_GROUPS):
        groups = 0

    lines = -(-k * itemsize // _CACHE_LINE_BYTES)
    column_lines = -(-k * column_size // _CACHE_LINE_BYTES)
    each_line = T.unroll if lines <= _MOST_UNROLLED else T.serial
    line, column_line = _CACHE_LINE_BYTES // itemsize, _CACHE_LINE_BYTES // column_size

    def middle(low: Any, high: Any) -> Any:  # rounded up; no sum that could overflow
        half = T.shift_right(T.bitwise_xor(low, high), T.Cast(bits_dtype, 1))
        return T.bitwise_or(low, high) - half

    def stays(value: Any, bound: Any) -> Any:
        # Whether a value does not pass a bound, which NaN always does; TVM's simplifier makes `<=` the negation of `>`.
        return tirx.any(value < bound, value == bound)

    def larger(a: Any, b: Any) -> Any:
        return tirx.Select(a > b, a, b)

    def smaller(a: Any, b: Any) -> Any:
        return tirx.Select(a < b, a, b)

    fold_larger, fold_smaller = folding(larger, lanes, 1), folding(smaller, lanes, 1)
    fold_sum = folding(lambda a, b: a + b, lanes, 1)

    def prefetched(address: Any) -> Any:  # for reading, into every level of cache, data
        return T.call_llvm_intrin("void", "llvm.prefetch", address, T.int32(0), T.int32(3), T.int32(1))

    kept = max(1, groups)  # vectors of maxima besides that of the last vector

    @T.prim_func(s_tir=True)  # type: ignore[untyped-decorator]
    def maxk(
        indptr_handle: T.handle,
        indices_handle: T.handle,
        edge_ids_handle: T.handle,
        w_handle: T.handle,
        x_handle: T.handle,
        y_handle: T.handle,
        values_handle: T.handle,
        columns_handle: T.handle,
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
        x = T.match_buffer(x_handle, (num_src, F), dtype, align=itemsize)
        y = T.match_buffer(y_handle, (num_dst, F), dtype, align=itemsize)
        values = T.match_buffer(values_handle, (num_src, k), dtype, align=itemsize)
        columns = T.match_buffer(columns_handle, (num_src, k), column_dtype, align=column_size)
        sums = T.match_buffer(sums_handle, (num_sums, sums_width), arithmetic, align=problem.arithmetic_itemsize)
        indptr = T.match_buffer(indptr_handle, (num_dst + 1,), index_dtype, align=index_size)
        parts = T.match_buffer(parts_handle, (num_bounds,), index_dtype, align=index_size)
        for share in T.parallel(num_bounds - 1):
            with T.sblock("share"):
                vs = T.axis.spatial(num_bounds - 1, share)
                T.reads(x[0:num_src, 0:F])
                T.writes(values[0:num_src, 0:k], columns[0:num_src, 0:k])
                maxima = T.sblock_alloc_buffer((kept + 1, lanes), arithmetic, scope="global")
                least = T.sblock_alloc_buffer((lanes,), arithmetic, scope="global")
                largest = T.sblock_alloc_buffer((lanes,), arithmetic, scope="global")
                count = T.sblock_alloc_buffer((lanes,), "int32", scope="global")
                places = T.sblock_alloc_buffer((2,), bits_dtype, scope="global")
                # How many columns are kept, and how many equal to the bound are still to be kept. Both are in use from
                # the start and alone in a buffer: what takes over a vector's memory, or has a neighbour, LLVM keeps in
                # a vector register.
                chosen = T.sblock_alloc_buffer((1,), "int32", scope="global")
                equals = T.sblock_alloc_buffer((1,), "int32", scope="global")
                feature = T.sblock_alloc_buffer((1,), arithmetic, scope="global")
                first: T.let[T.int64] = num_src * vs // (num_bounds - 1)
                for r in T.serial(num_src * (vs + 1) // (num_bounds - 1) - first):
                    chosen[0] = 0
                    equals[0] = 0
                    for g in T.unroll(kept + 1):
                        for lane in T.vectorized(lanes):
                            maxima[g, lane] = T.Cast(arithmetic, -math.inf)
                    for v in T.serial(whole // kept):
                        for g in T.unroll(kept):
                            for lane in T.vectorized(lanes):
                                maxima[g, lane] = larger(
                                    loaded(x[first + r, (v * kept + g) * lanes + lane]), maxima[g, lane]
                                )
                    for g in T.unroll(whole % kept):
                        for lane in T.vectorized(lanes):
                            maxima[g, lane] = larger(
                                loaded(x[first + r, (whole // kept * kept + g) * lanes + lane]), maxima[g, lane]
                            )
                    if left_over > 0:
                        for lane in T.vectorized(lanes):
                            maxima[kept, lane] = larger(loaded(x[first + r, F - lanes + lane]), maxima[kept, lane])
                    # More than k features pass the lower of the two bounds (or just k), less than k the upper one.
                    for lane in T.vectorized(lanes):
                        least[lane] = maxima[0, lane] if groups > 0 else T.Cast(arithmetic, -math.inf)
                    for g in T.unroll(max(groups, 1) - 1):
                        for lane in T.vectorized(lanes):
                            least[lane] = smaller(maxima[g + 1, lane], least[lane])
                    for lane in T.vectorized(lanes):
                        largest[lane] = maxima[0, lane]
                    for g in T.unroll(kept):
                        for lane in T.vectorized(lanes):
                            largest[lane] = larger(maxima[g + 1, lane], largest[lane])
                    fold_smaller(least)
                    fold_larger(largest)
                    places[0] = place_among_floats(least[0], arithmetic) - T.Cast(bits_dtype, 1)
                    places[1] = place_among_floats(largest[0], arithmetic)
                    while places[0] < places[1]:
                        bound: T.let[getattr(T, arithmetic)] = float_at(middle(places[0], places[1]), arithmetic)
                        for lane in T.vectorized(lanes):
                            count[lane] = 0
                        for v in T.serial(whole):
                            for lane in T.vectorized(lanes):
                                count[lane] = count[lane] + T.Cast(
                                    "int32", stays(loaded(x[first + r, v * lanes + lane]), bound)
                                )
                        if left_over > 0:
                            for lane in T.vectorized(lanes):
                                count[lane] = count[lane] + T.Cast(
                                    "int32",
                                    T.And(
                                        lane >= lanes - left_over, stays(loaded(x[first + r, F - lanes + lane]), bound)
                                    ),
                                )
                        place: T.let[getattr(T, bits_dtype)] = middle(places[0], places[1])
                        fold_sum(count)
                        passing: T.let[T.int32] = F - count[0]
                        equals[0] = k - passing
                        high: T.let[getattr(T, bits_dtype)] = places[1]
                        places[1] = T.Select(passing <= k, place, high)
                        places[0] = T.Select(T.Or(passing >= k, place == high), place, places[0])
                    limit: T.let[getattr(T, arithmetic)] = float_at(places[1], arithmetic)
                    for c in T.serial(F):
                        if chosen[0] < k:
                            columns[first + r, chosen[0]] = T.Cast(column_dtype, c)
                            feature[0] = loaded(x[first + r, c])
                            equal: T.let[T.int32] = T.Cast("int32", feature[0] == limit)
                            taken: T.let[T.int32] = T.Cast("int32", equals[0] > 0) * equal
                            equals[0] = equals[0] - equal
                            chosen[0] = chosen[0] + 1 - T.Cast("int32", stays(feature[0], limit)) + taken
                    for j in T.serial(k):
                        values[first + r, j] = x[first + r, T.Cast("int32", columns[first + r, j])]
        for part in T.parallel(num_bounds - 1):
            with T.sblock("part"):
                vp = T.axis.spatial(num_bounds - 1, part)
                T.reads(
                    parts[vp : vp + 2],
                    indptr[0 : num_dst + 1],
                    indices[0:num_edges],
                    edge_ids[0:num_ids],
                    w[0:num_weights, 0:1],
                    values[0:num_src, 0:k],
                    columns[0:num_src, 0:k],
                    y[0:num_dst, 0:F],
                    sums[0:num_sums, 0:sums_width],
                )
                T.writes(y[0:num_dst, 0:F], sums[0:num_sums, 0:sums_width])
                weight = T.sblock_alloc_buffer((1,), arithmetic, scope="global")
                for r in T.serial(T.Cast("int64", parts[vp + 1] - parts[vp])):
                    row: T.let[T.int64] = T.Cast("int64", parts[vp]) + r
                    start: T.let[T.int64] = T.Cast("int64", indptr[row])
                    stop: T.let[T.int64] = T.Cast("int64", indptr[row + 1])
                    for v in T.serial(whole):
                        for lane in T.vectorized(lanes):
                            total(y, sums)[sums_row(row, vp), v * lanes + lane] = T.Cast(arithmetic, 0)
                    for c in T.serial(left_over):
                        total(y, sums)[sums_row(row, vp), whole * lanes + c] = T.Cast(arithmetic, 0)
                    for j in T.serial(stop - start):
                        if prefetch:
                            ahead: T.let[T.int64] = T.Cast(
                                "int64", indices[T.min(start + j + prefetch_distance, num_edges - 1)]
                            )
                            for p in each_line(lines):
                                T.evaluate(prefetched(T.address_of(values[ahead, T.min(p * line, k - 1)])))
                            for p in each_line(column_lines):
                                T.evaluate(prefetched(T.address_of(columns[ahead, T.min(p * column_line, k - 1)])))
                        source: T.let[T.int64] = T.Cast("int64", indices[start + j])
                        weight[0] = edge_value(w, edge_ids, start + j)
                        for c in T.serial(k // unroll):
                            for u in T.unroll(unroll):
                                total(y, sums)[sums_row(row, vp), T.Cast("int32", columns[source, c * unroll + u])] = (
                                    total(y, sums)[sums_row(row, vp), T.Cast("int32", columns[source, c * unroll + u])]
                                    + message(values[source, c * unroll + u], weight[0])
                                )
                        for u in T.unroll(k % unroll):
                            total(y, sums)[sums_row(row, vp), T.Cast("int32", columns[source, k - k % unroll + u])] = (
                                total(y, sums)[sums_row(row, vp), T.Cast("int32", columns[source, k - k % unroll + u])]
                                + message(values[source, k - k % unroll + u], weight[0])
                            )
                    if op.reduce_op.divides_by_degree:
                        degree: T.let[getattr(T, arithmetic)] = T.Cast(arithmetic, T.max(stop - start, T.int64(1)))
                        for v in T.serial(whole):
                            for lane in T.vectorized(lanes):
                                total(y, sums)[sums_row(row, vp), v * lanes + lane] = (
                                    total(y, sums)[sums_row(row, vp), v * lanes + lane] / degree
                                )
                        for c in T.serial(left_over):
                            total(y, sums)[sums_row(row, vp), whole * lanes + c] = (
                                total(y, sums)[sums_row(row, vp), whole * lanes + c] / degree
                            )
                    if rounds:
                        for v in T.serial(whole):
                            for lane in T.vectorized(lanes):
                                y[row, v * lanes + lane] = converted(sums[vp, v * lanes + lane], arithmetic, dtype)
                        for c in T.serial(left_over):
                            y[row, whole * lanes + c] = converted(sums[vp, whole * lanes + c], arithmetic, dtype)

    return maxk


def _k(problem: Problem) -> int:
    operator = problem.op
    assert isinstance(operator, MaxK)
    return operator.k


def _floor_power_of_two(value: int) -> int:
    return 1 << (max(1, value).bit_length() - 1)
