"""What rows without an edge hold: 0, or what `load(fill=)` says."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import tvm_gnn as tg
from tvm_gnn.errors import InputError, InputTypeError
from tvm_gnn.graph import Graph
from tvm_gnn.ops import OPS

pytestmark = pytest.mark.usefixtures("quick_builds")

# Rows 1 and 3 have no edge.
GRAPH = Graph.from_coo([0, 1, 2, 1], [0, 0, 2, 2], num_src=3, num_dst=4)
EMPTY = [1, 3]


@pytest.mark.parametrize("fill", [-math.inf, math.nan, 3.5])
@pytest.mark.parametrize("op", ["copy_u_max", "u_mul_e_mean", "gat", "maxk_copy_u_sum(k=2)", "copy_u_max(arg=True)"])
def test_only_rows_without_an_edge_are_filled(op: str, fill: float) -> None:
    feat = (2, 2) if op == "gat" else 4
    plain, filled = tg.load(GRAPH, op, feat), tg.load(GRAPH, op, feat, fill=fill)
    rng = np.random.default_rng(0)
    inputs = [rng.random(slot.shape, np.float32) for slot in plain._inputs]
    usual, found = plain(*inputs), filled(*inputs)
    if isinstance(usual, tuple):
        for a, b in zip(usual[1:], found[1:], strict=True):
            np.testing.assert_array_equal(a, b)
        usual, found = usual[0], found[0]
    want = usual.copy()
    want[EMPTY] = fill
    np.testing.assert_array_equal(found, want)
    assert (usual[EMPTY] == 0).all()


def test_a_graph_without_edges_is_filled() -> None:
    kernel = tg.load(Graph.from_coo([], [], num_src=2, num_dst=3), "copy_u_min", 2, fill=math.inf)
    out = np.zeros((3, 2), np.float32)
    assert kernel(np.ones((2, 2), np.float32), out=out) is out
    assert (out == math.inf).all()


def test_torch_sees_filled_rows_and_no_gradient_from_them() -> None:
    torch = pytest.importorskip("torch")
    x = torch.ones(3, 2, requires_grad=True)
    y = tg.load(GRAPH, "copy_u_sum", 2, fill=-1.0)(x)
    assert y.tolist() == [[2, 2], [-1, -1], [2, 2], [-1, -1]]
    y.sum().backward()
    assert x.grad.tolist() == [[1, 1], [2, 2], [1, 1]]


def test_what_cannot_be_filled_is_refused() -> None:
    with pytest.raises(InputError, match=r"fill: must be 0 for edge_softmax, .* \(got 1.0\)"):
        tg.load(GRAPH, "edge_softmax", 2, fill=1.0)
    with pytest.raises(InputError, match=r"fill: must be in the range of float16 \(got 70000\)"):
        tg.load(GRAPH, "copy_u_sum", 2, fill=70000, dtype="float16")
    wrong: Any
    for wrong in (None, "0", True):
        with pytest.raises(InputTypeError, match="fill: must be a number"):
            tg.load(GRAPH, "copy_u_sum", 2, fill=wrong)


def test_every_operator_that_reduces_edges_says_so() -> None:
    for op in OPS.values():
        outputs = op.outputs(op.dims((1, 4) if op.primitive.startswith("gat") else (40,), None))
        if op.reduced is not None:
            assert outputs[op.reduced].rows == "dst", op.name
            assert not outputs[op.reduced].is_index, op.name
