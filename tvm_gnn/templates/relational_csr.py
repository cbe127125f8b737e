"""Aggregation within and across relations over CSR rows in nnz-balanced parts: the TensorIR template and its space.

A part is a run of destination rows, a cell is one row by one feature tile. Sources ascend within a row, and those of a
relation lie together: the sum of a relation (`inner`) is kept in registers until a source of the next relation comes,
and then goes into that of the row (`outer`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from ..ops import Problem
from ..ops.relational import Relational
from ..toolchain.importing import import_tvm
from ..toolchain.target import CpuTarget
from .conversion import converted
from .expressions import accumulated
from .launch import part_decisions, parts_are_distinct, parts_features, serial_or_balanced
from .space import Counts, Decision, Decisions, Space, Value
from .static_shapes import specialised

ARGUMENTS: tuple[str, ...] = ("indptr", "indices", "edge_ids", "w", "x", "y", "parts", "prefetch_distance")
SOURCES: tuple[str, ...] = (
    "templates/relational_csr.py",
    "templates/expressions.py",
    "ops/relational.py",
    "ops/messages.py",
)

_CACHE_LINE_BYTES = 64
# TVM moves a stack buffer of this size to its heap workspace (see `toolchain.link`).
_STACK_BUFFER_BYTES = 1024
# A graph whose features fit a core's own cache gains nothing from prefetching.
_PREFETCH_FROM_BYTES = 1 << 20


def space(problem: Problem, target: CpuTarget, counts: Counts) -> Space:
    """The schedules of a relational problem on a graph of this size.

    Decisions: ``lanes`` per vector, ``vectors`` per tile, ``prefetch`` distance in neighbours (0: none), and those of
    `launch.part_decisions`.
    """
    size, width = problem.arithmetic_itemsize, problem.width
    widest = _floor_power_of_two(min(width, max(1, target.vector_bytes // size)))
    lanes = tuple(sorted({max(1, widest // 2), widest}))
    vectors = tuple(v for v in (1, 2, 4, 8) if v <= -(-width // lanes[0]))

    def legal(choice: Mapping[str, Value]) -> bool:
        per_vector, tile = int(choice["lanes"]), int(choice["vectors"])
        return (
            tile <= -(-width // per_vector)
            and tile * per_vector * size < _STACK_BUFFER_BYTES
            and 2 * tile <= target.vector_registers - 3
            and parts_are_distinct(choice, target.threads)
        )

    decisions = (
        Decision("lanes", lanes),
        Decision("vectors", vectors),
        Decision("prefetch", (0, 8, 16, 32)),
        *part_decisions(target.threads),
    )
    default: Decisions = {
        "lanes": widest,
        "vectors": 1,
        "prefetch": 16 if counts.num_src * width * problem.itemsize > _PREFETCH_FROM_BYTES else 0,
        **serial_or_balanced(target.threads, counts.num_edges * width),
    }
    default["vectors"] = max(v for v in vectors if legal({**default, "vectors": v}))
    return Space(decisions, default, legal)


def schedule_features(
    problem: Problem, graph: Mapping[str, Any], choice: Mapping[str, Value], threads: int
) -> dict[str, float]:
    """What the cost model sees of a schedule: its decisions, and how they meet the graph and the width."""
    lanes, vectors = int(choice["lanes"]), int(choice["vectors"])
    mean_degree = graph["num_edges"] / max(1, graph["num_dst"])
    return {
        "lanes": math.log2(lanes),
        "vectors": float(vectors),
        "tiles": float(-(-problem.width // (lanes * vectors))),
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
    return specialised(_prim_func(problem, code), problem, counts, ("y", "x", "w", "indptr"))


def _prim_func(problem: Problem, code: Mapping[str, Value]) -> Any:
    from tvm import tirx
    from tvm.script import tirx as T

    op = problem.op
    assert isinstance(op, Relational)
    dtype, index_dtype, arithmetic = problem.dtype, problem.index_dtype, problem.arithmetic_dtype
    itemsize, index_size, F = problem.itemsize, problem.index_itemsize, problem.width
    lanes, tile, prefetch = int(code["lanes"]), int(code["vectors"]), bool(code["prefetch"])
    by_ids, weighted, relations = problem.edge_order == "edge_ids", op.message_op.uses_edge, op.relations
    vectors = -(-F // lanes)
    tiles = -(-vectors // tile)
    line = _CACHE_LINE_BYTES // itemsize
    lines = -(-tile * lanes // line)
    reduce, cross = op.reduce_op, op.cross_op
    inner_start, outer_start = (tirx.const(each.identity, arithmetic) for each in (reduce, cross))
    one = tirx.const(1, "int64")

    def feature(t: Any, v: Any) -> Any:  # the last tile, and the last vector, overlap the ones before them
        first = 0 if tiles == 1 else t * tile if vectors % tile == 0 else T.min(t * tile, vectors - tile)
        start = (first + v) * lanes
        return start if F % lanes == 0 else T.min(start, F - lanes)

    def message(x: Any, w: Any, source: Any, edge: Any, at: Any) -> Any:
        u = converted(x[source, at], dtype, arithmetic)
        e = converted(w[edge, 0], dtype, arithmetic) if weighted else None
        return op.message_op.combine(u, e)

    def finished(total: Any, count: Any, by: Any) -> Any:
        return total / T.Cast(arithmetic, T.max(count, one)) if by.divides_by_degree else total

    def edge_at(edge_ids: Any, p: Any) -> Any:
        return T.Cast("int64", edge_ids[p]) if by_ids else p

    @T.prim_func(s_tir=True)  # type: ignore[untyped-decorator]
    def relational(
        indptr_handle: T.handle,
        indices_handle: T.handle,
        edge_ids_handle: T.handle,
        w_handle: T.handle,
        x_handle: T.handle,
        y_handle: T.handle,
        parts_handle: T.handle,
        prefetch_distance: T.int64,
    ):
        T.func_attr({"global_symbol": "main", "tirx.noalias": True})
        num_dst = T.int64()
        num_src = T.int64()
        num_edges = T.int64()
        num_ids = T.int64()
        num_values = T.int64()
        num_bounds = T.int64()
        indices = T.match_buffer(indices_handle, (num_edges,), index_dtype, align=index_size)
        edge_ids = T.match_buffer(edge_ids_handle, (num_ids,), index_dtype, align=index_size)
        w = T.match_buffer(w_handle, (num_values, 1), dtype, align=itemsize)
        x = T.match_buffer(x_handle, (num_src, F), dtype, align=itemsize)
        y = T.match_buffer(y_handle, (num_dst, F), dtype, align=itemsize)
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
                    w[0:num_values, 0:1],
                    x[0:num_src, 0:F],
                )
                T.writes(y[0:num_dst, 0:F])
                inner = T.sblock_alloc_buffer((tile, lanes), arithmetic, scope="global")
                outer = T.sblock_alloc_buffer((tile, lanes), arithmetic, scope="global")
                # Edges in the relation so far, relations in the row so far, and the first source of the next relation.
                edges = T.sblock_alloc_buffer((1,), "int64", scope="global")
                reached = T.sblock_alloc_buffer((1,), "int64", scope="global")
                limit = T.sblock_alloc_buffer((1,), "int64", scope="global")
                nodes: T.let[T.int64] = num_src // relations
                for r, t in T.grid(T.Cast("int64", parts[vp + 1] - parts[vp]), tiles):
                    row: T.let[T.int64] = T.Cast("int64", parts[vp]) + r
                    start: T.let[T.int64] = T.Cast("int64", indptr[row])
                    stop: T.let[T.int64] = T.Cast("int64", indptr[row + 1])
                    edges[0] = T.int64(0)
                    reached[0] = T.int64(0)
                    limit[0] = T.int64(0)
                    for v in T.unroll(tile):
                        for lane in T.vectorized(lanes):
                            outer[v, lane] = outer_start
                    for v in T.unroll(tile):
                        for lane in T.vectorized(lanes):
                            inner[v, lane] = inner_start
                    for j in T.serial(stop - start):
                        source: T.let[T.int64] = T.Cast("int64", indices[start + j])
                        edge: T.let[T.int64] = edge_at(edge_ids, start + j)
                        if prefetch:
                            ahead: T.let[T.int64] = T.Cast(
                                "int64", indices[T.min(start + j + prefetch_distance, num_edges - 1)]
                            )
                            for p in T.unroll(lines):
                                T.evaluate(
                                    T.call_llvm_intrin(
                                        "void",
                                        "llvm.prefetch",
                                        T.address_of(x[ahead, T.min(feature(t, 0) + p * line, F - 1)]),
                                        T.int32(0),  # for reading
                                        T.int32(3),  # into every level of cache
                                        T.int32(1),  # data
                                    )
                                )
                        if source >= limit[0]:
                            limit[0] = (source // nodes + 1) * nodes
                            if edges[0] > T.int64(0):
                                for v in T.unroll(tile):
                                    for lane in T.vectorized(lanes):
                                        outer[v, lane] = accumulated(
                                            cross, outer[v, lane], finished(inner[v, lane], edges[0], reduce)
                                        )
                                for v in T.unroll(tile):
                                    for lane in T.vectorized(lanes):
                                        inner[v, lane] = inner_start
                                edges[0] = T.int64(0)
                            reached[0] = reached[0] + one
                        edges[0] = edges[0] + one
                        for v in T.unroll(tile):
                            for lane in T.vectorized(lanes):
                                inner[v, lane] = accumulated(
                                    reduce, inner[v, lane], message(x, w, source, edge, feature(t, v) + lane)
                                )
                    if edges[0] > T.int64(0):
                        for v in T.unroll(tile):
                            for lane in T.vectorized(lanes):
                                outer[v, lane] = accumulated(
                                    cross, outer[v, lane], finished(inner[v, lane], edges[0], reduce)
                                )
                    else:
                        for v in T.unroll(tile):
                            for lane in T.vectorized(lanes):
                                outer[v, lane] = T.Cast(arithmetic, 0)
                    for v in T.unroll(tile):
                        for lane in T.vectorized(lanes):
                            y[row, feature(t, v) + lane] = converted(
                                finished(outer[v, lane], reached[0], cross), arithmetic, dtype
                            )

    return relational


def _floor_power_of_two(value: int) -> int:
    return 1 << (max(1, value).bit_length() - 1)
