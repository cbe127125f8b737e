"""Every primitive goes through the whole flow: searched, checked, published, loaded as exact and right."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tvm_gnn as tg
from tvm_gnn.graph import Graph
from tvm_gnn.ops import OPS
from tvm_gnn.ops.dtypes import numpy_dtype
from tvm_gnn.ops.operand import Structure
from tvm_gnn.ops.tolerance import first_mismatch

# An operator of each primitive, its width and dtype.
CASES: dict[str, tuple[str, Any, str]] = {
    "spmm": ("u_mul_e_max(arg=True)", 9, "float32"),
    "sddmm": ("u_dot_v", (2, 5), "float16"),
    "edge_softmax": ("edge_softmax", 3, "float64"),
    "gat": ("gat(attention=True)", (2, 4), "bfloat16"),
    "gatv2": ("gatv2", (2, 4), "float32"),
    "sort_pool": ("sort_pool(k=3)", 4, "float32"),
    "maxk": ("maxk_u_mul_e_mean(k=3)", 9, "float16"),
    "maxk_backward": ("maxk_backward_u_mul_e(k=3)", 9, "bfloat16"),
    "relational": ("u_mul_e_mean_across_max(relations=2)", 5, "float32"),
}


def test_no_primitive_is_left_out() -> None:
    assert set(CASES) == {op.primitive for op in OPS.values()}


@pytest.mark.parametrize("primitive", CASES)
def test_tuned_and_served(primitive: str) -> None:
    name, feat, dtype = CASES[primitive]
    rng = np.random.default_rng(0)
    graph = Graph.from_coo(*rng.integers(0, 40, (2, 300)), num_src=40, num_dst=50)
    report = tg.tune(graph, name, feat, dtype=dtype, trials=4)
    assert report.trials["valid"] >= 1
    kernel = tg.load(graph, name, feat, dtype=dtype)
    assert kernel.source == "exact"
    problem = kernel.problem
    inputs = []
    for operand in problem.inputs:
        rows = graph.row_counts[operand.rows]
        values = problem.op.probe(operand, rows, rng).astype(numpy_dtype(problem.dtype_of(operand)))
        inputs.append(values)
    structure = Structure(graph.indptr, graph.indices, graph.edge_ids, graph.num_src)
    reference = problem.op.reference(problem.dims, structure, *inputs)
    scales = problem.op.error_scale(problem.dims, structure, *inputs)
    found = kernel(*(array.reshape(slot.shape) for array, slot in zip(inputs, kernel._inputs, strict=True)))
    found = found if isinstance(found, tuple) else (found,)
    for got, want, scale in zip(found, reference, scales, strict=True):
        got = got.reshape(len(got), -1)
        assert first_mismatch(got, want, scale, problem.dtype) is None
