"""g-SDDMM through the public functions: known values, infinities and NaN, edge order, kinds of arrays, tuning."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tvm_gnn as tg
from tvm_gnn.errors import InputError, InputTypeError
from tvm_gnn.graph import Graph
from tvm_gnn.ops.dtypes import DTYPES, numpy_dtype
from tvm_gnn.testing.odd_graphs import ODD_GRAPHS
from tvm_gnn.testing.operands import problem
from tvm_gnn.testing.schedules import space_of

# edges 2→1, 0→0, 1→0, 0→1 of a graph with three sources and two destinations
SRC, DST = [2, 0, 1, 0], [1, 0, 0, 1]
U = np.array([[1.0, 0.0, 2.0], [0.0, 3.0, 0.0], [1.0, 1.0, 1.0]])
V = np.array([[1.0, 2.0, 3.0], [-1.0, 0.0, 1.0]])
DOTS = [0.0, 7.0, 6.0, 1.0]


@pytest.fixture
def graph() -> Graph:
    return Graph.from_coo(SRC, DST, num_src=3, num_dst=2)


@pytest.mark.parametrize("dtype", DTYPES)
def test_sddmm_rect(make_kernel: Any, graph: Graph, dtype: str) -> None:
    u, v = U.astype(numpy_dtype(dtype)), V.astype(numpy_dtype(dtype))
    space = space_of(problem("u_dot_v", 3, dtype))
    for choice in (None, next(choice for choice in space if choice["unroll"] == 8)):
        got = make_kernel(graph, "u_dot_v", 3, choice, dtype=dtype)(u, v)
        assert (got.shape, got.dtype) == ((4,), u.dtype)
        assert got.astype(float).tolist() == DOTS


@pytest.mark.usefixtures("quick_builds")
def test_results_are_in_the_callers_order_or_in_csr_order(graph: Graph) -> None:
    u, v = U.astype(np.float32), V.astype(np.float32)
    assert tg.load(graph, "u_dot_v", 3)(u, v).tolist() == DOTS
    in_csr_order = tg.load(graph, "u_dot_v", 3, edge_order="csr")(u, v)
    np.testing.assert_array_equal(in_csr_order, graph.to_csr_order(np.array(DOTS, np.float32)))
    w = np.array([[10.0], [20.0], [30.0], [40.0]], np.float32)
    got = tg.load(graph, "e_sub_u", 3, edge_feat=())(w, u)
    np.testing.assert_array_equal(got, w - u[SRC])
    assert tg.load(graph, "copy_v", 3)(v).tolist() == V[DST].tolist()


@pytest.mark.usefixtures("quick_builds")
def test_heads_and_torch(graph: Graph) -> None:
    torch = pytest.importorskip("torch")
    u, v = (torch.from_numpy(each.astype(np.float32)).reshape(-1, 3, 1) for each in (U, V))
    got = tg.load(graph, "u_dot_v", (3, 1))(u, v)
    assert (got.dtype, tuple(got.shape)) == (torch.float32, (4, 3))
    np.testing.assert_array_equal(got.numpy(), U[SRC] * V[DST])
    out = torch.empty(4, 3, 1)
    assert tg.load(graph, "u_add_v", (3, 1))(u, v, out=out) is out
    np.testing.assert_array_equal(out[:, :, 0].numpy(), U[SRC] + V[DST])


@pytest.mark.parametrize("poison", [np.nan, np.inf])
@pytest.mark.parametrize("op", ["u_dot_v", "u_add_v", "u_mul_e", "v_div_u"])
def test_nan_and_infinity_reach_only_their_edges_and_features(make_kernel: Any, op: str, poison: float) -> None:
    graph = ODD_GRAPHS["unsorted_edge_list"]()
    feat = 33  # the last vector overlaps the one before it
    rng = np.random.default_rng(0)
    what = problem(op, feat)
    rows = {"src": graph.num_src, "dst": graph.num_dst, "edge": graph.num_edges}
    inputs = [rng.uniform(1, 2, (rows[each.rows], feat)).astype(np.float32) for each in what.inputs]
    src = np.empty(graph.num_edges, int)
    src[graph.edge_ids if graph.edge_ids is not None else slice(None)] = graph.indices
    legal = list(space_of(what))
    for choice in (None, legal[0], legal[-1]):
        kernel = make_kernel(graph, op, feat, choice)
        clean = kernel(*inputs).reshape(graph.num_edges, -1)
        place = [each.rows for each in what.inputs].index("src")
        for node in range(0, graph.num_src, 7):
            for column in (0, 16, 31, 32):
                given = [each.copy() for each in inputs]
                given[place][node, column] = poison
                got = kernel(*given).reshape(graph.num_edges, -1)
                reached = np.zeros_like(got, bool)
                reached[src == node, 0 if op == "u_dot_v" else column] = True
                assert reached.any()
                divided = op == "v_div_u" and np.isinf(poison)
                assert (got[reached] == 0).all() if divided else not np.isfinite(got[reached]).any()
                assert got[~reached].tobytes() == clean[~reached].tobytes(), choice


def test_infinity_times_zero_is_nan_and_stays_in_its_head(make_kernel: Any) -> None:
    one = Graph.from_coo([0], [0])
    u = np.array([[[np.inf, 1.0], [2.0, 3.0]]], np.float32)
    v = np.array([[[0.0, 1.0], [4.0, 5.0]]], np.float32)
    dots = make_kernel(one, "u_dot_v", (2, 2))(u, v)
    assert np.isnan(dots[0, 0])
    assert dots[0, 1] == 23
    zeros = np.array([[[0.0, -0.0], [2.0, 4.0]]], np.float32)
    quotients = make_kernel(one, "v_div_u", (2, 2))(v, zeros)
    np.testing.assert_array_equal(quotients, np.array([[[np.nan, -np.inf], [2.0, 1.25]]], np.float32))


@pytest.mark.usefixtures("quick_builds")
def test_without_edges_there_is_an_empty_result() -> None:
    graph = Graph.from_coo([], [], num_src=3, num_dst=2)
    got = tg.load(graph, "u_dot_v", 3)(U.astype(np.float32), V.astype(np.float32))
    assert got.shape == (0,)


@pytest.mark.usefixtures("quick_builds")
def test_wrong_arguments_are_named(graph: Graph) -> None:
    u, v = U.astype(np.float32), V.astype(np.float32)
    kernel = tg.load(graph, "u_dot_v", 3)
    with pytest.raises(InputTypeError, match=r"rhs: u_dot_v takes kernel\(lhs, rhs\), rhs of shape \(2, 3\)"):
        kernel(u)
    with pytest.raises(InputError, match=r"rhs: must have shape \(2, 3\)"):
        kernel(u, u)
    with pytest.raises(InputTypeError, match="lhs: must be float32"):
        kernel(U, v)
    with pytest.raises(InputTypeError, match=r"lhs: must be float32 \(got int64\).*floating-point numbers"):
        kernel(U.astype(np.int64), v)


def test_it_can_be_tuned() -> None:
    graph = tg.datasets.load("karate")
    tg.tune(graph, "u_dot_v", feat=8, dtype="float16", trials=2)
    kernel = tg.load(graph, "u_dot_v", feat=8, dtype="float16")
    assert kernel.source == "exact"
    x = np.ones((graph.num_src, 8), np.float16)
    assert (kernel(x, x) == 8).all()
