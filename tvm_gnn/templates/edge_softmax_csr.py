"""Edge softmax over CSR rows in nnz-balanced parts: the TensorIR template, its schedule space and default schedule.

A part is a run of destination rows, a cell is one row by a group of heads. A cell walks its edges three times, for the
largest logit, for exponentials and their sum, and to divide by that; after the first walk they are in the nearest
cache. Edges are taken `chunk` at a time, so that vectors are full however few heads there are: chunk × heads numbers
lie side by side, in vectors that span edges and heads alike. What a full chunk leaves over is done edge by edge. The
exponentials wait in the output for their division; a half type would round them there, and has them computed again.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..ops import Problem
from ..toolchain.importing import import_tvm
from ..toolchain.target import CpuTarget
from .conversion import converted
from .expressions import exponential, folding, larger
from .launch import part_decisions, parts_are_distinct, parts_features, serial_or_balanced
from .space import Counts, Decision, Decisions, Space, Value
from .static_shapes import specialised

ARGUMENTS: tuple[str, ...] = (*("indptr", "edge_ids", "logits", "weights", "parts", "prefetch_distance"),)
SOURCES: tuple[str, ...] = (
    "templates/edge_softmax_csr.py",
    "templates/expressions.py",
    "templates/conversion.py",
    "ops/dtypes.py",
)

# Heads of a cell: a group of more is split. Exponentials of one edge then fill a vector already.
_MOST_HEADS = 16
_MOST_VECTORS = 4


def space(problem: Problem, target: CpuTarget, counts: Counts) -> Space:
    """The schedules of an edge softmax problem on a graph of this size.

    Decisions: ``chunk`` of edges taken together, and those of `launch.part_decisions`.
    """
    heads = min(problem.width, _MOST_HEADS)
    lanes = max(1, target.vector_bytes // problem.arithmetic_itemsize)
    smallest = _ceil_power_of_two(-(-lanes // heads))
    chunks = tuple(smallest * factor for factor in (1, 2, 4) if factor <= _MOST_VECTORS)

    def legal(choice: Mapping[str, Value]) -> bool:
        return parts_are_distinct(choice, target.threads)

    decisions = (
        Decision("chunk", chunks),
        Decision("prefetch", (0,)),  # rows of edges are read in order
        *part_decisions(target.threads),
    )
    default: Decisions = {
        "chunk": chunks[0],
        "prefetch": 0,
        **serial_or_balanced(target.threads, 8 * counts.num_edges * problem.width),
    }
    return Space(decisions, default, legal)


def schedule_features(
    problem: Problem, graph: Mapping[str, Any], choice: Mapping[str, Value], threads: int
) -> dict[str, float]:
    """What the cost model sees of a schedule: its decisions, and how they meet the graph and the width."""
    chunk = int(choice["chunk"])
    mean_degree = graph["num_edges"] / max(1, graph["num_dst"])
    return {
        "chunk": math.log2(chunk),
        "chunk_numbers": math.log2(chunk * min(problem.width, _MOST_HEADS)),
        "full_chunks": mean_degree / chunk,
        **parts_features(problem, graph, choice, threads),
    }


def scheduled_module(problem: Problem, code: Mapping[str, Value]) -> Any:
    """An IRModule with one function ``main``, ready to compile; node, edge and part counts are symbolic.

    Parameters
    ----------
    code : mapping
        `launch.code_decisions` of a schedule.
    """
    import_tvm()
    from tvm.ir import IRModule
    from tvm.s_tir import Schedule

    sch = Schedule(IRModule({"main": _prim_func(problem, code)}), debug_mask=0, error_render_level="fast")
    sch.parallel(sch.get_loops(sch.get_sblock("part"))[0])
    return sch.mod


def static_module(problem: Problem, code: Mapping[str, Value], counts: Counts) -> Any:
    """The unscheduled function with static (num_dst, num_src, num_edges): the workload as MetaSchedule knows it."""
    import_tvm()
    return specialised(_prim_func(problem, code), problem, counts)


def _prim_func(problem: Problem, code: Mapping[str, Value]) -> Any:
    from tvm import tirx
    from tvm.script import tirx as T

    H, dtype, index_dtype = problem.width, problem.dtype, problem.index_dtype
    arithmetic = problem.arithmetic_dtype
    kept = dtype == arithmetic  # exponentials, in the output
    by_ids = problem.edge_order == "edge_ids"
    group, chunk = min(H, _MOST_HEADS), int(code["chunk"])
    groups = -(-H // group)
    numbers = chunk * group
    itemsize = problem.itemsize
    index_size = np.dtype(index_dtype).itemsize
    lowest = tirx.const(float(np.finfo(arithmetic).min), arithmetic)
    # Full vectors; those of one chunk follow each other.
    lanes = math.gcd(numbers, 64 // problem.arithmetic_itemsize)
    vectors = numbers // lanes
    fold_tops, fold_sums = folding(larger, numbers, group), folding(operator.add, numbers, group)

    def head(g: Any) -> Any:  # the last group overlaps the one before it where groups do not divide the heads
        return 0 if groups == 1 else g * group if H % group == 0 else T.min(g * group, H - group)

    def edge(edge_ids: Any, p: Any) -> Any:
        return T.Cast("int64", edge_ids[p]) if by_ids else p

    def place(edge_ids: Any, first: Any, g: Any, n: Any) -> Any:  # of a chunk's n-th number
        return edge(edge_ids, first + n // group), head(g) + n % group

    def loaded(logits: Any, at: Any) -> Any:
        return converted(logits[at], dtype, arithmetic)

    def stored(value: Any) -> Any:
        return converted(value, arithmetic, dtype)

    # What is loaded goes through a buffer (see `conversion`).
    @T.macro
    def powers_of_chunk(edge_ids, logits, first, g, shift, below, powers):
        for v in T.unroll(vectors):
            for n in T.vectorized(lanes):
                below[v * lanes + n] = loaded(logits, place(edge_ids, first, g, v * lanes + n)) - shift[v * lanes + n]
        for v in T.unroll(vectors):
            for n in T.vectorized(lanes):
                powers[v * lanes + n] = exponential(below[v * lanes + n], arithmetic)

    @T.macro
    def powers_of_edge(edge_ids, logits, p, g, shift, below, power):
        for h in T.vectorized(group):
            below[h] = loaded(logits, (edge(edge_ids, p), head(g) + h)) - shift[h]
        for h in T.vectorized(group):
            power[h] = exponential(below[h], arithmetic)

    @T.prim_func(s_tir=True)  # type: ignore[untyped-decorator]
    def edge_softmax(
        indptr_handle: T.handle,
        edge_ids_handle: T.handle,
        logits_handle: T.handle,
        weights_handle: T.handle,
        parts_handle: T.handle,
        prefetch_distance: T.int64,
    ):
        T.func_attr({"global_symbol": "main", "tirx.noalias": True})
        num_pointers = T.int64()
        num_edges = T.int64()
        num_ids = T.int64()
        num_bounds = T.int64()
        indptr = T.match_buffer(indptr_handle, (num_pointers,), index_dtype, align=index_size)
        edge_ids = T.match_buffer(edge_ids_handle, (num_ids,), index_dtype, align=index_size)
        logits = T.match_buffer(logits_handle, (num_edges, H), dtype, align=itemsize)
        weights = T.match_buffer(weights_handle, (num_edges, H), dtype, align=itemsize)
        parts = T.match_buffer(parts_handle, (num_bounds,), index_dtype, align=index_size)
        for part in range(num_bounds - 1):
            with T.sblock("part"):
                vp = T.axis.spatial(num_bounds - 1, part)
                T.reads(
                    parts[vp : vp + 2],
                    indptr[0:num_pointers],
                    edge_ids[0:num_ids],
                    logits[0:num_edges, 0:H],
                )
                T.writes(weights[0:num_edges, 0:H])
                for r, g in T.grid(T.Cast("int64", parts[vp + 1] - parts[vp]), groups):
                    with T.sblock("cell"):
                        vr, vg = T.axis.remap("SS", [r, g])
                        T.reads(
                            parts[vp],
                            indptr[0:num_pointers],
                            edge_ids[0:num_ids],
                            logits[0:num_edges, 0:H],
                        )
                        T.writes(weights[0:num_edges, 0:H])
                        row: T.let[T.int64] = T.Cast("int64", parts[vp]) + vr
                        start: T.let[T.int64] = T.Cast("int64", indptr[row])
                        stop: T.let[T.int64] = T.Cast("int64", indptr[row + 1])
                        rest: T.let[T.int64] = start + (stop - start) // chunk * chunk
                        tops = T.sblock_alloc_buffer((numbers,), arithmetic, scope="global")
                        sums = T.sblock_alloc_buffer((numbers,), arithmetic, scope="global")
                        shift = T.sblock_alloc_buffer((numbers,), arithmetic, scope="global")
                        below = T.sblock_alloc_buffer((numbers,), arithmetic, scope="global")
                        powers = T.sblock_alloc_buffer((numbers,), arithmetic, scope="global")
                        power = T.sblock_alloc_buffer((group,), arithmetic, scope="global")
                        share = T.sblock_alloc_buffer((numbers,), arithmetic, scope="global")
                        for v in T.unroll(vectors):
                            for n in T.vectorized(lanes):
                                # Not -inf: a row of nothing else then has exponentials of -inf, which are 0.
                                tops[v * lanes + n] = lowest
                        for c in range((stop - start) // chunk):
                            for v in T.unroll(vectors):
                                for n in T.vectorized(lanes):
                                    tops[v * lanes + n] = larger(
                                        tops[v * lanes + n],
                                        loaded(logits, place(edge_ids, start + c * chunk, vg, v * lanes + n)),
                                    )
                        for j in range(stop - rest):
                            for h in T.vectorized(group):
                                tops[h] = larger(tops[h], loaded(logits, (edge(edge_ids, rest + j), head(vg) + h)))
                        fold_tops(tops)
                        for c in T.unroll(chunk):
                            for h in T.vectorized(group):
                                shift[c * group + h] = tops[h]
                        for v in T.unroll(vectors):
                            for n in T.vectorized(lanes):
                                sums[v * lanes + n] = T.Cast(arithmetic, 0)
                        for c in range((stop - start) // chunk):
                            powers_of_chunk(edge_ids, logits, start + c * chunk, vg, shift, below, powers)
                            for v in T.unroll(vectors):
                                for n in T.vectorized(lanes):
                                    sums[v * lanes + n] = sums[v * lanes + n] + powers[v * lanes + n]
                            if kept:
                                for v in T.unroll(vectors):
                                    for n in T.vectorized(lanes):
                                        weights[place(edge_ids, start + c * chunk, vg, v * lanes + n)] = powers[
                                            v * lanes + n
                                        ]
                        for j in range(stop - rest):
                            powers_of_edge(edge_ids, logits, rest + j, vg, shift, below, power)
                            for h in T.vectorized(group):
                                sums[h] = sums[h] + power[h]
                            if kept:
                                for h in T.vectorized(group):
                                    weights[edge(edge_ids, rest + j), head(vg) + h] = power[h]
                        fold_sums(sums)
                        for c in T.unroll(chunk):
                            for h in T.vectorized(group):
                                share[c * group + h] = T.Select(
                                    sums[h] == T.Cast(arithmetic, 0),
                                    T.Cast(arithmetic, 0),
                                    T.Cast(arithmetic, 1) / sums[h],
                                )
                        for c in range((stop - start) // chunk):
                            if kept:
                                for v in T.unroll(vectors):
                                    for n in T.vectorized(lanes):
                                        powers[v * lanes + n] = weights[
                                            place(edge_ids, start + c * chunk, vg, v * lanes + n)
                                        ]
                            else:
                                powers_of_chunk(edge_ids, logits, start + c * chunk, vg, shift, below, powers)
                            for v in T.unroll(vectors):
                                for n in T.vectorized(lanes):
                                    weights[place(edge_ids, start + c * chunk, vg, v * lanes + n)] = stored(
                                        powers[v * lanes + n] * share[v * lanes + n]
                                    )
                        for j in range(stop - rest):
                            if kept:
                                for h in T.vectorized(group):
                                    power[h] = weights[edge(edge_ids, rest + j), head(vg) + h]
                            else:
                                powers_of_edge(edge_ids, logits, rest + j, vg, shift, below, power)
                            for h in T.vectorized(group):
                                weights[edge(edge_ids, rest + j), head(vg) + h] = stored(power[h] * share[h])

    return edge_softmax


def _ceil_power_of_two(value: int) -> int:
    return 1 << (max(1, value) - 1).bit_length()
