"""A template's function at one graph's sizes, as a search that needs static shapes takes it."""

from __future__ import annotations

from typing import Any

from ..ops import Problem
from ..ops.dtypes import itemsize_of
from ..toolchain.importing import import_tvm
from .space import Counts


def specialised(function: Any, problem: Problem, counts: Counts, order: tuple[str, ...] = ()) -> Any:
    """An IRModule with the function's buffers at (num_dst, num_src, num_edges) and its scalars at 0.

    `order` names buffers to be fixed before the others: one whose size is a plain variable goes before one whose size
    is an expression of it.
    """
    tvm = import_tvm()
    num_dst, num_src, num_edges = counts
    rows = {"src": num_src, "dst": num_dst, "edge": num_edges, "once": 1}
    sizes: dict[str, tuple[tuple[int, ...], str]] = {
        each.name: ((rows[each.rows], each.width), problem.dtype_of(each))
        for each in (*problem.inputs, *problem.outputs)
    }
    sizes |= {name: ((num_edges,), problem.index_dtype) for name in ("indices", "edge_ids")}
    sizes |= {name: ((num_dst + 1,), problem.index_dtype) for name in ("indptr", "slice_indptr")}
    sizes["parts"] = ((2,), problem.index_dtype)
    if problem.dtype != problem.arithmetic_dtype:
        sizes["sums"] = ((1, problem.outputs[0].width), problem.arithmetic_dtype)
    static = {each.name for each in problem.inputs if each.rows == "once"}
    names = [parameter.name for parameter in function.params if parameter.name not in static]
    for name in sorted(names, key=lambda name: order.index(name) if name in order else len(order)):
        parameter = next(each for each in function.params if each.name == name)
        if not hasattr(parameter, "dtype"):  # a launch parameter, no buffer; MetaSchedule knows buffers only
            function = function.specialize({parameter: tvm.tirx.IntImm("int64", 0)})
            continue
        shape, dtype = sizes.get(name, ((0, 1), problem.dtype))  # one that the operator does not use
        dims = [tvm.tirx.IntImm("int64", dim) for dim in shape[:1]] + list(shape[1:])
        zero = tvm.tirx.IntImm("int64", 0)
        align = itemsize_of(dtype)
        buffer = tvm.tirx.decl_buffer(dims, dtype, name, elem_offset=zero, data_alignment=align)
        function = function.specialize({parameter: buffer})
    return tvm.IRModule({"main": function})
