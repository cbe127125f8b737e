"""Fused GATv2 over CSR rows in nnz-balanced parts: the TensorIR template, its space and default schedule.

A part is a run of destination rows, a cell is one row by one head. A score needs all of a source's features, which are
then at hand to be weighed and summed up: one walk over the edges does both. The largest score so far is subtracted
before an exponential, and when a `chunk` of edges brings a larger one the sums are scaled down to it. Nothing of the
size of the edges is written, unless the weights themselves are asked for: then a second walk turns scores into them.
A half type would round what waits in an output: there a head too wide for the registers is cut into spans, of which
each computes the scores again, and so does the second walk.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..ops import Problem
from ..ops.attention import GATv2, heads_of
from ..toolchain.importing import import_tvm
from ..toolchain.target import CpuTarget
from .conversion import converted
from .expressions import exponential, larger, leaky_relu, sum_across
from .launch import part_decisions, parts_are_distinct, parts_features, serial_or_balanced
from .space import Counts, Decision, Decisions, Space, Value
from .static_shapes import specialised

ARGUMENTS: tuple[str, ...] = (
    *("indptr", "indices", "edge_ids", "z_src", "z_dst", "attn", "y", "attention"),
    *("parts", "prefetch_distance"),
)
SOURCES: tuple[str, ...] = (
    "templates/gatv2_csr.py",
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
# Loops of more vectors than this stay loops.
_MOST_UNROLLED = 16


def space(problem: Problem, target: CpuTarget, counts: Counts) -> Space:
    """The schedules of a GATv2 problem on a graph of this size.

    Decisions: ``lanes`` per vector of features, ``chunk`` of edges whose exponentials are taken together, ``prefetch``
    distance of source rows in edges (0: none), and those of `launch.part_decisions`.
    """
    _, width = heads_of(problem.dims)
    widest = _floor_power_of_two(min(width, max(1, target.vector_bytes // problem.arithmetic_itemsize)))

    def legal(choice: Mapping[str, Value]) -> bool:
        fits = int(choice["chunk"]) * int(choice["lanes"]) * problem.arithmetic_itemsize < _STACK_BUFFER_BYTES
        return fits and parts_are_distinct(choice, target.threads)

    decisions = (
        Decision("lanes", tuple(sorted({max(1, widest // 2), widest}))),
        Decision("chunk", (2, 4, 8, 16)),
        Decision("prefetch", (0, 8, 16, 32)),
        *part_decisions(target.threads),
    )
    default: Decisions = {
        "lanes": widest,
        "chunk": 4,
        "prefetch": 16 if counts.num_src * problem.width * problem.itemsize > _PREFETCH_FROM_BYTES else 0,
        **serial_or_balanced(target.threads, 3 * counts.num_edges * problem.width),
    }
    return Space(decisions, default, legal)


def schedule_features(
    problem: Problem, graph: Mapping[str, Any], choice: Mapping[str, Value], threads: int
) -> dict[str, float]:
    """What the cost model sees of a schedule: its decisions, and how they meet the graph and the width."""
    chunk, lanes = int(choice["chunk"]), int(choice["lanes"])
    mean_degree = graph["num_edges"] / max(1, graph["num_dst"])
    return {
        "lanes": math.log2(lanes),
        "vectors": float(-(-heads_of(problem.dims)[1] // lanes)),
        "chunk": math.log2(chunk),
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
    assert isinstance(op, GATv2)
    dtype, index_dtype = problem.dtype, problem.index_dtype
    itemsize, index_size, arithmetic = problem.itemsize, problem.index_itemsize, problem.arithmetic_dtype
    kept = dtype == arithmetic  # sums and scores, in the outputs
    H, D = heads_of(problem.dims)
    lanes, chunk = int(code["lanes"]), int(code["chunk"])
    prefetch, by_ids, writes_attention = bool(code["prefetch"]), problem.edge_order == "edge_ids", op.attention
    whole, left_over = D // lanes, D % lanes
    vectors = whole + (left_over > 0)
    # A head too wide for the registers is summed up in the output itself, which is in the nearest cache, or in spans.
    most_vectors = min(_MOST_UNROLLED, (_STACK_BUFFER_BYTES - 1) // (lanes * problem.arithmetic_itemsize))
    in_registers = vectors <= most_vectors or not kept
    acc_vectors = min(vectors, most_vectors) if in_registers else 1
    spans = -(-vectors // acc_vectors) if in_registers else 1
    summed = acc_vectors if in_registers else vectors  # in one cell
    each_vector = T.unroll if vectors <= _MOST_UNROLLED else T.serial
    attention_width = H if writes_attention else 1
    line = _CACHE_LINE_BYTES // itemsize
    lines = -(-D // line)
    lowest = tirx.const(float(np.finfo(arithmetic).min), arithmetic)
    zero = tirx.const(0.0, arithmetic)

    def loaded(value: Any) -> Any:
        return converted(value, dtype, arithmetic)

    def stored(value: Any) -> Any:
        return converted(value, arithmetic, dtype)

    def head(t: Any) -> Any:
        return t if spans == 1 else t // spans

    def feature(t: Any, v: Any) -> Any:  # the last span overlaps the one before it, and likewise its last vector
        first = 0 if spans == 1 else T.min(t % spans * acc_vectors, vectors - acc_vectors)
        start = (first + v) * lanes
        return head(t) * D + (start if left_over == 0 else T.min(start, D - lanes))

    def term(source: Any, row: Any, z_src: Any, z_dst: Any, attn: Any, at: Any) -> Any:
        return loaded(attn[0, at]) * leaky_relu(
            loaded(z_src[source, at]) + loaded(z_dst[row, at]), op.negative_slope, arithmetic
        )

    def not_counted_yet(lane: Any, value: Any) -> Any:
        return T.Select(lane >= lanes - left_over, value, zero)

    def edge(edge_ids: Any, p: Any) -> Any:
        return T.Cast("int64", edge_ids[p]) if by_ids else p

    @T.macro
    def scores_of(indices, z_src, z_dst, attn, row, first, stop, h, prefetch_distance, terms, score):
        for c in T.unroll(chunk):
            for lane in T.vectorized(lanes):
                terms[c, lane] = zero
        for c in T.unroll(chunk):
            source: T.let[T.int64] = T.Cast("int64", indices[T.min(first + c, stop - 1)])
            if prefetch:
                ahead: T.let[T.int64] = T.Cast(
                    "int64", indices[T.min(first + c + prefetch_distance, indices.shape[0] - 1)]
                )
                for p in T.unroll(lines):
                    T.evaluate(
                        T.call_llvm_intrin(
                            "void",
                            "llvm.prefetch",
                            T.address_of(z_src[ahead, T.min(h * D + p * line, H * D - 1)]),
                            T.int32(0),  # for reading
                            T.int32(3),  # into every level of cache
                            T.int32(1),  # data
                        )
                    )
            for v in each_vector(whole):
                for lane in T.vectorized(lanes):
                    terms[c, lane] = terms[c, lane] + term(source, row, z_src, z_dst, attn, h * D + v * lanes + lane)
            if left_over > 0:
                for lane in T.vectorized(lanes):
                    terms[c, lane] = terms[c, lane] + not_counted_yet(
                        lane, term(source, row, z_src, z_dst, attn, h * D + D - lanes + lane)
                    )
        for c in T.unroll(chunk):
            score[c] = sum_across(terms, (c,), lanes, arithmetic)

    # The last chunk of a row is filled up with its last edge, which changes no maximum and is not summed up again.
    @T.prim_func(s_tir=True)  # type: ignore[untyped-decorator]
    def gatv2(
        indptr_handle: T.handle,
        indices_handle: T.handle,
        edge_ids_handle: T.handle,
        z_src_handle: T.handle,
        z_dst_handle: T.handle,
        attn_handle: T.handle,
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
        z_src = T.match_buffer(z_src_handle, (num_src, H * D), dtype, align=itemsize)
        z_dst = T.match_buffer(z_dst_handle, (num_dst, H * D), dtype, align=itemsize)
        attn = T.match_buffer(attn_handle, (1, H * D), dtype, align=itemsize)
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
                    z_src[0:num_src, 0 : H * D],
                    z_dst[0:num_dst, 0 : H * D],
                    attn[0:1, 0 : H * D],
                )
                T.writes(y[0:num_dst, 0 : H * D], attention[0:num_weights, 0:attention_width])
                acc = T.sblock_alloc_buffer((acc_vectors, lanes), arithmetic, scope="global")
                terms = T.sblock_alloc_buffer((chunk, lanes), arithmetic, scope="global")
                score = T.sblock_alloc_buffer((chunk,), arithmetic, scope="global")
                power = T.sblock_alloc_buffer((chunk,), arithmetic, scope="global")
                top = T.sblock_alloc_buffer((2,), arithmetic, scope="global")
                total = T.sblock_alloc_buffer((1,), arithmetic, scope="global")
                scale = T.sblock_alloc_buffer((1,), arithmetic, scope="global")
                for r, t in T.grid(T.Cast("int64", parts[vp + 1] - parts[vp]), H * spans):
                    h: T.let[T.int32] = head(t)
                    row: T.let[T.int64] = T.Cast("int64", parts[vp]) + r
                    start: T.let[T.int64] = T.Cast("int64", indptr[row])
                    stop: T.let[T.int64] = T.Cast("int64", indptr[row + 1])
                    top[0] = lowest
                    total[0] = zero
                    for v in each_vector(summed):
                        for lane in T.vectorized(lanes):
                            if in_registers:
                                acc[v, lane] = zero
                            else:
                                y[row, feature(t, v) + lane] = zero
                    for j in T.serial((stop - start + chunk - 1) // chunk):
                        first: T.let[T.int64] = start + j * chunk
                        scores_of(indices, z_src, z_dst, attn, row, first, stop, h, prefetch_distance, terms, score)
                        top[1] = top[0]
                        for c in T.unroll(chunk):
                            top[1] = larger(top[1], score[c])
                        scale[0] = exponential(top[0] - top[1], arithmetic)
                        top[0] = top[1]
                        total[0] = total[0] * scale[0]
                        for v in each_vector(summed):
                            for lane in T.vectorized(lanes):
                                if in_registers:
                                    acc[v, lane] = acc[v, lane] * scale[0]
                        if not in_registers:
                            for n in T.serial(D):
                                y[row, h * D + n] = y[row, h * D + n] * scale[0]
                        for c in T.vectorized(chunk):
                            power[c] = exponential(score[c] - top[0], arithmetic)
                        for c in T.serial(T.min(T.int64(chunk), stop - first)):
                            total[0] = total[0] + power[c]
                            if writes_attention and kept:
                                attention[edge(edge_ids, first + c), h] = score[c]
                            if in_registers:
                                for v in each_vector(summed):
                                    for lane in T.vectorized(lanes):
                                        acc[v, lane] = acc[v, lane] + power[c] * loaded(
                                            z_src[T.Cast("int64", indices[first + c]), feature(t, v) + lane]
                                        )
                            else:
                                for n in T.serial(D):
                                    y[row, h * D + n] = (
                                        y[row, h * D + n]
                                        + power[c] * z_src[T.Cast("int64", indices[first + c]), h * D + n]
                                    )
                    total[0] = T.Select(total[0] == zero, zero, T.Cast(arithmetic, 1) / total[0])
                    if in_registers:
                        for v in each_vector(summed):
                            for lane in T.vectorized(lanes):
                                y[row, feature(t, v) + lane] = stored(acc[v, lane] * total[0])
                    else:
                        for n in T.serial(D):
                            y[row, h * D + n] = y[row, h * D + n] * total[0]
                    if writes_attention and kept:
                        for j in T.serial(stop - start):
                            power[0] = exponential(attention[edge(edge_ids, start + j), h] - top[0], arithmetic)
                            attention[edge(edge_ids, start + j), h] = power[0] * total[0]
                    if writes_attention and not kept:
                        for j in T.serial((stop - start + chunk - 1) // chunk):
                            again: T.let[T.int64] = start + j * chunk
                            scores_of(indices, z_src, z_dst, attn, row, again, stop, h, prefetch_distance, terms, score)
                            for c in T.vectorized(chunk):
                                power[c] = exponential(score[c] - top[0], arithmetic)
                            for c in T.serial(T.min(T.int64(chunk), stop - again)):
                                attention[edge(edge_ids, again + c), h] = stored(power[c] * total[0])

    return gatv2


def _floor_power_of_two(value: int) -> int:
    return 1 << (max(1, value).bit_length() - 1)
