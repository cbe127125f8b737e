"""Aggregation over relations: the graph, every reduce within × across, the empty rule, gradients, errors."""

from __future__ import annotations

import pickle
import random
from typing import Any

import numpy as np
import pytest

import tvm_gnn
from tvm_gnn.errors import GraphError, InputError
from tvm_gnn.graph import Graph
from tvm_gnn.ops.messages import REDUCES
from tvm_gnn.ops.operand import Structure
from tvm_gnn.ops.relational import RELATIONAL_MESSAGES, RELATIONAL_OPS, relational
from tvm_gnn.ops.tolerance import first_mismatch
from tvm_gnn.testing.operands import problem
from tvm_gnn.testing.schedules import space_of

NODES, RELATIONS, EDGES = 23, 5, 260


def random_relations(seed: int = 0) -> tuple[Graph, np.ndarray[Any, Any], np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Relation 3 is empty, the last nodes are reached by none."""
    rng = np.random.default_rng(seed)
    src, dst = rng.integers(0, NODES, EDGES), rng.integers(0, NODES - 4, EDGES)
    types = rng.choice([0, 1, 2, 4], EDGES, p=[0.6, 0.2, 0.1, 0.1])
    graph = Graph.from_relations(src, dst, types, num_relations=RELATIONS, num_src=NODES, num_dst=NODES)
    return graph, src, dst, types


def plain(
    op: Any, src: Any, dst: Any, types: Any, x: np.ndarray[Any, Any], w: np.ndarray[Any, Any]
) -> np.ndarray[Any, Any]:
    """Node by node, relation by relation."""
    functions: dict[str, Any] = {"sum": np.sum, "mean": np.mean, "max": np.max, "min": np.min}
    y = np.zeros((NODES, x.shape[1]))
    for v in range(NODES):
        of_relations = []
        for r in range(RELATIONS):
            edges = np.flatnonzero((dst == v) & (types == r))
            if len(edges):
                messages = x[r * NODES + src[edges]] * (w[edges, None] if op.message == "u_mul_e" else 1)
                of_relations.append(functions[op.reduce](messages, axis=0))
        if of_relations:
            y[v] = functions[op.cross](np.stack(of_relations), axis=0)
    return y


@pytest.mark.parametrize("message", RELATIONAL_MESSAGES)
@pytest.mark.parametrize("reduce", REDUCES)
@pytest.mark.parametrize("cross", REDUCES)
def test_equals_one_relation_after_another(make_kernel: Any, message: str, reduce: str, cross: str) -> None:
    op = relational(message, reduce, cross, relations=RELATIONS)
    graph, src, dst, types = random_relations()
    rng = np.random.default_rng(1)
    for feat, dtype in ((7, "float64"), (33, "float32")):
        x = rng.standard_normal((RELATIONS * NODES, feat)).astype(dtype)
        w = rng.standard_normal(EDGES).astype(dtype)
        given = (x, w) if op.message_op.uses_edge else (x,)
        choice = space_of(problem(op.name, feat, dtype)).sample(random.Random(feat))
        for kernel in (
            make_kernel(graph, op.name, feat, dtype=dtype),
            make_kernel(graph, op.name, feat, choice, dtype=dtype),
        ):
            y = kernel(*given)
            np.testing.assert_allclose(
                y, plain(op, src, dst, types, x, w), rtol=2e-5 if dtype == "float32" else 1e-12, atol=1e-5
            )
            structure = Structure(graph.indptr, graph.indices, graph.edge_ids, graph.num_src)
            rows = [array.reshape(len(array), -1) for array in given]
            (want,), (scale,) = (f(kernel.problem.dims, structure, *rows) for f in (op.reference, op.error_scale))
            assert first_mismatch(y, want, scale, dtype) is None


def test_an_absent_relation_takes_no_part(make_kernel: Any) -> None:
    graph = Graph.from_relations([0, 1, 1], [0, 0, 1], [0, 0, 2], num_relations=3, num_src=2, num_dst=3)
    x = -np.arange(1, 7, dtype=np.float32)[:, None]
    kernel = make_kernel(graph, "copy_u_sum_across_max(relations=3)", 1)
    assert kernel(x).tolist() == [[-3.0], [-6.0], [0.0]]
    assert make_kernel(graph, "copy_u_sum_across_mean(relations=3)", 1)(x).tolist() == [[-3.0], [-6.0], [0.0]]


def test_nan_and_infinity_reach_their_rows_only(make_kernel: Any) -> None:
    graph, src, dst, types = random_relations()
    for name in ("copy_u_mean_across_sum", "copy_u_max_across_min"):
        kernel = make_kernel(graph, f"{name}(relations={RELATIONS})", 9)
        x = np.random.default_rng(2).standard_normal((RELATIONS * NODES, 9)).astype(np.float32)
        clean = kernel(x)
        x[NODES + src[types == 1][0], 4] = np.nan
        rows = np.unique(dst[(types == 1) & (src == src[types == 1][0])])
        got = kernel(x)
        assert np.isnan(got[rows, 4]).all()
        got[rows, 4] = clean[rows, 4]
        assert np.array_equal(got, clean)


def test_bits_do_not_depend_on_threads_or_parts(make_kernel: Any) -> None:
    graph, *_ = random_relations()
    name = f"copy_u_mean_across_mean(relations={RELATIONS})"
    default = space_of(problem(name, 16)).default
    x = np.random.default_rng(3).standard_normal((RELATIONS * NODES, 16)).astype(np.float32)
    launches = ({"parts": 1, "dynamic": False}, {"parts": 2, "dynamic": False}, {"parts": 16, "dynamic": True})
    found = {
        make_kernel(graph, name, 16, {**default, **launch}, threads=t)(x).tobytes()
        for launch in launches
        for t in (1, 2)
    }
    assert len(found) == 1


@pytest.mark.parametrize("name", RELATIONAL_OPS)
def test_gradcheck(quick_builds: None, name: str) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    graph, *_ = random_relations()
    kernel = tvm_gnn.load(graph, f"{name}(relations={RELATIONS})", 3, dtype="float64")
    arrays = [torch.rand(slot.shape, dtype=torch.float64, requires_grad=True) for slot in kernel._inputs]
    assert torch.autograd.gradcheck(kernel, arrays, fast_mode=True)


def test_errors() -> None:
    with pytest.raises(
        GraphError, match=r"src and edge_type: must have one entry per edge each \(got lengths 2 and 1\)"
    ):
        Graph.from_relations([0, 1], [0, 1], [0])
    with pytest.raises(GraphError, match=r"edge_type: .*\(got 3 at position 1\)"):
        Graph.from_relations([0, 1], [0, 1], [0, 3], num_relations=3)
    with pytest.raises(InputError, match=r"relations: must be at least 1 \(got 0\)"):
        relational(relations=0)
    with pytest.raises(InputError, match=r"cross: must be one of sum, mean, max, min \(got 'median'\)"):
        relational(cross="median")
    graph = Graph.from_coo([0, 114], [0, 0])
    with pytest.raises(InputError, match=r"graph: must have a multiple of 7 sources .* \(got 115\)"):
        tvm_gnn.load(graph, relational(relations=7), 4)


def test_the_graph_knows_its_number_of_relations() -> None:
    graph, *_ = random_relations()
    assert graph.num_relations == pickle.loads(pickle.dumps(graph)).num_relations == RELATIONS
    assert graph.reverse().num_relations is None
    for wrong in (relational("copy_u", "sum"), "copy_u_sum_across_max(relations=23)"):
        with pytest.raises(InputError, match=r"relations: must be the graph's 5 .* Ask for copy_u_sum_across_.*=5\)"):
            tvm_gnn.load(graph, wrong, 4)


def test_a_graph_stacked_by_hand_takes_the_operators_word() -> None:
    graph, *_ = random_relations()
    by_hand = Graph(graph.indptr, graph.indices, num_src=graph.num_src, edge_ids=graph.edge_ids)
    assert tvm_gnn.load(by_hand, relational("copy_u", "sum"), 0).problem.op.name == "copy_u_sum_across_sum"
