"""Edge softmax, GAT and GATv2 in float16 and bfloat16: computed in float32, rounded once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tvm_gnn as tg
from tvm_gnn.graph import Graph
from tvm_gnn.ops import parse_op
from tvm_gnn.ops.dtypes import numpy_dtype, rounded
from tvm_gnn.testing.odd_graphs import ODD_GRAPHS

pytestmark = pytest.mark.usefixtures("quick_builds")

HALVES = ("float16", "bfloat16")
OPS = ("edge_softmax", "gat(attention=True)", "gatv2(attention=True)")
GRAPH = ODD_GRAPHS["unsorted_edge_list"]()


def star(edges: int) -> Graph:
    return Graph.from_coo(np.arange(edges), np.zeros(edges, int), num_src=edges, num_dst=1)


def inputs(op: str, feat: tuple[int, int], dtype: str) -> list[Any]:
    operator = parse_op(op)
    rng = np.random.default_rng(0)
    given = []
    for each in operator.inputs(operator.dims(feat, None)):
        rows = () if each.rows == "once" else (GRAPH.row_counts[each.rows],)
        given.append(rng.standard_normal((*rows, *each.shape)).astype(numpy_dtype(dtype)))
    return given


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("feat", [(3, 5), (2, 300)])
@pytest.mark.parametrize("op", OPS)
def test_they_are_float32_results_rounded(op: str, feat: tuple[int, int], dtype: str) -> None:
    """Of the same values: all but a few elements, which lie on the edge of rounding, have the same bits."""
    given = inputs(op, feat, dtype)
    got = tg.load(GRAPH, op, feat, dtype=dtype)(*given)
    single = tg.load(GRAPH, op, feat)(*(each.astype(np.float32) for each in given))
    pairs = zip(got, single, strict=True) if isinstance(got, tuple) else [(got, single)]
    for half, whole in pairs:
        assert half.dtype == numpy_dtype(dtype)
        want = rounded(whole.astype(np.float64), dtype)
        assert (half == want).mean() > 0.99
        np.testing.assert_allclose(half.astype(float), whole, rtol=2**-7, atol=1e-6)


@pytest.mark.parametrize("dtype", HALVES)
def test_the_largest_logits_are_stable(dtype: str) -> None:
    logits = np.array([60000, 60000, -60000, -np.inf], np.float64).astype(numpy_dtype(dtype))
    weights = tg.load(star(4), "edge_softmax", 1, dtype=dtype)(logits)
    assert weights.astype(float).tolist() == [0.5, 0.5, 0, 0]


@pytest.mark.parametrize("dtype", HALVES)
def test_scores_that_pass_the_largest_number_are_computed(dtype: str) -> None:
    """Their sum is no float16: what is computed in float32 has no overflow."""
    z = np.array([[1], [3]]).astype(numpy_dtype(dtype))
    scores = np.full((2, 1), 60000).astype(numpy_dtype(dtype))
    y, attention = tg.load(star(2), "gat(attention=True)", 1, dtype=dtype)(z, scores, scores[:1])
    assert (y.astype(float).tolist(), attention.astype(float).tolist()) == ([[2]], [[0.5], [0.5]])


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("op", ["edge_softmax", "gat(attention=True)"])
def test_shares_are_not_summed_up_in_half_precision(op: str, dtype: str) -> None:
    """Of 5000 equal scores a half type's own sum would stop at 2048 or at 256."""
    graph = star(5000)
    ones = np.ones((5000, 1)).astype(numpy_dtype(dtype))
    kernel = tg.load(graph, op, 1, dtype=dtype)
    weights = kernel(ones) if op == "edge_softmax" else kernel(ones, ones, ones[:1])[1]
    assert (weights == np.float64(1 / 5000).astype(numpy_dtype(dtype))).all()
    if op != "edge_softmax":
        assert kernel(ones, ones, ones[:1])[0].astype(float).tolist() == [[1]]


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("op", OPS)
def test_special_values(op: str, dtype: str) -> None:
    """NaN stays in its head, a row of nothing but -inf is zero."""
    graph = star(7)
    nan, lowest = (np.array(value).astype(numpy_dtype(dtype)) for value in (np.nan, -np.inf))
    given = [np.ones((7, 3)), np.ones((7, 3)), np.ones((1, 3))]
    if op == "edge_softmax":
        given = given[:1]
    elif op.startswith("gatv2"):
        given = [np.ones((7, 3, 2)), np.ones((1, 3, 2)), np.ones((3, 2))]
    else:
        given[0] = np.ones((7, 3, 2))
    cast = [each.astype(numpy_dtype(dtype)) for each in given]
    scored = cast[1] if op.startswith("gat(") else cast[0]
    scored[2, 1] = nan
    scored[:, 2] = lowest
    feat = (3, 1) if op == "edge_softmax" else (3, 2)
    found = tg.load(graph, op, feat, dtype=dtype)(*cast)
    weights = (found[1] if isinstance(found, tuple) else found).astype(float)
    assert (weights[:, 0] == np.float64(1 / 7).astype(numpy_dtype(dtype)).astype(float)).all()
    assert np.isnan(weights[:, 1]).all()
    assert (weights[:, 2] == 0).all()
