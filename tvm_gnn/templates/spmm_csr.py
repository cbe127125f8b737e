"""g-SpMM over CSR rows in nnz-balanced parts: the TensorIR template, its schedule space and its default schedule.

A part is a run of destination rows, a cell is one row by one feature tile. A cell keeps its sums in vector registers
(`acc`), walks the row's neighbours and stores once. A tile is `vectors` vectors of `lanes` features; where the feature
width is not a multiple, the last vector overlaps the one before it and writes the same values twice, which is cheaper
than a scalar tail and needs no mask.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..ops.spmm import SpMM
from ..toolchain.importing import import_tvm
from ..toolchain.target import CpuTarget
from .space import Decision, Decisions, Space, Value

# Arguments of every library built from this template, in this order. Operators without edge values and graphs in CSR
# order get one-element stand-ins for `w` and `edge_ids`, so that all libraries are called alike.
ARGUMENTS = ("indptr", "indices", "edge_ids", "w", "x", "y", "parts", "prefetch_distance")

_CACHE_LINE_BYTES = 64
# TVM moves a stack buffer of this size to its heap workspace (see `toolchain.link`).
_STACK_BUFFER_BYTES = 1024
# A graph whose features fit a core's own cache gains nothing from prefetching.
_PREFETCH_FROM_BYTES = 1 << 20
# Below about this many multiply-adds one thread is done before a second has woken up.
_SERIAL_BELOW = 100_000


def space(feat: int, dtype: str, target: CpuTarget, num_src: int, num_edges: int, edge_width: int = 1) -> Space:
    """The schedules of one g-SpMM task.

    Decisions: ``lanes`` per vector, ``vectors`` per tile, ``unroll`` over neighbours with separate accumulators,
    ``order`` of the loops over rows and tiles inside a part, ``prefetch`` distance in neighbours (0: none), ``parts``
    (1: serial), ``dynamic`` hand-out of the parts instead of one contiguous share per thread.
    """
    itemsize = np.dtype(dtype).itemsize
    heads, width = _heads(feat, edge_width)
    widest = _floor_power_of_two(min(width, max(1, target.vector_bytes // itemsize)))
    lanes = tuple(sorted({max(1, widest // 2), widest}))

    def total_vectors(per_vector: int) -> int:
        return heads * -(-width // per_vector)

    most_vectors = total_vectors(lanes[0])
    vectors = tuple(sorted({v for v in (1, 2, 3, 4, 8, 16, total_vectors(widest)) if v <= most_vectors}))
    threads = target.threads
    parts = tuple(sorted({1, threads, 2 * threads, 8 * threads, 32 * threads}))

    def in_one_run(choice: Mapping[str, Value]) -> bool:
        # A thread's static share is one run of rows however it is cut into parts; only the tile loop sees the cuts.
        return int(choice["parts"]) <= threads or choice["order"] == "tiles"

    def legal(choice: Mapping[str, Value]) -> bool:
        per_vector, tile, unroll = int(choice["lanes"]), int(choice["vectors"]), int(choice["unroll"])
        total = total_vectors(per_vector)
        registers = (unroll + 1 if unroll > 1 else 1) * tile
        return (
            tile <= total
            and unroll * tile * per_vector * itemsize < _STACK_BUFFER_BYTES
            and registers <= target.vector_registers - 3
            and (choice["order"] == "rows" or tile < total)
            and (int(choice["parts"]) > threads > 1 if choice["dynamic"] else in_one_run(choice))
        )

    decisions = (
        Decision("lanes", lanes),
        Decision("vectors", vectors),
        Decision("unroll", (1, 2, 4)),
        Decision("order", ("rows", "tiles")),
        Decision("prefetch", (0, 8, 16, 32)),
        Decision("parts", parts),
        Decision("dynamic", (False, True)),
    )
    serial = threads == 1 or num_edges * feat < _SERIAL_BELOW
    default: Decisions = {
        "lanes": widest,
        "vectors": 1,
        "unroll": 1,
        "order": "rows",
        "prefetch": 16 if num_src * feat * itemsize > _PREFETCH_FROM_BYTES else 0,
        "parts": 1 if serial else 8 * threads,
        "dynamic": not serial,
    }
    default["vectors"] = max((v for v in vectors if legal({**default, "vectors": v})), default=1)
    return Space(decisions, default, legal)


def code_decisions(choice: Mapping[str, Value]) -> Decisions:
    """What of a schedule shapes the code: of the prefetch distance only whether there is one."""
    return {
        "lanes": choice["lanes"],
        "vectors": choice["vectors"],
        "unroll": choice["unroll"],
        "order": choice["order"],
        "prefetch": bool(choice["prefetch"]),
    }


def launch_parameters(choice: Mapping[str, Value], threads: int) -> dict[str, int]:
    """What of a schedule is passed at run time: parts, tasks handed out to the threads, prefetch distance."""
    parts = int(choice["parts"])
    return {
        "parts": parts,
        "tasks": parts if choice["dynamic"] else min(parts, threads),
        "prefetch_distance": int(choice["prefetch"]),
    }


def scheduled_module(
    op: SpMM, feat: int, dtype: str, index_dtype: str, edge_order: str, code: Mapping[str, Value], edge_width: int = 1
) -> Any:
    """An IRModule with one function ``main``, ready to compile; node, edge and part counts are symbolic.

    Parameters
    ----------
    edge_order : {"csr", "edge_ids"}
        Whether edge values come in CSR order or are found through `edge_ids`.
    code : mapping
        `code_decisions` of a schedule.
    """
    import_tvm()
    function = _prim_func(op, feat, dtype, index_dtype, edge_order, code, edge_width)
    return _schedule(function, unroll=int(code["unroll"]), order=str(code["order"]))


def static_module(
    op: SpMM,
    feat: int,
    dtype: str,
    index_dtype: str,
    edge_order: str,
    code: Mapping[str, Value],
    counts: tuple[int, int, int],
    edge_width: int = 1,
) -> Any:
    """The unscheduled function with static (num_dst, num_src, num_edges): the workload as MetaSchedule knows it."""
    tvm = import_tvm()
    num_dst, num_src, num_edges = counts
    function = _prim_func(op, feat, dtype, index_dtype, edge_order, code, edge_width)
    # `y` comes before `indptr`: its shape is the plain variable that both share.
    sizes = {"y": (num_dst, feat), "x": (num_src, feat), "indices": (num_edges,), "parts": (2,)}
    sizes |= {"edge_ids": (num_edges,), "w": (num_edges, edge_width), "indptr": (num_dst + 1,)}
    for name, shape in sizes.items():
        kind = index_dtype if name in ("indices", "parts", "edge_ids", "indptr") else dtype
        parameter = next(p for p in function.params if p.name == name)
        dims = [tvm.tirx.IntImm("int64", dim) for dim in shape[:1]] + list(shape[1:])
        zero = tvm.tirx.IntImm("int64", 0)
        align = np.dtype(kind).itemsize
        buffer = tvm.tirx.decl_buffer(dims, kind, name, elem_offset=zero, data_alignment=align)
        function = function.specialize({parameter: buffer})
    distance = next(p for p in function.params if p.name == "prefetch_distance")
    function = function.specialize({distance: tvm.tirx.IntImm("int64", 0)})  # MetaSchedule knows buffers only
    return tvm.IRModule({"main": function})


def _prim_func(
    op: SpMM,
    F: int,
    dtype: str,
    index_dtype: str,
    edge_order: str,
    code: Mapping[str, Value],
    edge_width: int = 1,
) -> Any:
    from tvm import tirx
    from tvm.script import tirx as T

    lanes, tile, unroll = int(code["lanes"]), int(code["vectors"]), int(code["unroll"])
    prefetch = bool(code["prefetch"]) and op.uses_src
    reduce = op.reduce_op
    # Where a head has an edge value of its own, no vector spans two heads.
    heads, D = _heads(F, edge_width)
    per_head = -(-D // lanes)
    vectors = heads * per_head
    tiles = -(-vectors // tile)
    itemsize = np.dtype(dtype).itemsize
    index_size = np.dtype(index_dtype).itemsize
    line = _CACHE_LINE_BYTES // itemsize
    lines = -(-tile * lanes // line)

    def first_vector(t: Any) -> Any:  # the last tile overlaps the one before it where tiles do not divide the vectors
        return 0 if tiles == 1 else t * tile if vectors % tile == 0 else T.min(t * tile, vectors - tile)

    def head(t: Any, v: Any) -> Any:
        return 0 if heads == 1 else (first_vector(t) + v) // per_head

    def feature(t: Any, v: Any) -> Any:  # likewise the last vector of a head
        vector = first_vector(t) + v
        start = (vector if heads == 1 else vector % per_head) * lanes
        return head(t, v) * D + (start if D % lanes == 0 else T.min(start, D - lanes))

    def line_start(t: Any, p: int) -> Any:
        return T.min(feature(t, 0) + p * line, F - 1)

    def message(x: Any, w: Any, edge_ids: Any, indices: Any, p: Any, t: Any, v: Any, lane: Any) -> Any:
        u = e = None
        if op.message_op.uses_src:
            u = x[T.Cast("int64", indices[p]), feature(t, v) + lane]
        if op.message_op.uses_edge:
            column = feature(t, v) + lane if edge_width == F else head(t, v)
            e = w[T.Cast("int64", edge_ids[p]) if edge_order == "edge_ids" else p, column]
        return op.message_op.combine(u, e)

    def accumulate(total: Any, value: Any) -> Any:
        if reduce.better is None:
            return total + value
        # TensorIR's own max and min keep a NaN in one operand and lose one in the other; here either wins.
        return tirx.Select(tirx.any(reduce.better(value, total), tirx.isnan(value)), value, total)

    def finished(acc: Any, rest: Any, v: Any, lane: Any, degree: Any) -> Any:
        total = acc[0, v, lane]
        for u in range(1, unroll):
            total = accumulate(total, acc[u, v, lane])
        if unroll > 1:
            total = accumulate(total, rest[v, lane])
        if reduce.divides_by_degree:
            return total / T.Cast(dtype, T.max(degree, T.int64(1)))
        return total if reduce.better is None else T.Select(degree > 0, total, T.Cast(dtype, 0))

    # Indices into features are 64 bits wide whatever the index arrays hold: num_src * F may pass 2**31, and x86 address
    # arithmetic is 64-bit anyway. `rest` takes the neighbours that a full group of `unroll` leaves over.
    @T.prim_func(s_tir=True)  # type: ignore[untyped-decorator]
    def spmm(
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
        w = T.match_buffer(w_handle, (num_values, edge_width), dtype, align=itemsize)
        x = T.match_buffer(x_handle, (num_src, F), dtype, align=itemsize)
        y = T.match_buffer(y_handle, (num_dst, F), dtype, align=itemsize)
        indptr = T.match_buffer(indptr_handle, (num_dst + 1,), index_dtype, align=index_size)
        parts = T.match_buffer(parts_handle, (num_bounds,), index_dtype, align=index_size)
        for part in range(num_bounds - 1):
            with T.sblock("part"):
                vp = T.axis.spatial(num_bounds - 1, part)
                T.reads(
                    parts[vp : vp + 2],
                    indptr[0 : num_dst + 1],
                    indices[0:num_edges],
                    edge_ids[0:num_ids],
                    w[0:num_values, 0:edge_width],
                    x[0:num_src, 0:F],
                )
                T.writes(y[0:num_dst, 0:F])
                for r, t in T.grid(T.Cast("int64", parts[vp + 1] - parts[vp]), tiles):
                    with T.sblock("cell"):
                        vr, vt = T.axis.remap("SS", [r, t])
                        T.reads(
                            parts[vp],
                            indptr[0 : num_dst + 1],
                            indices[0:num_edges],
                            edge_ids[0:num_ids],
                            w[0:num_values, 0:edge_width],
                            x[0:num_src, 0:F],
                        )
                        T.writes(y[T.Cast("int64", parts[vp]) + vr, 0:F])
                        row: T.let[T.int64] = T.Cast("int64", parts[vp]) + vr
                        start: T.let[T.int64] = T.Cast("int64", indptr[row])
                        stop: T.let[T.int64] = T.Cast("int64", indptr[row + 1])
                        acc = T.sblock_alloc_buffer((unroll, tile, lanes), dtype, scope="global")
                        rest = T.sblock_alloc_buffer((tile, lanes), dtype, scope="global")
                        for j in range((stop - start) // unroll if unroll > 1 else stop - start):
                            if prefetch:
                                for u in range(unroll):
                                    with T.sblock("prefetch"):
                                        vj, vu = T.axis.remap("SS", [j, u])
                                        T.reads(indices[0:num_edges])
                                        T.writes()
                                        ahead: T.let[T.int64] = T.Cast(
                                            "int64",
                                            indices[T.min(start + vj * unroll + vu + prefetch_distance, num_edges - 1)],
                                        )
                                        for p in range(lines):
                                            T.evaluate(
                                                T.call_llvm_intrin(
                                                    "void",
                                                    "llvm.prefetch",
                                                    T.address_of(x[ahead, line_start(vt, p)]),
                                                    T.int32(0),  # for reading
                                                    T.int32(3),  # into every level of cache
                                                    T.int32(1),  # data
                                                )
                                            )
                            for u, v, lane in T.grid(unroll, tile, lanes):
                                with T.sblock("neighbours"):
                                    vj, vu, vv, vl = T.axis.remap("RSSS", [j, u, v, lane])
                                    T.reads(
                                        indices[0:num_edges],
                                        edge_ids[0:num_ids],
                                        w[0:num_values, 0:edge_width],
                                        x[0:num_src, 0:F],
                                    )
                                    T.writes(acc[vu, vv, vl])
                                    with T.init():
                                        acc[vu, vv, vl] = T.Cast(dtype, reduce.identity)
                                    acc[vu, vv, vl] = accumulate(
                                        acc[vu, vv, vl],
                                        message(x, w, edge_ids, indices, start + vj * unroll + vu, vt, vv, vl),
                                    )
                        if unroll > 1:
                            for j, v, lane in T.grid((stop - start) % unroll, tile, lanes):
                                with T.sblock("rest"):
                                    vj, vv, vl = T.axis.remap("RSS", [j, v, lane])
                                    T.reads(
                                        indices[0:num_edges],
                                        edge_ids[0:num_ids],
                                        w[0:num_values, 0:edge_width],
                                        x[0:num_src, 0:F],
                                    )
                                    T.writes(rest[vv, vl])
                                    with T.init():
                                        rest[vv, vl] = T.Cast(dtype, reduce.identity)
                                    rest[vv, vl] = accumulate(
                                        rest[vv, vl], message(x, w, edge_ids, indices, stop - 1 - vj, vt, vv, vl)
                                    )
                        for v, lane in T.grid(tile, lanes):
                            with T.sblock("store"):
                                vv, vl = T.axis.remap("SS", [v, lane])
                                T.reads(acc[0:unroll, vv, vl], rest[vv, vl])
                                T.writes(y[row, feature(vt, vv) + vl])
                                y[row, feature(vt, vv) + vl] = finished(acc, rest, vv, vl, stop - start)

    return spmm


def _schedule(function: Any, unroll: int, order: str) -> Any:
    from tvm.ir import IRModule
    from tvm.s_tir import Schedule

    sch = Schedule(IRModule({"main": function}), debug_mask=0, error_render_level="fast")
    _keep_in_registers(sch, "neighbours", inner_loops=3)
    if unroll > 1:
        _keep_in_registers(sch, "rest", inner_loops=2)
    vector, lane = sch.get_loops(sch.get_sblock("store"))[-2:]
    sch.vectorize(lane)
    sch.unroll(vector)
    row, tile = sch.get_loops(sch.get_sblock("cell"))
    if order == "tiles":
        sch.reorder(tile, row)
    sch.parallel(sch.get_loops(sch.get_sblock("part"))[0])
    return sch.mod


def _keep_in_registers(sch: Any, block_name: str, inner_loops: int) -> None:
    """Unroll and vectorise the loops inside the neighbour loop, of the sum and of its initial zeros alike."""
    block = sch.get_sblock(block_name)
    neighbour, *inner = sch.get_loops(block)[-inner_loops - 1 :]
    # The order matters: vectorise the update first, and split off the init even so that empty rows are written.
    sch.vectorize(inner[-1])
    for loop in inner[:-1]:
        sch.unroll(loop)
    zeros = sch.get_loops(sch.decompose_reduction(block, neighbour))[-inner_loops:]
    sch.vectorize(zeros[-1])
    for loop in zeros[:-1]:
        sch.unroll(loop)


def _heads(feat: int, edge_width: int) -> tuple[int, int]:
    """Heads that have an edge value of their own, and the width of each; one head where all or none share it."""
    return (edge_width, feat // edge_width) if 1 < edge_width < feat else (1, feat)


def _floor_power_of_two(value: int) -> int:
    return 1 << (max(1, value).bit_length() - 1)
