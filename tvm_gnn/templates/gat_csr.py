"""Fused graph attention over CSR rows in nnz-balanced parts: the TensorIR template, its space and default schedule.

A part is a run of destination rows, a cell is one row by a group of heads (or, where one head is too wide for the
registers, by a span of its features). A first walk over a cell's edges finds the largest score; a second one takes
`chunk` edges at a time: their scores go through one exponential, whose vectors span edges and heads alike, and weigh
the sources' features into sums that stay in registers. Nothing of the size of the edges is written, unless the weights
themselves are asked for: then a third walk divides them by their sum (in a half type it also computes them again,
rather than round them twice).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..ops import Problem
from ..ops.attention import GAT, heads_of
from ..toolchain.importing import import_tvm
from ..toolchain.target import CpuTarget
from .conversion import converted
from .expressions import exponential, larger, leaky_relu
from .launch import part_decisions, parts_are_distinct, parts_features, serial_or_balanced
from .space import Counts, Decision, Decisions, Space, Value
from .static_shapes import specialised

ARGUMENTS: tuple[str, ...] = (
    *("indptr", "indices", "edge_ids", "z", "score_src", "score_dst", "y", "attention"),
    *("parts", "prefetch_distance"),
)
SOURCES: tuple[str, ...] = (
    "templates/gat_csr.py",
    "templates/expressions.py",
    "templates/conversion.py",
    "ops/attention.py",
    "ops/dtypes.py",
)

_CACHE_LINE_BYTES = 64
# TVM moves a stack buffer of this size to its heap workspace (see `toolchain.link`).
_STACK_BUFFER_BYTES = 1024
# A graph whose features fit a core's own cache gains nothing from prefetching.
_PREFETCH_FROM_BYTES = 1 << 20


def space(problem: Problem, target: CpuTarget, counts: Counts) -> Space:
    """The schedules of a graph attention problem on a graph of this size.

    Decisions: ``lanes`` per vector of features, ``vectors`` of sums that a cell keeps, ``chunk`` of edges whose
    exponentials are taken together, ``prefetch`` distance of source rows in edges (0: none), and those of
    `launch.part_decisions`.
    """
    heads, width = heads_of(problem.dims)
    itemsize = problem.arithmetic_itemsize
    full = max(1, target.vector_bytes // itemsize)
    widest = _floor_power_of_two(min(width, full))
    most = target.vector_registers * 3 // 4
    chunks = (2, 4, 8, 16)
    fits = [v for v in (4, 8, 12, 16, 24) if v <= most]
    vectors = tuple(fits[-2:])

    def legal(choice: Mapping[str, Value]) -> bool:
        group = _tile(heads, width, int(choice["lanes"]), int(choice["vectors"]), itemsize)[0]
        numbers = int(choice["chunk"]) * group
        smaller = [v for v in vectors if v < int(choice["vectors"])]
        return (
            parts_are_distinct(choice, target.threads)
            and numbers * itemsize < _STACK_BUFFER_BYTES
            and (numbers <= 8 * full or choice["chunk"] == chunks[0])
            # A larger bound that gives the same tiles is the same schedule.
            and not any(
                _tile(heads, width, int(choice["lanes"]), v, itemsize)
                == _tile(heads, width, int(choice["lanes"]), int(choice["vectors"]), itemsize)
                for v in smaller
            )
        )

    decisions = (
        Decision("lanes", tuple(sorted({max(1, widest // 2), widest}))),
        Decision("vectors", vectors),
        Decision("chunk", chunks),
        Decision("prefetch", (0, 8, 16, 32)),
        *part_decisions(target.threads),
    )
    default: Decisions = {
        "lanes": widest,
        "vectors": vectors[0],
        "chunk": chunks[0],
        "prefetch": 16 if counts.num_src * problem.width * problem.itemsize > _PREFETCH_FROM_BYTES else 0,
        **serial_or_balanced(target.threads, 2 * counts.num_edges * problem.width),
    }
    default["vectors"] = max(v for v in vectors if legal({**default, "vectors": v}))
    default["chunk"] = max(c for c in chunks[:3] if legal({**default, "chunk": c}))
    return Space(decisions, default, legal)


def schedule_features(
    problem: Problem, graph: Mapping[str, Any], choice: Mapping[str, Value], threads: int
) -> dict[str, float]:
    """What the cost model sees of a schedule: its decisions, and how they meet the graph and the width."""
    heads, width = heads_of(problem.dims)
    chunk, lanes = int(choice["chunk"]), int(choice["lanes"])
    group, span = _tile(heads, width, lanes, int(choice["vectors"]), problem.arithmetic_itemsize)
    mean_degree = graph["num_edges"] / max(1, graph["num_dst"])
    return {
        "lanes": math.log2(lanes),
        "registers": float(group * -(-span // lanes)),
        "tiles": float(-(-heads // group) * -(-width // span)),
        "chunk": math.log2(chunk),
        "chunk_numbers": math.log2(chunk * group),
        "full_chunks": mean_degree / chunk,
        "prefetch": float(choice["prefetch"]),
        "prefetch_over_degree": float(choice["prefetch"]) / max(1.0, mean_degree),
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
    from tvm import tirx
    from tvm.script import tirx as T

    op = problem.op
    assert isinstance(op, GAT)
    dtype, index_dtype = problem.dtype, problem.index_dtype
    itemsize, index_size, arithmetic = problem.itemsize, problem.index_itemsize, problem.arithmetic_dtype
    kept = dtype == arithmetic  # exponentials, in the attention
    H, D = heads_of(problem.dims)
    lanes, chunk = int(code["lanes"]), int(code["chunk"])
    prefetch, by_ids, writes_attention = bool(code["prefetch"]), problem.edge_order == "edge_ids", op.attention
    group, span = _tile(H, D, lanes, int(code["vectors"]), problem.arithmetic_itemsize)
    groups, spans, vectors = -(-H // group), -(-D // span), -(-span // lanes)
    numbers = chunk * group
    wide = math.gcd(numbers, _CACHE_LINE_BYTES // problem.arithmetic_itemsize)  # lanes of what spans edges and heads
    packs = numbers // wide
    attention_width = H if writes_attention else 1
    line = _CACHE_LINE_BYTES // itemsize
    lines = -(-((group - 1) * D + span) // line)
    slope, rising = op.negative_slope, op.negative_slope >= 0
    lowest, highest = (tirx.const(sign * float(np.finfo(arithmetic).max), arithmetic) for sign in (-1, 1))

    def head(t: Any) -> Any:  # the last group overlaps the one before it where groups do not divide the heads
        g = t if spans == 1 else t // spans
        return 0 if groups == 1 else g * group if H % group == 0 else T.min(g * group, H - group)

    def feature(t: Any, h: Any, v: Any) -> Any:  # likewise the last span of a head, and the last vector of a span
        first = 0 if spans == 1 else T.min(t % spans * span, D - span)
        return (head(t) + h) * D + first + min_of(v * lanes, span - lanes)

    def min_of(a: Any, b: int) -> Any:
        return a if span % lanes == 0 else T.min(a, b)

    def line_start(t: Any, p: int) -> Any:
        return T.min(feature(t, 0, 0) + p * line, H * D - 1)

    def leaky(x: Any) -> Any:
        return leaky_relu(x, slope, arithmetic)

    def smaller(a: Any, b: Any) -> Any:
        return T.Select(a < b, a, b)

    def loaded(value: Any) -> Any:
        return converted(value, dtype, arithmetic)

    def stored(value: Any) -> Any:
        return converted(value, arithmetic, dtype)

    def edge(edge_ids: Any, p: Any) -> Any:
        return T.Cast("int64", edge_ids[p]) if by_ids else p

    # Scores start from the lowest number and not from -inf: in a row of nothing else exponentials are of -inf, which
    # are 0, not of -inf - -inf.
    @T.prim_func(s_tir=True)  # type: ignore[untyped-decorator]
    def gat(
        indptr_handle: T.handle,
        indices_handle: T.handle,
        edge_ids_handle: T.handle,
        z_handle: T.handle,
        score_src_handle: T.handle,
        score_dst_handle: T.handle,
        y_handle: T.handle,
        attention_handle: T.handle,
        parts_handle: T.handle,
        prefetch_distance: T.int64,
    ):
        T.func_attr({"global_symbol": "main", "tirx.noalias": True})
        num_dst = T.int64()
        num_src = T.int64()
        num_edges = T.int64()
        num_ids = T.int64()
        num_weights = T.int64()
        num_bounds = T.int64()
        num_pointers = T.int64()
        indptr = T.match_buffer(indptr_handle, (num_pointers,), index_dtype, align=index_size)
        indices = T.match_buffer(indices_handle, (num_edges,), index_dtype, align=index_size)
        edge_ids = T.match_buffer(edge_ids_handle, (num_ids,), index_dtype, align=index_size)
        z = T.match_buffer(z_handle, (num_src, H * D), dtype, align=itemsize)
        score_src = T.match_buffer(score_src_handle, (num_src, H), dtype, align=itemsize)
        score_dst = T.match_buffer(score_dst_handle, (num_dst, H), dtype, align=itemsize)
        y = T.match_buffer(y_handle, (num_dst, H * D), dtype, align=itemsize)
        attention = T.match_buffer(attention_handle, (num_weights, attention_width), dtype, align=itemsize)
        parts = T.match_buffer(parts_handle, (num_bounds,), index_dtype, align=index_size)
        for part in T.parallel(num_bounds - 1):
            with T.sblock("part"):
                vp = T.axis.spatial(num_bounds - 1, part)
                T.reads(
                    parts[vp : vp + 2],
                    indptr[0:num_pointers],
                    indices[0:num_edges],
                    edge_ids[0:num_ids],
                    z[0:num_src, 0 : H * D],
                    score_src[0:num_src, 0:H],
                    score_dst[0:num_dst, 0:H],
                )
                T.writes(y[0:num_dst, 0 : H * D], attention[0:num_weights, 0:attention_width])
                acc = T.sblock_alloc_buffer((group, vectors, lanes), arithmetic, scope="global")
                top = T.sblock_alloc_buffer((group,), arithmetic, scope="global")
                bottom = T.sblock_alloc_buffer((group,), arithmetic, scope="global")
                own = T.sblock_alloc_buffer((numbers,), arithmetic, scope="global")
                shift = T.sblock_alloc_buffer((numbers,), arithmetic, scope="global")
                score = T.sblock_alloc_buffer((numbers,), arithmetic, scope="global")
                power = T.sblock_alloc_buffer((numbers,), arithmetic, scope="global")
                total = T.sblock_alloc_buffer((group,), arithmetic, scope="global")
                for r, t in T.grid(T.Cast("int64", parts[vp + 1] - parts[vp]), groups * spans):
                    row: T.let[T.int64] = T.Cast("int64", parts[vp]) + r
                    start: T.let[T.int64] = T.Cast("int64", indptr[row])
                    stop: T.let[T.int64] = T.Cast("int64", indptr[row + 1])
                    for h in T.vectorized(group):
                        top[h] = lowest
                    if not rising:
                        for h in T.vectorized(group):
                            bottom[h] = highest
                    for j in T.serial(stop - start):
                        for h in T.vectorized(group):
                            top[h] = larger(top[h], loaded(score_src[T.Cast("int64", indices[start + j]), head(t) + h]))
                        if not rising:
                            for h in T.vectorized(group):
                                bottom[h] = smaller(
                                    bottom[h], loaded(score_src[T.Cast("int64", indices[start + j]), head(t) + h])
                                )
                    for h in T.vectorized(group):
                        total[h] = T.Cast(arithmetic, 0)
                    for h in T.unroll(group):
                        for v in T.unroll(vectors):
                            for lane in T.vectorized(lanes):
                                acc[h, v, lane] = T.Cast(arithmetic, 0)
                    for c in T.unroll(chunk):
                        for h in T.vectorized(group):
                            own[c * group + h] = loaded(score_dst[row, head(t) + h])
                    for h in T.vectorized(group):
                        top[h] = leaky(top[h] + own[h])
                    if not rising:
                        for h in T.vectorized(group):
                            bottom[h] = leaky(bottom[h] + own[h])
                        for h in T.vectorized(group):
                            top[h] = larger(top[h], bottom[h])
                    for h in T.vectorized(group):
                        top[h] = larger(lowest, top[h])
                    for c in T.unroll(chunk):
                        for h in T.vectorized(group):
                            shift[c * group + h] = top[h]
                    for j in T.serial((stop - start + chunk - 1) // chunk):
                        first: T.let[T.int64] = start + j * chunk
                        for c in T.unroll(chunk):
                            for h in T.vectorized(group):
                                score[c * group + h] = loaded(
                                    score_src[T.Cast("int64", indices[T.min(first + c, stop - 1)]), head(t) + h]
                                )
                        for n in T.unroll(packs):
                            for lane in T.vectorized(wide):
                                score[n * wide + lane] = score[n * wide + lane] + own[n * wide + lane]
                        for n in T.unroll(packs):
                            for lane in T.vectorized(wide):
                                score[n * wide + lane] = leaky(score[n * wide + lane]) - shift[n * wide + lane]
                        for n in T.unroll(packs):
                            for lane in T.vectorized(wide):
                                power[n * wide + lane] = exponential(score[n * wide + lane], arithmetic)
                        for c in T.serial(T.min(T.int64(chunk), stop - first)):
                            source: T.let[T.int64] = T.Cast("int64", indices[first + c])
                            if prefetch:
                                ahead: T.let[T.int64] = T.Cast(
                                    "int64", indices[T.min(first + c + prefetch_distance, num_edges - 1)]
                                )
                                for p in T.unroll(lines):
                                    T.evaluate(
                                        T.call_llvm_intrin(
                                            "void",
                                            "llvm.prefetch",
                                            T.address_of(z[ahead, line_start(t, p)]),
                                            T.int32(0),  # for reading
                                            T.int32(3),  # into every level of cache
                                            T.int32(1),  # data
                                        )
                                    )
                            for h in T.vectorized(group):
                                total[h] = total[h] + power[c * group + h]
                            for h in T.unroll(group):
                                for v in T.unroll(vectors):
                                    for lane in T.vectorized(lanes):
                                        acc[h, v, lane] = acc[h, v, lane] + power[c * group + h] * loaded(
                                            z[source, feature(t, h, v) + lane]
                                        )
                            if writes_attention and kept:
                                for h in T.vectorized(group):
                                    attention[edge(edge_ids, first + c), head(t) + h] = power[c * group + h]
                    for h in T.vectorized(group):
                        total[h] = T.Select(
                            total[h] == T.Cast(arithmetic, 0), T.Cast(arithmetic, 0), T.Cast(arithmetic, 1) / total[h]
                        )
                    for h in T.unroll(group):
                        for v in T.unroll(vectors):
                            for lane in T.vectorized(lanes):
                                y[row, feature(t, h, v) + lane] = stored(acc[h, v, lane] * total[h])
                    if writes_attention:
                        for j in T.serial(stop - start):
                            if kept:
                                for h in T.vectorized(group):
                                    power[h] = attention[edge(edge_ids, start + j), head(t) + h]
                            else:
                                for h in T.vectorized(group):
                                    score[h] = loaded(score_src[T.Cast("int64", indices[start + j]), head(t) + h])
                                for h in T.vectorized(group):
                                    power[h] = exponential(leaky(score[h] + own[h]) - shift[h], arithmetic)
                            for h in T.vectorized(group):
                                attention[edge(edge_ids, start + j), head(t) + h] = stored(power[h] * total[h])

    return gat


def _tile(heads: int, width: int, lanes: int, vectors: int, itemsize: int) -> tuple[int, int]:
    """Heads of a cell and features of each, so that their sums fit `vectors` registers and a stack buffer."""
    fitting = min(vectors, (_STACK_BUFFER_BYTES - 1) // (lanes * itemsize))
    per_head = -(-width // lanes)
    if per_head > fitting:
        return 1, fitting * lanes
    return min(heads, fitting // per_head), width


def _floor_power_of_two(value: int) -> int:
    return 1 << (max(1, value).bit_length() - 1)
