"""The oracle of g-SDDMM against plain Python: one edge, one number at a time."""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tvm_gnn.errors import InputError
from tvm_gnn.graph import Graph
from tvm_gnn.ops import Problem, sddmm
from tvm_gnn.ops.operand import Structure
from tvm_gnn.ops.sddmm import SDDMM_OPS
from tvm_gnn.ops.tolerance import first_mismatch
from tvm_gnn.testing.odd_graphs import ODD_GRAPHS, variant

SHAPES = ((3,), (2, 3), (1,), (2, 1))
FUNCTIONS = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "div": operator.truediv,
    "dot": operator.mul,
}


def structure_of(graph: Graph) -> Structure:
    return Structure(graph.indptr, graph.indices, graph.edge_ids, graph.num_src)


def inputs_of(problem: Problem, graph: Graph) -> list[NDArray[np.float64]]:
    rng = np.random.default_rng(3)
    return [rng.standard_normal((graph.row_counts[each.rows], each.width)) for each in problem.inputs]


def one_by_one(problem: Problem, graph: Graph, inputs: list[NDArray[Any]]) -> NDArray[np.float64]:
    """Arrays with their full shapes, broadcast as numpy does; the caller's edge e is position p of the CSR arrays."""
    op, (feat, edge_feat) = problem.op, problem.dims
    shapes = {"u": feat, "v": feat, "e": edge_feat + (1,) * (len(feat) - len(edge_feat))}
    targets = [op.lhs] if op.rhs is None else [op.lhs, op.rhs]
    arrays = [array.reshape(len(array), *shapes[target]) for array, target in zip(inputs, targets, strict=True)]
    out = np.full((graph.num_edges, *problem.outputs[0].shape), np.nan)
    for row in range(graph.num_dst):
        for p in range(graph.indptr[row], graph.indptr[row + 1]):
            edge = p if graph.edge_ids is None else graph.edge_ids[p]
            place = {"u": graph.indices[p], "v": row, "e": edge}
            sides = [np.broadcast_to(array[place[target]], feat) for array, target in zip(arrays, targets, strict=True)]
            for head in np.ndindex(feat[:-1]):
                values = [[float(each) for each in side[head]] for side in sides]
                if op.combine is None:
                    out[(edge, *head)] = values[0]
                    continue
                results = [FUNCTIONS[op.combine](left, right) for left, right in zip(*values, strict=True)]
                out[(edge, *head)] = math.fsum(results) if op.combine == "dot" else results
    return out.reshape(graph.num_edges, problem.outputs[0].width)


def problems(op: str) -> list[Problem]:
    what = SDDMM_OPS[op]
    broadcasts = "e" in (what.lhs, what.rhs) and what.combine is not None and not what.reduces
    edge_feats = {(3,): [(), (1,)], (2, 3): [(), (2, 1)], (1,): [()], (2, 1): [(), (1, 1)]}
    return [
        Problem(what, what.dims(shape, edge_feat), "float64")
        for shape in SHAPES
        for edge_feat in [None, *(edge_feats[shape] if broadcasts else [])]
    ]


@pytest.mark.parametrize("op", SDDMM_OPS)
@pytest.mark.parametrize("edge_order", ["csr", "edge_ids"])
def test_equals_plain_python(op: str, edge_order: str) -> None:
    for name in ("empty", "zero_edges", "one_edge", "isolated_nodes", "wide", "parallel_edges", "unsorted_edge_list"):
        graph = variant(ODD_GRAPHS[name](), "int32", edge_order)
        for problem in problems(op):
            inputs = inputs_of(problem, graph)
            (got,) = problem.op.reference(problem.dims, structure_of(graph), *inputs)
            want = one_by_one(problem, graph, inputs)
            assert got.shape == want.shape
            np.testing.assert_allclose(got, want, rtol=1e-13, atol=1e-13, err_msg=f"{name} {problem}")


@pytest.mark.parametrize("op", SDDMM_OPS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_error_scale_allows_rounding_and_no_wrong_operand(op: str, dtype: str) -> None:
    graph = ODD_GRAPHS["power_law"]()
    what = SDDMM_OPS[op]
    dims = what.dims((2, 33), None)
    inputs = [each.astype(dtype) for each in inputs_of(Problem(what, dims), graph)]
    (want,) = what.reference(dims, structure_of(graph), *inputs)
    (scale,) = what.error_scale(dims, structure_of(graph), *inputs)
    reshaped = [each.reshape(len(each), 2, 33) for each in inputs]
    rows = {"u": graph.indices, "v": np.repeat(np.arange(graph.num_dst), graph.in_degrees), "e": slice(None)}
    ids = slice(None) if graph.edge_ids is None else graph.edge_ids
    rows["e"] = ids
    sides = [array[rows[target]] for array, target in zip(reshaped, (what.lhs, what.rhs or ""), strict=False)]
    result = sides[0] if what.combine is None else FUNCTIONS[what.combine](*sides)
    if what.reduces:
        result = result.sum(axis=2, dtype=dtype)
    got = np.empty((graph.num_edges, want.shape[1]), dtype)
    got[ids] = result.reshape(got.shape)
    assert first_mismatch(got, want, scale, dtype) is None
    assert first_mismatch(np.roll(got, 1, axis=0), want, scale, dtype) is not None


def test_dots_sum_over_the_last_dim_per_head() -> None:
    graph = Graph.from_coo([0], [0])
    op = sddmm("u_dot_v")
    u, v = np.array([[1.0, 2.0, 3.0, 4.0]]), np.array([[1.0, 1.0, 10.0, 10.0]])
    for shape, want in (((4,), [[73.0]]), ((2, 2), [[3.0, 70.0]]), ((4, 1), [[1.0, 2.0, 30.0, 40.0]])):
        dims = op.dims(shape, None)
        assert op.outputs(dims)[0].shape == shape[:-1]
        np.testing.assert_array_equal(op.reference(dims, structure_of(graph), u, v)[0], want)


def test_what_does_not_broadcast_is_refused() -> None:
    for op, edge_feat in (("u_add_v", ()), ("u_dot_e", ()), ("copy_e", ()), ("u_add_e", (5,)), ("copy_u", (3,))):
        with pytest.raises(InputError, match="edge_feat"):
            SDDMM_OPS[op].dims((3,), edge_feat)
