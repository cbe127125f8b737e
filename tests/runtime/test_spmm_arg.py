"""Selected edges through the public functions: shapes, dtypes, edge order, kinds of arrays, tuning."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tvm_gnn as tg
from tvm_gnn.errors import InputTypeError

SRC, DST = [2, 0, 1, 0, 2], [1, 0, 0, 1, 3]
# In CSR order the edges are 1, 2 | 3, 0 | none | 4.
X = np.array([[1.0, 5.0], [1.0, 7.0], [3.0, 5.0]], np.float32)
Y = np.array([[1, 7], [3, 5], [0, 0], [3, 5]], np.float32)
ARG = np.array([[1, 2], [0, 3], [-1, -1], [4, 4]])


@pytest.fixture
def graph() -> tg.Graph:
    return tg.Graph.from_coo(SRC, DST, num_src=3, num_dst=4)


@pytest.mark.usefixtures("quick_builds")
def test_ids_are_the_callers_and_ties_go_to_the_first_in_csr_order(graph: tg.Graph) -> None:
    y, arg = tg.load(graph, tg.spmm("copy_u", "max", arg=True), feat=2)(X)
    assert (y.dtype, arg.dtype) == (np.float32, graph.index_dtype)
    np.testing.assert_array_equal(y, Y)
    np.testing.assert_array_equal(arg, ARG)


@pytest.mark.usefixtures("quick_builds")
def test_in_csr_order_they_are_positions(graph: tg.Graph) -> None:
    _, arg = tg.load(graph, "copy_u_max(arg=True)", feat=2, edge_order="csr")(X)
    np.testing.assert_array_equal(arg, np.array([[0, 1], [3, 2], [-1, -1], [4, 4]]))


@pytest.mark.usefixtures("quick_builds")
def test_heads_edge_values_and_buffers(graph: tg.Graph) -> None:
    kernel = tg.load(graph, "u_mul_e_min(arg=True)", feat=(2, 1))
    w = np.array([[1], [-1], [2], [-1], [1]], np.float32).repeat(2, axis=1)
    out = np.empty((4, 2, 1), np.float32), np.empty((4, 2, 1), graph.index_dtype)
    given = kernel(X[:, :, None], w, out=out)
    assert all(each is buffer for each, buffer in zip(given, out, strict=True))
    np.testing.assert_array_equal(out[0][:, :, 0], [[-1, -5], [-1, -5], [0, 0], [3, 5]])
    np.testing.assert_array_equal(out[1][:, :, 0], [[1, 1], [3, 3], [-1, -1], [4, 4]])
    with pytest.raises(InputTypeError, match=r"out: must be a tuple of 2 buffers, \(y, arg\)"):
        kernel(X[:, :, None], w, out=out[0])


@pytest.mark.parametrize("num_dst", [0, 3])
def test_without_edges_there_is_none(num_dst: int) -> None:
    graph = tg.Graph.from_coo([], [], num_src=2, num_dst=num_dst)
    y, arg = tg.load(graph, "copy_u_max(arg=True)", feat=2)(X[:2])
    np.testing.assert_array_equal(y, np.zeros((num_dst, 2)))
    np.testing.assert_array_equal(arg, np.full((num_dst, 2), -1))


@pytest.mark.usefixtures("quick_builds")
def test_torch_tensors(graph: tg.Graph) -> None:
    torch = pytest.importorskip("torch")
    y, arg = tg.load(graph, "copy_u_max(arg=True)", feat=2)(torch.from_numpy(X))
    assert arg.dtype == getattr(torch, str(graph.index_dtype))
    np.testing.assert_array_equal(y.numpy(), Y)
    np.testing.assert_array_equal(arg.numpy(), ARG)


def test_it_can_be_tuned(graph: tg.Graph) -> None:
    report = tg.tune(graph, "copy_u_max(arg=True)", feat=2, trials=2)
    assert report.op == "copy_u_max(arg=True)"
    kernel = tg.load(graph, "copy_u_max(arg=True)", feat=2)
    assert kernel.source == "exact"
    _, arg = kernel(X)
    np.testing.assert_array_equal(arg, ARG)


def test_a_wrong_index_is_caught() -> None:
    from tvm_gnn.ops.tolerance import first_mismatch

    want: Any = np.array([[4, -1]])
    assert first_mismatch(np.array([[4, -1]], np.int32), want, np.zeros((1, 2)), "int32") is None
    message = first_mismatch(np.array([[4, 0]], np.int32), want, np.zeros((1, 2)), "int32")
    assert message == "1 of 2 elements differ, first at row 0, feature 1: got 0, expected -1"
