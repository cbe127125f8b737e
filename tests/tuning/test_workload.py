"""What candidates are measured on: inputs and right results in both edge orders, exact sums, read-only memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tvm_gnn import Graph
from tvm_gnn.ops import OPS
from tvm_gnn.ops.reference import spmm_error_scale, spmm_reference
from tvm_gnn.ops.spmm import SPMM_OPS, SpMM
from tvm_gnn.testing.odd_graphs import ODD_GRAPHS
from tvm_gnn.testing.odd_operator import ScaledEdges
from tvm_gnn.tuning import workload
from tvm_gnn.tuning.task import Task
from tvm_gnn.tuning.workload import EDGE_ORDERS, Workload

PERMUTED = ODD_GRAPHS["unsorted_edge_list"]()  # has edge ids
SORTED = Graph(PERMUTED.indptr, PERMUTED.indices, num_src=PERMUTED.num_src)


@pytest.fixture
def written(tmp_path: Path) -> Callable[..., Workload]:
    """The workload of a task, as a worker reads it."""

    def write(task: Task, seed: int = 0) -> Workload:
        folder = tmp_path / f"{len(list(tmp_path.iterdir()))}"
        folder.mkdir()
        workload.write(task, folder, seed)
        return Workload(folder)

    return write


@pytest.mark.parametrize("graph", [PERMUTED, SORTED], ids=["permuted", "sorted"])
@pytest.mark.parametrize("op", ["u_mul_e_sum", "u_sub_e_mean", "copy_e_max"])
def test_both_edge_orders_mean_the_same(make: Any, written: Any, op: str, graph: Graph) -> None:
    found = written(make(op, graph=graph))
    ids = found.graph.edge_ids
    assert not np.array_equal(ids, np.arange(graph.num_edges))
    assert graph.edge_ids is None or np.array_equal(ids, graph.edge_ids)
    assert found.problem.edge_order == ("csr" if graph.edge_ids is None else "edge_ids")
    names = [each.name for each in found.problem.inputs]
    in_order, by_ids = (dict(zip(names, found.inputs(order), strict=True)) for order in EDGE_ORDERS)
    assert np.array_equal(by_ids["w"][ids], in_order["w"])
    assert in_order.get("x") is by_ids.get("x")
    for arrays, order, edge_ids in ((in_order, "csr", None), (by_ids, "edge_ids", ids)):
        (expected,) = found.expected(order)
        structure = (graph.indptr, graph.indices, edge_ids)
        want = spmm_reference(SPMM_OPS[op], *structure, arrays.get("x"), arrays["w"])
        assert np.array_equal(expected.reference, want)
        assert np.array_equal(expected.rounded, want.astype(np.float32))


def test_without_edge_values_there_is_one_order(make: Any, written: Any) -> None:
    found = written(make("copy_u_sum", graph=PERMUTED))
    assert found.graph.edge_ids is None
    assert [x is y for x, y in zip(*map(found.inputs, EDGE_ORDERS), strict=True)] == [True]
    assert [x is y for x, y in zip(*map(found.expected, EDGE_ORDERS), strict=True)] == [True]


@pytest.mark.parametrize("graph", [PERMUTED, SORTED], ids=["permuted", "sorted"])
def test_rows_of_edges_in_the_output(make: Any, written: Any, monkeypatch: pytest.MonkeyPatch, graph: Graph) -> None:
    op = ScaledEdges()
    monkeypatch.setitem(OPS, op.name, op)
    found = written(replace(make("copy_u_sum", graph=graph), op=op))
    for order in EDGE_ORDERS:
        (factor, s), (z, degree) = found.inputs(order), found.expected(order)
        assert (factor.shape, s.shape) == ((1, 1), (graph.num_edges, 1))
        assert np.array_equal(z.rounded, factor * s)
        assert z.rounded.dtype == np.float32
        assert np.array_equal(degree.rounded[:, 0], graph.in_degrees)
        assert degree.rounded.dtype == found.graph.index_dtype
    in_order, by_ids = (found.expected(order)[0] for order in EDGE_ORDERS)
    for what in ("rounded", "reference", "scale"):
        assert np.array_equal(getattr(by_ids, what)[found.graph.edge_ids], getattr(in_order, what))
    assert not np.array_equal(by_ids.rounded, in_order.rounded)


@pytest.mark.parametrize("op", SPMM_OPS)
def test_sums_are_exact_in_any_order(make: Any, written: Any, op: str) -> None:
    """So that the error to allow is that of one division, however long a row is."""
    found = written(make(op, graph=PERMUTED))
    (expected,) = found.expected("csr")
    assert np.array_equal(expected.scale, np.abs(expected.reference))
    if SPMM_OPS[op].reduce == "sum":
        assert np.array_equal(expected.rounded, expected.reference)
        quarters = 4 * expected.reference
        assert np.array_equal(quarters, np.round(quarters))


def test_where_sums_are_not_exact_the_operator_says_what_to_allow(
    make: Any, written: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SpMM, "largest_sum", lambda *_: 1e9)
    found = written(make("u_mul_e_sum", graph=PERMUTED))
    (expected,) = found.expected("csr")
    want = spmm_error_scale(SPMM_OPS["u_mul_e_sum"], PERMUTED.indptr, PERMUTED.indices, None, *found.inputs("csr"))
    assert np.array_equal(expected.scale, want)
    assert (expected.scale > expected.reference)[PERMUTED.in_degrees > 0].all()


def test_shapes_and_dtypes_are_the_problems(make: Any, written: Any) -> None:
    task = make("u_mul_e_sum", feat=(2, 5), graph=PERMUTED)
    found = written(replace(task, dtype="float64"))
    assert found.problem == replace(task, dtype="float64").problem
    assert found.threads == task.target.threads
    x, w = found.inputs("csr")
    (y,) = found.expected("csr")
    shapes = [(array.shape, array.dtype) for array in (x, w, y.rounded)]
    assert shapes == [((60, 10), np.float64), ((400, 2), np.float64), ((60, 10), np.float64)]


def test_inputs_follow_the_seed_and_cannot_be_written(make: Any, written: Any) -> None:
    task = make("u_mul_e_sum", graph=PERMUTED)
    first, again, other = (written(task, seed) for seed in (1, 1, 2))
    for arrays in zip(first.inputs("csr"), again.inputs("csr"), other.inputs("csr"), strict=True):
        assert np.array_equal(arrays[0], arrays[1])
        assert not np.array_equal(arrays[0], arrays[2])
        with pytest.raises(ValueError, match="read-only"):
            arrays[0][0] = 0
