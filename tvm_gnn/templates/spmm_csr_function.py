"""The TensorIR function of g-SpMM over CSR rows in nnz-balanced parts.

A part is a run of destination rows. A cell (see `spmm_cells`) keeps its sums in vector registers (`acc`), walks the
row's neighbours and stores once. Where the selected edges are asked for, `positions` holds those of `acc`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..ops import Problem
from ..ops.spmm import SpMM
from .expressions import is_number, kept_of
from .space import Value
from .spmm_cells import Cells


def prim_func(problem: Problem, code: Mapping[str, Value]) -> Any:
    """The unscheduled function of a problem; `code` is `launch.code_decisions` of a schedule."""
    from tvm import tirx
    from tvm.script import tirx as T

    op = problem.op
    assert isinstance(op, SpMM)
    cells = Cells(problem, code)
    F, edge_width, dtype, arithmetic = problem.width, problem.edge_width, problem.dtype, problem.arithmetic_dtype
    x_width, arg_width = F if op.uses_src else 1, F if op.arg else 1  # 1 of a stand-in
    index_dtype, edge_order = problem.index_dtype, problem.edge_order
    lanes, tile, unroll, tiles = cells.lanes, cells.tile, cells.unroll, cells.tiles
    prefetch = bool(code["prefetch"]) and op.uses_src
    reduce, selects = op.reduce_op, op.arg
    groups = (unroll, tile, lanes) if selects else (1, 1, 1)  # without `arg` they stay unused
    itemsize = problem.itemsize
    index_size = problem.index_itemsize
    feature, line_start, lines = cells.feature, cells.line_start, cells.lines
    accumulate, reduced, finished = cells.accumulate, cells.reduced, cells.finished

    def message(x: Any, w: Any, edge_ids: Any, indices: Any, p: Any, t: Any, v: Any, lane: Any) -> Any:
        edge = T.Cast("int64", edge_ids[p]) if edge_order == "edge_ids" else p
        return cells.message(x, w, T.Cast("int64", indices[p]), edge, t, v, lane)

    def kept(value: Any, total: Any, later: Any, earlier: Any) -> Any:
        return kept_of(reduce, value, total, later, earlier)

    def selected(value: Any, p: Any, total: Any, position: Any) -> Any:
        """The position that stays when a later edge's value meets a total."""
        return tirx.Select(is_number(total), kept(value, total, T.Cast(index_dtype, p), position), position)

    def merged(value: Any, p: Any, total: Any, position: Any) -> Any:
        """The position that stays of two accumulators, of equal ones the first."""
        first = T.min(p, position)
        of_equals = tirx.Select(value == total, first, position)
        both_nan = tirx.Select(is_number(value), position, first)
        return tirx.Select(is_number(total), kept(value, total, p, of_equals), both_nan)

    def edge_of(edge_ids: Any, position: Any) -> Any:
        return edge_ids[T.Cast("int64", position)] if edge_order == "edge_ids" else position

    # `slice_indptr` and `slices` are of `spmm_sliced_function`; both have the same arguments.
    # Indices into features are 64 bits wide whatever the index arrays hold: num_src * F may pass 2**31, and x86 address
    # arithmetic is 64-bit anyway. `rest` takes the neighbours that a full group of `unroll` leaves over.
    @T.prim_func(s_tir=True)  # type: ignore[untyped-decorator]
    def spmm(
        indptr_handle: T.handle,
        slice_indptr_handle: T.handle,
        indices_handle: T.handle,
        edge_ids_handle: T.handle,
        w_handle: T.handle,
        x_handle: T.handle,
        y_handle: T.handle,
        arg_handle: T.handle,
        parts_handle: T.handle,
        slices: T.int64,
        prefetch_distance: T.int64,
    ):
        T.func_attr({"global_symbol": "main", "tirx.noalias": True})
        num_dst = T.int64()
        num_src = T.int64()
        num_edges = T.int64()
        num_ids = T.int64()
        num_values = T.int64()
        num_args = T.int64()
        num_bounds = T.int64()
        num_pointers = T.int64()
        slice_indptr = T.match_buffer(slice_indptr_handle, (num_pointers,), index_dtype, align=index_size)  # noqa: F841
        indices = T.match_buffer(indices_handle, (num_edges,), index_dtype, align=index_size)
        edge_ids = T.match_buffer(edge_ids_handle, (num_ids,), index_dtype, align=index_size)
        w = T.match_buffer(w_handle, (num_values, edge_width), dtype, align=itemsize)
        x = T.match_buffer(x_handle, (num_src, x_width), dtype, align=itemsize)
        y = T.match_buffer(y_handle, (num_dst, F), dtype, align=itemsize)
        arg = T.match_buffer(
            arg_handle,
            (num_args, arg_width),
            index_dtype if selects else dtype,
            align=index_size if selects else itemsize,
        )
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
                    x[0:num_src, 0:x_width],
                )
                T.writes(y[0:num_dst, 0:F], arg[0:num_args, 0:arg_width])
                for r, t in T.grid(T.Cast("int64", parts[vp + 1] - parts[vp]), tiles):
                    with T.sblock("cell"):
                        vr, vt = T.axis.remap("SS", [r, t])
                        T.reads(
                            parts[vp],
                            indptr[0 : num_dst + 1],
                            indices[0:num_edges],
                            edge_ids[0:num_ids],
                            w[0:num_values, 0:edge_width],
                            x[0:num_src, 0:x_width],
                        )
                        T.writes(y[T.Cast("int64", parts[vp]) + vr, 0:F], arg[0:num_args, 0:arg_width])
                        row: T.let[T.int64] = T.Cast("int64", parts[vp]) + vr
                        start: T.let[T.int64] = T.Cast("int64", indptr[row])
                        stop: T.let[T.int64] = T.Cast("int64", indptr[row + 1])
                        acc = T.sblock_alloc_buffer((unroll, tile, lanes), arithmetic, scope="global")
                        rest = T.sblock_alloc_buffer((tile, lanes), arithmetic, scope="global")
                        positions = T.sblock_alloc_buffer(groups, index_dtype, scope="global")
                        total = T.sblock_alloc_buffer(groups[1:], arithmetic, scope="global")
                        total_positions = T.sblock_alloc_buffer(groups[1:], index_dtype, scope="global")
                        rest_positions = T.sblock_alloc_buffer(groups[1:], index_dtype, scope="global")
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
                                        x[0:num_src, 0:x_width],
                                    )
                                    if selects:
                                        T.writes(acc[vu, vv, vl], positions[vu, vv, vl])
                                    else:
                                        T.writes(acc[vu, vv, vl])
                                    with T.init():
                                        acc[vu, vv, vl] = T.Cast(arithmetic, reduce.identity)
                                        if selects:
                                            positions[vu, vv, vl] = T.Cast(index_dtype, start)
                                    if selects:
                                        positions[vu, vv, vl] = selected(
                                            message(x, w, edge_ids, indices, start + vj * unroll + vu, vt, vv, vl),
                                            start + vj * unroll + vu,
                                            acc[vu, vv, vl],
                                            positions[vu, vv, vl],
                                        )
                                    acc[vu, vv, vl] = accumulate(
                                        acc[vu, vv, vl],
                                        message(x, w, edge_ids, indices, start + vj * unroll + vu, vt, vv, vl),
                                    )
                        if unroll > 1:
                            left_over: T.let[T.int64] = stop - (stop - start) % unroll
                            for j, v, lane in T.grid((stop - start) % unroll, tile, lanes):
                                with T.sblock("rest"):
                                    vj, vv, vl = T.axis.remap("RSS", [j, v, lane])
                                    T.reads(
                                        indices[0:num_edges],
                                        edge_ids[0:num_ids],
                                        w[0:num_values, 0:edge_width],
                                        x[0:num_src, 0:x_width],
                                    )
                                    if selects:
                                        T.writes(rest[vv, vl], rest_positions[vv, vl])
                                    else:
                                        T.writes(rest[vv, vl])
                                    with T.init():
                                        rest[vv, vl] = T.Cast(arithmetic, reduce.identity)
                                        if selects:
                                            rest_positions[vv, vl] = T.Cast(index_dtype, start)
                                    if selects:
                                        rest_positions[vv, vl] = selected(
                                            message(x, w, edge_ids, indices, left_over + vj, vt, vv, vl),
                                            left_over + vj,
                                            rest[vv, vl],
                                            rest_positions[vv, vl],
                                        )
                                    rest[vv, vl] = accumulate(
                                        rest[vv, vl], message(x, w, edge_ids, indices, left_over + vj, vt, vv, vl)
                                    )
                            if selects:
                                for v, lane in T.grid(tile, lanes):
                                    with T.sblock("start_from_rest"):
                                        vv, vl = T.axis.remap("SS", [v, lane])
                                        T.reads(rest[vv, vl], rest_positions[vv, vl])
                                        T.writes(total[vv, vl], total_positions[vv, vl])
                                        total[vv, vl] = rest[vv, vl]
                                        total_positions[vv, vl] = rest_positions[vv, vl]
                                for u, v, lane in T.grid(unroll, tile, lanes):
                                    with T.sblock("merge"):
                                        vu, vv, vl = T.axis.remap("SSS", [u, v, lane])
                                        T.reads(acc[vu, vv, vl], positions[vu, vv, vl])
                                        T.writes(total[vv, vl], total_positions[vv, vl])
                                        total_positions[vv, vl] = merged(
                                            acc[vu, vv, vl],
                                            positions[vu, vv, vl],
                                            total[vv, vl],
                                            total_positions[vv, vl],
                                        )
                                        total[vv, vl] = accumulate(total[vv, vl], acc[vu, vv, vl])
                        for v, lane in T.grid(tile, lanes):
                            with T.sblock("store"):
                                vv, vl = T.axis.remap("SS", [v, lane])
                                if selects:
                                    T.reads(
                                        acc[0, vv, vl],
                                        positions[0, vv, vl],
                                        total[vv, vl],
                                        total_positions[vv, vl],
                                        edge_ids[0:num_ids],
                                    )
                                    T.writes(y[row, feature(vt, vv) + vl], arg[row, feature(vt, vv) + vl])
                                    arg[row, feature(vt, vv) + vl] = T.if_then_else(
                                        stop > start,
                                        edge_of(
                                            edge_ids, positions[0, vv, vl] if unroll == 1 else total_positions[vv, vl]
                                        ),
                                        T.Cast(index_dtype, -1),
                                    )
                                    y[row, feature(vt, vv) + vl] = finished(
                                        acc[0, vv, vl] if unroll == 1 else total[vv, vl], stop - start
                                    )
                                else:
                                    T.reads(acc[0:unroll, vv, vl], rest[vv, vl])
                                    T.writes(y[row, feature(vt, vv) + vl])
                                    y[row, feature(vt, vv) + vl] = finished(reduced(acc, rest, vv, vl), stop - start)

    return spmm


def scheduled(function: Any, problem: Problem, unroll: int, order: str) -> Any:
    """The function with its loops vectorised, unrolled and parallel, as an IRModule."""
    from tvm.ir import IRModule
    from tvm.s_tir import Schedule

    op = problem.op
    assert isinstance(op, SpMM)
    sch = Schedule(IRModule({"main": function}), debug_mask=0, error_render_level="fast")
    _keep_in_registers(sch, "neighbours", inner_loops=3)
    after = {"store": 2}
    if unroll > 1:
        _keep_in_registers(sch, "rest", inner_loops=2)
        after |= {"start_from_rest": 2, "merge": 3} if op.arg else {}
    for block_name, inner_loops in after.items():
        *outer, lane = sch.get_loops(sch.get_sblock(block_name))[-inner_loops:]
        sch.vectorize(lane)
        for loop in outer:
            sch.unroll(loop)
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
