"""float16 and bfloat16: summed in float32, rounded once, in numpy's and torch's own arrays, tuned as other dtypes."""

from __future__ import annotations

import itertools
import sys
from typing import Any

import numpy as np
import pytest

import tvm_gnn as tg
from tvm_gnn.errors import DependencyError, InputError, InputTypeError
from tvm_gnn.graph import Graph
from tvm_gnn.ops.dtypes import numpy_dtype, rounded
from tvm_gnn.testing.buffers import at_offset
from tvm_gnn.testing.odd_graphs import ODD_GRAPHS
from tvm_gnn.testing.operands import problem
from tvm_gnn.testing.schedules import space_of

HALVES = ("float16", "bfloat16")
SRC, DST = [0, 1, 2, 0, 2], [0, 0, 1, 3, 3]
X = np.array([[1.0, 2.0, 3.0], [-4.0, 5.0, 0.5], [7.0, -8.0, 9.0]])
SUM = np.array([[-3.0, 7.0, 3.5], [7.0, -8.0, 9.0], [0.0, 0.0, 0.0], [8.0, -6.0, 12.0]])


@pytest.fixture
def graph() -> Graph:
    return Graph.from_coo(SRC, DST, num_src=3, num_dst=4)


def star(leaves: int) -> Graph:
    return Graph.from_coo(np.arange(leaves), np.zeros(leaves, int), num_src=leaves, num_dst=1)


def unrolled(feat: int, dtype: str) -> list[Any]:
    """A schedule for every number of accumulators."""
    space = space_of(problem("copy_u_sum", feat, dtype))
    return [next(choice for choice in space if choice["unroll"] == unroll) for unroll in (1, 2, 4)]


@pytest.mark.parametrize(("dtype", "leaves"), [("float16", 4096), ("bfloat16", 1000)])
def test_hubs_are_summed_exactly(make_kernel: Any, dtype: str, leaves: int) -> None:
    x = np.ones((leaves, 3), numpy_dtype(dtype))
    for choice in unrolled(3, dtype):
        y = make_kernel(star(leaves), "copy_u_sum", 3, choice, dtype=dtype)(x)
        assert y.dtype == x.dtype
        assert y.astype(float).tolist() == [[leaves] * 3]


def test_float16_overflows_to_infinity_where_rounding_does(make_kernel: Any) -> None:
    kernel = make_kernel(star(4), "copy_u_sum", 1, dtype="float16")
    for last, want in ((15.0, 65504.0), (16.0, np.inf), (60000.0, np.inf), (-65504.0, 0.0)):
        x = np.array([[65472.0], [32.0], [0.0], [last]], np.float16)
        assert kernel(x).item() == want
        assert kernel(-x).item() == -want


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("op", ["copy_u_sum", "copy_u_max", "copy_u_mean", "copy_u"])
def test_every_value_comes_out_as_it_went_in(make_kernel: Any, dtype: str, op: str) -> None:
    nodes = np.arange(2**16 // 16)
    graph = Graph.from_coo(nodes, nodes)
    x = np.arange(2**16, dtype=np.uint16).view(numpy_dtype(dtype)).reshape(-1, 16)
    y = make_kernel(graph, op, 16, dtype=dtype)(x)
    same = (y == x) | (np.isnan(y) & np.isnan(x))
    assert same.all(), x[~same]


@pytest.mark.parametrize("dtype", HALVES)
def test_results_are_rounded_once_to_nearest_even(make_kernel: Any, dtype: str) -> None:
    nodes = np.arange(1000)
    graph = Graph.from_coo(nodes, nodes)
    rng = np.random.default_rng(0)
    x = rng.standard_normal((1000, 31)).astype(numpy_dtype(dtype))
    w = np.exp2(rng.integers(-9, 9, (1000, 31))).astype(numpy_dtype(dtype))
    # Sums of two halves are exact in float32 here, and many lie in the middle of two halves.
    exact = x.astype(float) + w.astype(float)
    y = make_kernel(graph, "u_add_e_sum", 31, dtype=dtype, edge_feat=(31,))(x, w)
    np.testing.assert_array_equal(y.astype(float), rounded(exact, dtype).astype(float))


@pytest.mark.parametrize("dtype", HALVES)
def test_a_dot_product_is_summed_in_float32(make_kernel: Any, dtype: str) -> None:
    one = Graph.from_coo([0], [0])
    u = np.ones((1, 4096), numpy_dtype(dtype))
    assert make_kernel(one, "u_dot_v", 4096, dtype=dtype)(u, u).item() == 4096


@pytest.mark.parametrize("dtype", HALVES)
def test_numpy_arrays_at_any_address(make_kernel: Any, graph: Graph, dtype: str) -> None:
    kernel = make_kernel(graph, "copy_u_sum", 3, dtype=dtype)
    for offset in (0, 2, 34):
        x = at_offset(X.astype(numpy_dtype(dtype)), offset)
        y = kernel(x)
        assert y.dtype == x.dtype
        np.testing.assert_array_equal(y.astype(float), SUM)
    backwards = X[::-1].astype(numpy_dtype(dtype))[::-1]
    np.testing.assert_array_equal(kernel(backwards).astype(float), SUM)


@pytest.mark.parametrize("dtype", HALVES)
def test_torch_tensors_in_and_out(make_kernel: Any, graph: Graph, dtype: str) -> None:
    torch = pytest.importorskip("torch")
    kernel = make_kernel(graph, "copy_u_sum", 3, dtype=dtype)
    x = torch.from_numpy(X).to(getattr(torch, dtype))
    shifted = torch.empty(10, dtype=x.dtype)[1:].reshape(3, 3).copy_(x)
    for given in (x, shifted, x.repeat(1, 2)[:, :3]):
        y = kernel(given)
        assert y.dtype is x.dtype
        np.testing.assert_array_equal(y.double().numpy(), SUM)
    out = torch.empty(4, 3, dtype=x.dtype)
    assert kernel(x, out=out) is out
    np.testing.assert_array_equal(out.double().numpy(), SUM)
    with pytest.raises(InputTypeError, match=rf"x: must be {dtype} \(got float32\)"):
        kernel(x.float())
    assert kernel(X.astype(numpy_dtype(dtype))).dtype == numpy_dtype(dtype)


@pytest.mark.parametrize("dtype", HALVES)
def test_large_outputs_are_recycled_in_their_dtype(make_kernel: Any, dtype: str) -> None:
    torch = pytest.importorskip("torch")
    nodes = np.arange(5000)
    kernel = make_kernel(Graph.from_coo(nodes, nodes), "copy_u_sum", 128, dtype=dtype)
    x = torch.ones(5000, 128, dtype=getattr(torch, dtype))
    addresses = set()
    for _ in range(4):
        y = kernel(x)
        assert y.dtype is x.dtype
        assert (y == 1).all()
        addresses.add(y.data_ptr())
        array = kernel(np.ones((5000, 128), numpy_dtype(dtype)))
        assert array.dtype == numpy_dtype(dtype)
        assert (array == 1).all()
        del y, array
    assert len(addresses) < 4


def test_bfloat16_of_numpy_needs_a_package_that_torch_does_not(
    make_kernel: Any, graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch = pytest.importorskip("torch")
    kernel = make_kernel(graph, "copy_u_sum", 3, dtype="bfloat16")
    large = make_kernel(ODD_GRAPHS["star_out"](), "copy_u_sum", 8192, dtype="bfloat16")
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    numpy_dtype.cache_clear()
    try:
        assert kernel(torch.from_numpy(X).bfloat16()).dtype is torch.bfloat16
        assert large(torch.ones(80, 8192, dtype=torch.bfloat16)).sum() > 0
        with pytest.raises(DependencyError, match="bfloat16: numpy arrays of it need the package ml_dtypes"):
            kernel(X)
    finally:
        numpy_dtype.cache_clear()


@pytest.mark.usefixtures("quick_builds")
def test_what_is_not_computed_is_a_type_error(graph: Graph) -> None:
    kernel = tg.load(graph, "copy_u_sum", 3, dtype="float16")
    for dtype in ("int8", "int64", "uint16", "bool", "complex64"):
        with pytest.raises(InputTypeError, match=rf"x: must be float16 \(got {dtype}\).*floating-point numbers"):
            kernel(X.astype(dtype))
    for dtype in ("int32", "complex64", "float8", "half", "", None):
        with pytest.raises(InputError, match="dtype: must be one of float32, float64, float16, bfloat16"):
            tg.load(graph, "copy_u_sum", 3, dtype=dtype)  # type: ignore[arg-type]


@pytest.mark.parametrize(("op", "dtype"), [("u_mul_e_mean", "float16"), ("copy_u_sum", "bfloat16")])
def test_half_types_are_tuned_and_found_again(op: str, dtype: str) -> None:
    graph = tg.datasets.load("karate")
    tg.tune(graph, op, feat=8, dtype=dtype, trials=3)
    kernel = tg.load(graph, op, feat=8, dtype=dtype)
    assert kernel.source == "exact"
    rng = np.random.default_rng(0)
    x = rng.integers(1, 5, (graph.num_src, 8)).astype(numpy_dtype(dtype))
    given = [x, *([np.ones(graph.num_edges, numpy_dtype(dtype))] if "e" in op.split("_") else [])]
    total = np.stack([x.astype(float)[graph.indices[a:b]].sum(0) for a, b in itertools.pairwise(graph.indptr)])
    want = total / graph.in_degrees[:, None] if op.endswith("mean") else total
    np.testing.assert_array_equal(kernel(*given).astype(float), rounded(want, dtype).astype(float))
    assert tg.load(graph, op, feat=8).source == "default"
