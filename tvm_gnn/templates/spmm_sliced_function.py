"""The TensorIR function of g-SpMM over slices of sources, in nnz-balanced parts of rows.

A part takes one slice after the other (`graph.sliced`), all of its rows in each: what they gather is then in the core's
own cache, at the price of adding to a row of `y` once per slice. Worth it where rows are long.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..ops import Problem
from ..ops.spmm import SpMM
from .space import Value
from .spmm_cells import Cells


def prim_func(problem: Problem, code: Mapping[str, Value]) -> Any:
    """The function of a problem; `code` is `launch.code_decisions` of a schedule with slices."""
    from tvm.script import tirx as T

    op = problem.op
    assert isinstance(op, SpMM)
    cells = Cells(problem, code)
    F, edge_width, dtype, index_dtype = problem.width, problem.edge_width, problem.dtype, problem.index_dtype
    x_width = F if op.uses_src else 1  # 1 of a stand-in
    lanes, tile, unroll, tiles = cells.lanes, cells.tile, cells.unroll, cells.tiles
    whole, left_over = F // lanes, F % lanes
    tiles_first = code["order"] == "tiles"
    outer, inner = (tiles, 1) if tiles_first else (1, tiles)
    itemsize, index_size = problem.itemsize, problem.index_itemsize
    finishes = op.reduce_op.divides_by_degree or op.reduce_op.better is not None
    identity = op.reduce_op.identity

    def tile_of(outermost: Any, innermost: Any) -> Any:
        return outermost if tiles_first else innermost

    def message(arrays: Any, p: Any, t: Any, v: Any, lane: Any) -> Any:
        x, w, edge_ids, indices = arrays
        return cells.message(x, w, T.Cast("int64", indices[p]), T.Cast("int64", edge_ids[p]), t, v, lane)

    def added(place: tuple[Any, ...], total: Any) -> Any:
        y, row, t, v, lane = place
        before = y[row, cells.feature(t, v) + lane]
        return cells.unless_counted(t, v, lane, cells.accumulate(before, total), before)

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
        slice_indptr = T.match_buffer(slice_indptr_handle, (num_pointers,), index_dtype, align=index_size)
        indices = T.match_buffer(indices_handle, (num_edges,), index_dtype, align=index_size)
        edge_ids = T.match_buffer(edge_ids_handle, (num_ids,), index_dtype, align=index_size)
        w = T.match_buffer(w_handle, (num_values, edge_width), dtype, align=itemsize)
        x = T.match_buffer(x_handle, (num_src, x_width), dtype, align=itemsize)
        y = T.match_buffer(y_handle, (num_dst, F), dtype, align=itemsize)
        arg = T.match_buffer(arg_handle, (num_args, 1), dtype, align=itemsize)  # noqa: F841  of `spmm_csr_function`
        indptr = T.match_buffer(indptr_handle, (num_dst + 1,), index_dtype, align=index_size)
        parts = T.match_buffer(parts_handle, (num_bounds,), index_dtype, align=index_size)
        for part in T.parallel(num_bounds - 1):
            with T.sblock("part"):
                vp = T.axis.spatial(num_bounds - 1, part)
                T.reads(
                    parts[vp : vp + 2],
                    indptr[0 : num_dst + 1],
                    slice_indptr[0:num_pointers],
                    indices[0:num_edges],
                    edge_ids[0:num_ids],
                    w[0:num_values, 0:edge_width],
                    x[0:num_src, 0:x_width],
                    y[0:num_dst, 0:F],
                )
                T.writes(y[0:num_dst, 0:F])
                acc = T.sblock_alloc_buffer((unroll, tile, lanes), dtype, scope="global")
                rest = T.sblock_alloc_buffer((tile, lanes), dtype, scope="global")
                first: T.let[T.int64] = T.Cast("int64", parts[vp])
                rows: T.let[T.int64] = T.Cast("int64", parts[vp + 1]) - first
                for r in T.serial(rows):
                    for v in T.serial(whole):
                        for lane in T.vectorized(lanes):
                            y[first + r, v * lanes + lane] = T.Cast(dtype, identity)
                    for c in T.serial(left_over):
                        y[first + r, whole * lanes + c] = T.Cast(dtype, identity)
                for outermost, s, r, innermost in T.grid(outer, slices, rows, inner):
                    start: T.let[T.int64] = T.Cast("int64", slice_indptr[s * num_dst + first + r])
                    stop: T.let[T.int64] = T.Cast("int64", slice_indptr[s * num_dst + first + r + 1])
                    if stop > start:
                        for u in T.unroll(unroll):
                            for v in T.unroll(tile):
                                for lane in T.vectorized(lanes):
                                    acc[u, v, lane] = T.Cast(dtype, identity)
                        for j in T.serial((stop - start) // unroll):
                            for u in T.unroll(unroll):
                                for v in T.unroll(tile):
                                    for lane in T.vectorized(lanes):
                                        acc[u, v, lane] = cells.accumulate(
                                            acc[u, v, lane],
                                            message(
                                                (x, w, edge_ids, indices),
                                                start + j * unroll + u,
                                                tile_of(outermost, innermost),
                                                v,
                                                lane,
                                            ),
                                        )
                        if unroll > 1:
                            for v in T.unroll(tile):
                                for lane in T.vectorized(lanes):
                                    rest[v, lane] = T.Cast(dtype, identity)
                            left: T.let[T.int64] = (stop - start) % unroll
                            for j in T.serial(left):
                                for v in T.unroll(tile):
                                    for lane in T.vectorized(lanes):
                                        rest[v, lane] = cells.accumulate(
                                            rest[v, lane],
                                            message(
                                                (x, w, edge_ids, indices),
                                                stop - left + j,
                                                tile_of(outermost, innermost),
                                                v,
                                                lane,
                                            ),
                                        )
                        for v in T.unroll(tile):
                            for lane in T.vectorized(lanes):
                                y[first + r, cells.feature(tile_of(outermost, innermost), v) + lane] = added(
                                    (y, first + r, tile_of(outermost, innermost), v, lane),
                                    cells.reduced(acc, rest, v, lane),
                                )
                if finishes:
                    for r in T.serial(rows):
                        degree: T.let[T.int64] = T.Cast("int64", indptr[first + r + 1] - indptr[first + r])
                        for v in T.serial(whole):
                            for lane in T.vectorized(lanes):
                                y[first + r, v * lanes + lane] = cells.finished(y[first + r, v * lanes + lane], degree)
                        for c in T.serial(left_over):
                            y[first + r, whole * lanes + c] = cells.finished(y[first + r, whole * lanes + c], degree)

    return spmm
