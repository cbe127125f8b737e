"""The oracle of selected edges against plain Python."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tvm_gnn.ops import reference, spmm
from tvm_gnn.ops.operand import Structure
from tvm_gnn.testing.odd_graphs import ODD_GRAPHS, variant


def selected(messages: list[float], better: str) -> int | None:
    """Index of the first NaN, else of the first of the best."""
    for i, value in enumerate(messages):
        if math.isnan(value):
            return i
    return messages.index(max(messages) if better == "max" else min(messages)) if messages else None


@pytest.mark.parametrize("graph_name", ODD_GRAPHS)
@pytest.mark.parametrize("reduce", ["max", "min"])
@pytest.mark.parametrize("edge_order", ["csr", "edge_ids"])
@pytest.mark.parametrize("chunk_bytes", [64, 64 << 20])
def test_first_of_the_best(
    graph_name: str, reduce: str, edge_order: str, chunk_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reference, "CHUNK_BYTES", chunk_bytes)
    graph = variant(ODD_GRAPHS[graph_name](), "int32", edge_order)
    rng = np.random.default_rng(0)
    x = rng.choice([np.nan, np.inf, -np.inf, 0.0, 1.0, 2.0], (graph.num_src, 3), p=[0.05, *[0.19] * 5])
    op = spmm("copy_u", reduce, arg=True)
    structure = Structure(graph.indptr, graph.indices, graph.edge_ids, graph.num_src)
    y, arg = op.reference(op.dims((3,), None), structure, x)
    assert arg.dtype == np.int64
    for row in range(graph.num_dst):
        edges = range(graph.indptr[row], graph.indptr[row + 1])
        for k in range(3):
            values = [float(x[graph.indices[p], k]) for p in edges]
            found = selected(values, reduce)
            if found is None:
                assert (y[row, k], arg[row, k]) == (0, -1)
                continue
            position = edges[found]
            assert arg[row, k] == (position if graph.edge_ids is None else graph.edge_ids[position])
            assert np.array_equal(y[row, k], values[found], equal_nan=True)


def test_ties_are_those_of_the_inputs_dtype() -> None:
    structure = Structure(np.array([0, 2]), np.array([0, 1]), None, 2)
    op = spmm("u_mul_e", "max", arg=True)
    x, w = np.array([[1 + 2**-13], [1.0]]), np.array([[1 - 2**-13], [1.0]])
    dims = op.dims((1,), None)
    assert op.reference(dims, structure, x, w)[1].item() == 1
    single = [each.astype(np.float32) for each in (x, w)]
    assert single[0][0] * single[1][0] == np.float32(1.0)
    assert op.reference(dims, structure, *single)[1].item() == 0
