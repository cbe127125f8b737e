"""g-SpMM kernels follow the written semantics: empty rows, NaN and infinity, means, odd shapes, equal bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tvm_gnn
from tvm_gnn.graph import Graph
from tvm_gnn.ops.reference import spmm_error_scale, spmm_reference
from tvm_gnn.ops.spmm import SPMM_OPS
from tvm_gnn.ops.tolerance import first_mismatch
from tvm_gnn.testing.odd_graphs import ODD_GRAPHS
from tvm_gnn.testing.operands import edge_values_shape, used

# Widths that are no multiple of the vectors they are built with, so that the last vector overlaps another.
OVERLAPPING = (3, 7, 33)


def features(graph: Graph, feat: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal((graph.num_src, feat)).astype(np.float32)


def weights(graph: Graph, seed: int = 0, op: str = "u_mul_e_sum", feat: int = 1) -> Any:
    shape = edge_values_shape(SPMM_OPS[op], graph, feat)
    return np.random.default_rng(seed + 1).standard_normal(shape).astype(np.float32)


def arguments(graph: Graph, op: str, feat: int) -> tuple[Any, ...]:
    return used(SPMM_OPS[op], features(graph, feat), weights(graph, 0, op, feat))


@pytest.mark.parametrize("op", SPMM_OPS)
def test_empty_rows_are_zero(make_kernel: Any, op: str) -> None:
    graph = ODD_GRAPHS["isolated_nodes"]()
    kernel = make_kernel(graph, op, 7)
    out = np.full((graph.num_dst, 7), np.nan, np.float32)
    y = kernel(*arguments(graph, op, 7), out=out)
    empty = graph.in_degrees == 0
    assert empty.sum() > 20
    assert (y[empty] == 0).all()
    assert not np.signbit(y[empty]).any()
    assert (y[~empty] != 0).all()


@pytest.mark.parametrize("feat", OVERLAPPING)
@pytest.mark.parametrize("op", [name for name, op in SPMM_OPS.items() if op.uses_src])
@pytest.mark.parametrize("poison", [np.nan, np.inf, -np.inf])
def test_nan_and_infinity_reach_only_the_rows_with_that_edge(
    make_kernel: Any, sampled_schedules: Any, op: str, feat: int, poison: float
) -> None:
    graph = ODD_GRAPHS["unsorted_edge_list"]()
    targets = np.repeat(np.arange(graph.num_dst), graph.in_degrees)
    for choice in sampled_schedules(feat, 4):
        kernel = make_kernel(graph, op, feat, choice)
        clean = kernel(*arguments(graph, op, feat))
        for node in range(0, graph.num_src, 13):
            for column in (0, feat // 2, feat - 1):
                x, *w = arguments(graph, op, feat)
                x[node, column] = poison
                got = kernel(x, *w)
                reached = np.zeros_like(got, bool)
                reached[targets[graph.indices == node], column] = True
                assert reached.any()
                # A finite message may beat an infinite one; NaN beats all.
                beaten = SPMM_OPS[op].reduce in ("max", "min") and not np.isnan(poison)
                assert beaten or not np.isfinite(got[reached]).any(), choice
                assert got[~reached].tobytes() == clean[~reached].tobytes(), choice


def test_a_nan_weight_reaches_only_its_row(make_kernel: Any) -> None:
    graph = ODD_GRAPHS["unsorted_edge_list"]()
    x, w = features(graph, 33), weights(graph)
    w[123] = np.nan
    assert graph.edge_ids is not None
    row = np.repeat(np.arange(graph.num_dst), graph.in_degrees)[np.flatnonzero(graph.edge_ids == 123)[0]]
    for op in ("u_mul_e_sum", "u_mul_e_mean"):
        y = make_kernel(graph, op, 33)(x, w)
        assert np.isnan(y[row]).all()
        assert np.isfinite(np.delete(y, row, axis=0)).all()


def test_infinities_add_as_ieee_says(make_kernel: Any) -> None:
    graph = Graph.from_coo([0, 1, 0, 2, 1], [0, 0, 1, 1, 2])
    x = np.array([[np.inf], [-np.inf], [5.0]], np.float32).repeat(3, axis=1)
    y = make_kernel(graph, "copy_u_sum", 3)(x)
    assert np.isnan(y[0]).all()
    assert (y[1] == np.inf).all()
    assert (y[2] == -np.inf).all()
    zero_times_infinity = make_kernel(graph, "u_mul_e_sum", 3)(x, np.zeros(5, np.float32))
    assert np.isnan(zero_times_infinity).all()


def test_negative_zero_and_denormals(make_kernel: Any) -> None:
    graph = Graph.from_coo([0, 1], [0, 1])
    x = np.array([[-0.0, 1e-44, -1e-44]] * 2, np.float32)
    np.testing.assert_array_equal(make_kernel(graph, "copy_u_sum", 3)(x), x)


def test_mean_divides_by_the_edge_count_also_when_weighted(make_kernel: Any) -> None:
    graph = Graph.from_coo([0, 0, 1, 1], [0, 0, 0, 1])
    x = np.array([[3.0], [6.0]], np.float32)
    w = np.array([2.0, 0.0, -1.0, 5.0], np.float32)
    assert make_kernel(graph, "copy_u_mean", 1)(x).tolist() == [[4.0], [6.0]]
    assert make_kernel(graph, "u_mul_e_mean", 1)(x, w).tolist() == [[0.0], [30.0]]


@pytest.mark.parametrize("op", SPMM_OPS)
@pytest.mark.parametrize("name", ["wide", "tall", "parallel_edges", "self_loops"])
def test_real_features_within_the_tolerance(make_kernel: Any, sampled_schedules: Any, name: str, op: str) -> None:
    graph = ODD_GRAPHS[name]()
    x, w = features(graph, 33), weights(graph, 0, op, 33)
    known = (SPMM_OPS[op], graph.indptr, graph.indices, graph.edge_ids, x, w)
    for choice in sampled_schedules(33, 4):
        y = make_kernel(graph, op, 33, choice)(*used(SPMM_OPS[op], x, w))
        assert first_mismatch(y, spmm_reference(*known), spmm_error_scale(*known)) is None, choice


@pytest.mark.parametrize("op", ["copy_u_sum", "u_mul_e_mean"])
def test_one_bit_pattern_over_calls_threads_and_hand_out(make_kernel: Any, op: str) -> None:
    graph = ODD_GRAPHS["long_row"]()
    given_arrays = arguments(graph, op, 33)
    base = make_kernel(graph, op, 33).provenance.decisions
    results = set()
    for launch in (
        {"parts": 1},
        {"parts": 2},
        {"parts": 16},
        {"parts": 64, "dynamic": True},
        {"parts": 16, "dynamic": True},
    ):
        for threads in (1, 2, 5):
            kernel = make_kernel(graph, op, 33, {**base, "dynamic": False, **launch}, threads=threads)
            results |= {kernel(*given_arrays).tobytes() for _ in range(5)}
    assert len(results) == 1


@pytest.mark.parametrize("op", SPMM_OPS)
def test_index_widths_give_the_same_bits(make_kernel: Any, op: str) -> None:
    from tvm_gnn.testing.odd_graphs import variant

    graph = ODD_GRAPHS["power_law"]()
    narrow, wide = (variant(graph, index_dtype, "edge_ids") for index_dtype in ("int32", "int64"))
    given_arrays = arguments(graph, op, 31)
    assert wide.index_dtype == "int64"
    assert make_kernel(narrow, op, 31)(*given_arrays).tobytes() == make_kernel(wide, op, 31)(*given_arrays).tobytes()


@pytest.mark.parametrize("op", ["u_mul_e_sum", "u_mul_e_mean"])
def test_weights_in_csr_order_give_the_same_bits(make_kernel: Any, op: str) -> None:
    graph = ODD_GRAPHS["unsorted_edge_list"]()
    x, w = features(graph, 16), weights(graph)
    by_ids = make_kernel(graph, op, 16)(x, w)
    in_order = make_kernel(graph, op, 16, edge_order="csr")(x, graph.to_csr_order(w))
    assert by_ids.tobytes() == in_order.tobytes()
    assert not np.array_equal(by_ids, make_kernel(graph, op, 16, edge_order="csr")(x, w))


@pytest.mark.parametrize("op", SPMM_OPS)
@pytest.mark.parametrize(
    ("name", "feat"), [("empty", 4), ("no_destination", 4), ("zero_edges", 4), ("power_law", 0), ("empty", 0)]
)
def test_nothing_to_compute(name: str, feat: int, op: str) -> None:
    """These need no library: every element is an empty sum."""
    graph = ODD_GRAPHS[name]()
    kernel = tvm_gnn.load(graph, op, feat)
    y = kernel(*arguments(graph, op, feat))
    assert (y.shape, y.dtype) == ((graph.num_dst, feat), np.float32)
    assert (y == 0).all()
    out = np.full((graph.num_dst, feat), np.nan, np.float32)
    assert kernel(*arguments(graph, op, feat), out=out) is out
    assert (out == 0).all()


@pytest.mark.parametrize("name", ["zero_edges", "power_law"])
def test_checks_hold_where_there_is_nothing_to_compute(name: str) -> None:
    graph = ODD_GRAPHS[name]()
    kernel = tvm_gnn.load(graph, "u_mul_e_sum", 0)
    with pytest.raises(ValueError, match=r"x: must have shape"):
        kernel(np.zeros((graph.num_src, 1), np.float32), weights(graph))
    with pytest.raises(TypeError, match=r"w: u_mul_e_sum takes kernel\(x, w\), w of shape .* \(got none\)"):
        kernel(np.zeros((graph.num_src, 0), np.float32))


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    num_src, num_dst = draw(st.integers(1, 12)), draw(st.integers(1, 12))
    edges = draw(st.lists(st.tuples(st.integers(0, num_src - 1), st.integers(0, num_dst - 1)), min_size=1, max_size=60))
    src, dst = zip(*edges, strict=True)
    return Graph.from_coo(src, dst, num_src=num_src, num_dst=num_dst)


@pytest.mark.parametrize("op", ["copy_u_mean", "u_mul_e_sum", "copy_e_max", "u_sub_e_min"])
def test_any_small_graph(make_kernel: Any, sampled_schedules: Any, op: str) -> None:
    schedules = sampled_schedules(7, 3)

    @settings(max_examples=100, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
    @given(graphs(), st.sampled_from(schedules), st.integers(0, 5))
    def check(graph: Graph, choice: Any, seed: int) -> None:
        x, w = features(graph, 7, seed), weights(graph, seed, op, 7)
        known = (SPMM_OPS[op], graph.indptr, graph.indices, graph.edge_ids, x, w)
        y = make_kernel(graph, op, 7, choice)(*used(SPMM_OPS[op], x, w))
        assert first_mismatch(y, spmm_reference(*known), spmm_error_scale(*known)) is None

    check()
