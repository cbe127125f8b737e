"""Every named error of the graph constructors: type, argument, bad value, position."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import numpy as np
import pytest
import scipy.sparse as sp  # type: ignore[import-untyped,unused-ignore]

from tvm_gnn.errors import GraphError, InputError, InputTypeError
from tvm_gnn.graph import Graph

NO_EDGES = np.zeros(0, np.int64)

GRAPH_ERRORS: dict[str, tuple[Callable[[], object], str]] = {
    "edge_index[0] too large": (
        lambda: Graph.from_edge_index([[0, 7], [0, 1]], 5),
        r"edge_index\[0\]: ids must be below .* 5 \(got 7 at position 1\)",
    ),
    "edge_index[1] too large": (
        lambda: Graph.from_edge_index([[4, 4], [0, 3]], (5, 3)),
        r"edge_index\[1\]: ids must be below .* 3 \(got 3 at position 1\)",
    ),
    "edge_index negative": (
        lambda: Graph.from_edge_index([[0, 1], [-2, 1]]),
        r"edge_index\[1\]: ids must not be negative \(got -2 at position 0\)",
    ),
    "edge_index all negative": (lambda: Graph.from_edge_index([[-1], [-1]]), r"negative \(got -1 at position 0\)"),
    "edge_index transposed": (
        lambda: Graph.from_edge_index(np.zeros((5, 2), int)),
        r"edge_index: must have shape \(2, num_edges\) \(got \(5, 2\)\)\. Give its transpose",
    ),
    "edge_index flat": (lambda: Graph.from_edge_index([0, 1]), r"edge_index: must have 2 dimension.*\(2,\)"),
    "edge_index ragged": (lambda: Graph.from_edge_index([[0, 1], [0]]), r"edge_index: must be a regular array"),
    "edge_index empty": (lambda: Graph.from_edge_index([[], []]), r"num_nodes: must be given when there are no edges"),
    "num_nodes negative": (
        lambda: Graph.from_edge_index([[0], [0]], -1),
        r"num_nodes: must not be negative \(got -1\)",
    ),
    "num_nodes three": (lambda: Graph.from_edge_index([[0], [0]], (1, 1, 1)), r"num_nodes: must be an int or"),
    "num_nodes[1] negative": (lambda: Graph.from_edge_index([[0], [0]], (1, -4)), r"num_nodes\[1\]: .*\(got -4\)"),
    "num_src absurd": (lambda: Graph.from_coo([0], [0], num_src=2**63), r"num_src: must be at most 2\*\*46"),
    "zero nodes but an edge": (lambda: Graph.from_edge_index([[0], [0]], 0), r"below .* 0 \(got 0 at position 0\)"),
    "coo lengths": (lambda: Graph.from_coo([0, 1], [0]), r"src and dst: .*\(got lengths 2 and 1\)"),
    "coo src too large": (
        lambda: Graph.from_coo([0, 9], [0, 1], num_src=4, num_dst=2),
        r"src: ids must be below num_src = 4 \(got 9 at position 1\)",
    ),
    "coo dst negative": (lambda: Graph.from_coo([0], [-1]), r"dst: ids must not be negative \(got -1 at position 0\)"),
    "coo empty": (lambda: Graph.from_coo([], []), r"num_src and num_dst: must be given when there are no edges"),
    "coo empty, one count": (lambda: Graph.from_coo([], [], num_src=3), r"num_dst: must be given"),
    "coo 2-D": (lambda: Graph.from_coo([[0]], [[0]]), r"src: must have 1 dimension\(s\) \(got shape \(1, 1\)\)"),
    "int64 never truncated": (
        lambda: Graph.from_coo([2**32], [0], num_src=1, num_dst=1),
        r"src: .*\(got 4294967296 at position 0\)",
    ),
    "uint64 above int64": (
        lambda: Graph.from_coo(np.array([2**63 + 5], np.uint64), [0], num_src=6, num_dst=1),
        r"src: .*\(got 9223372036854775813 at position 0\)",
    ),
    "uint64 inferred": (lambda: Graph.from_coo([2**63], [0]), r"num_src: must be at most"),
    "indptr first": (lambda: Graph.from_csr([1, 1], []), r"indptr: must start at 0 \(got 1 at position 0\)"),
    "indptr falls": (
        lambda: Graph.from_csr([0, 2, 1, 2], [0, 1]),
        r"indptr: must never fall \(got 1 after 2 at position 2\)",
    ),
    "unsigned indptr falls": (lambda: Graph.from_csr(np.array([0, 2, 1], np.uint8), [0]), r"indptr: must never fall"),
    "indptr last": (
        lambda: Graph.from_csr([0, 1, 3], [0, 1]),
        r"indptr: must end at the number of indices, 2 \(got 3 at position 2\)",
    ),
    "indptr empty": (lambda: Graph.from_csr([], []), r"indptr: must have num_dst \+ 1 entries \(got length 0\)"),
    "indices too large": (
        lambda: Graph.from_csr([0, 1, 2], [0, 5], num_src=5),
        r"indices: ids must be below num_src = 5 \(got 5 at position 1\)",
    ),
    "indices negative": (lambda: Graph.from_csr([0, 1], [-3]), r"indices: ids must not be negative \(got -3"),
    "scipy 1-D": (lambda: Graph.from_scipy(sp.coo_array(np.ones(3))), r"matrix: must have two dimensions"),
    "edge values": (lambda: Graph.from_coo([1], [0]).to_csr_order(np.ones(3)), r"values: .*1 edges.*\(3,\)"),
    "scalar values": (lambda: Graph.from_coo([1], [0]).from_csr_order(1.0), r"values: .*\(got shape \(\)\)"),
}


@pytest.mark.parametrize(("call", "text"), GRAPH_ERRORS.values(), ids=GRAPH_ERRORS)
def test_graph_error(call: Callable[[], object], text: str) -> None:
    with pytest.raises(GraphError, match=text) as caught:
        call()
    assert isinstance(caught.value, ValueError)


TYPE_ERRORS: dict[str, tuple[Callable[[], object], str]] = {
    "float ids": (lambda: Graph.from_coo(np.array([0.0]), [0]), r"src: must hold integers \(got dtype float64\)"),
    "float list": (lambda: Graph.from_edge_index([[0.0], [1.0]]), r"edge_index: must hold integers"),
    "bool ids": (lambda: Graph.from_csr([0, 1], [True]), r"indices: must hold integers \(got dtype bool\)"),
    "float indptr": (lambda: Graph.from_csr([0.0, 1.0], [0]), r"indptr: must hold integers"),
    "float empty array": (lambda: Graph.from_coo(np.zeros(0), NO_EDGES, num_src=1, num_dst=1), r"src: must hold int"),
    "text": (lambda: Graph.from_coo(["a"], [0]), r"src: must hold integers"),
    "beyond uint64": (lambda: Graph.from_coo([2**70], [0]), r"src: must hold integers \(got dtype object\)"),
    "None": (lambda: Graph.from_coo(None, [0]), r"src: must hold integers"),
    "float num_nodes": (lambda: Graph.from_edge_index([[0], [0]], 2.0), r"num_nodes: must be an integer \(got 2\.0"),
    "bool num_nodes": (lambda: Graph.from_edge_index([[0], [0]], True), r"num_nodes: must be an integer"),
    "text num_src": (lambda: Graph.from_csr([0, 1], [0], num_src="3"), r"num_src: must be an integer \(got '3'"),
    "dense as scipy": (lambda: Graph.from_scipy(np.ones((2, 2))), r"matrix: must be a scipy sparse matrix"),
    "scipy as torch": (lambda: Graph.from_torch(sp.eye(2)), r"matrix: must be a torch sparse tensor"),
    "masked ids": (lambda: Graph.from_coo(np.ma.array([0, 1], mask=[0, 1]), [0, 0]), r"src: must not be masked"),
    "name": (lambda: setattr(Graph.from_coo([0], [0]), "name", 5), r"name: must be text or None \(got int\)"),
    "float parts": (lambda: Graph.from_coo([0], [0]).row_partition(cast(int, 2.0)), r"parts: must be an integer"),
    "bool parts": (lambda: Graph.from_coo([0], [0]).row_partition(True), r"parts: must be an integer"),
}


@pytest.mark.parametrize(("call", "text"), TYPE_ERRORS.values(), ids=TYPE_ERRORS)
def test_type_error(call: Callable[[], object], text: str) -> None:
    with pytest.raises(InputTypeError, match=text) as caught:
        call()
    assert isinstance(caught.value, TypeError)


@pytest.mark.parametrize("parts", [0, -3])
def test_parts_must_be_positive(parts: int) -> None:
    with pytest.raises(InputError, match=rf"parts: must be at least 1 \(got {parts}\)"):
        Graph.from_coo([0], [0]).row_partition(parts)


def test_parts_beyond_any_machine_are_refused() -> None:
    with pytest.raises(InputError, match=r"parts: must be at most 16777216 \(got 9223372036854775808\)"):
        Graph.from_coo([0], [0]).row_partition(2**63)


def test_a_name_can_always_be_printed_and_stored() -> None:
    graph = Graph.from_coo([0], [0])
    graph.name = "a\x1b[31m\n\udcff ché"
    assert graph.name == r"a\x1b[31m\n\udcff ché"
    graph.name = None
    assert graph.name is None


@pytest.mark.filterwarnings("ignore:Sparse .* tensor support is in beta")
def test_torch_inputs_are_refused_by_name() -> None:
    torch = pytest.importorskip("torch")
    with pytest.raises(InputTypeError, match=r"must have layout .*\(got strided\)"):
        Graph.from_torch(torch.ones(2, 2))
    with pytest.raises(InputTypeError, match=r"must have layout .*\(got sparse_bsr\)"):
        Graph.from_torch(torch.eye(4).to_sparse_bsr((2, 2)))
    with pytest.raises(GraphError, match="two sparse dimensions"):
        Graph.from_torch(torch.ones(2, 2, 2).to_sparse())
    with pytest.raises(GraphError, match="two sparse dimensions"):
        Graph.from_torch(torch.stack([torch.eye(2), torch.eye(2)]).to_sparse_csr())
    with pytest.raises(InputTypeError, match="src: must"):
        Graph.from_coo(torch.zeros(1, dtype=torch.bfloat16), [0])
    with pytest.raises(InputTypeError, match="edge_index: must be"):
        Graph.from_edge_index(torch.eye(2, dtype=torch.int64).to_sparse())
