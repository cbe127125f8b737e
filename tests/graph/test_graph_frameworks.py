"""Graphs of PyG, DGL and networkx: direction, edge order, counts, and what is refused."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from tvm_gnn.errors import GraphError, InputTypeError
from tvm_gnn.graph import Graph

SRC, DST = np.array([2, 1, 3, 0, 2]), np.array([0, 0, 1, 3, 3])
EXPECTED = Graph.from_coo(SRC, DST, num_src=5, num_dst=5)


def same(graph: Graph, expected: Graph = EXPECTED) -> bool:
    values = np.arange(expected.num_edges)
    alike = np.array_equal(graph.to_csr_order(values), expected.to_csr_order(values))
    return graph.digest == expected.digest and alike


@pytest.fixture
def pyg() -> Any:
    pytest.importorskip("torch", reason="torch is not installed")
    return pytest.importorskip("torch_geometric", reason="PyG is not installed")


@pytest.mark.pyg
def test_pyg_edge_index(pyg: Any) -> None:
    import torch

    data = pyg.data.Data(edge_index=torch.tensor(np.stack([SRC, DST])), num_nodes=5)
    graph = Graph.from_pyg(data)
    assert same(graph)
    data.edge_index[0] = 0  # editing the caller's tensor afterwards changes nothing
    assert same(graph)


@pytest.mark.pyg
@pytest.mark.filterwarnings("ignore:Sparse .* tensor support is in beta")
def test_pyg_adj_t_has_rows_as_destinations(pyg: Any) -> None:
    import torch

    adjacency = torch.sparse_coo_tensor(np.stack([DST, SRC]), torch.ones(5), (5, 5))
    for adj_t in (adjacency, adjacency.to_sparse_csr(), adjacency.to_sparse_csc()):
        graph = Graph.from_pyg(pyg.data.Data(adj_t=adj_t, num_nodes=5))
        assert graph.digest == EXPECTED.digest


class SparseTensor:
    """torch_sparse's class as far as it is used."""

    def csr(self) -> Any:
        import torch

        return torch.tensor(EXPECTED.indptr), torch.tensor(EXPECTED.indices), None

    def sparse_sizes(self) -> tuple[int, int]:
        return 5, 5


@pytest.mark.pyg
def test_torch_sparse_tensor(pyg: Any) -> None:
    graph = Graph.from_pyg(pyg.data.Data(adj_t=SparseTensor(), num_nodes=5))
    assert graph.digest == EXPECTED.digest
    assert graph.edge_ids is None


@pytest.mark.pyg
def test_pyg_hetero(pyg: Any) -> None:
    import torch

    data = pyg.data.HeteroData()
    data["user"].num_nodes, data["item"].num_nodes = 4, 5
    data["user", "rates", "item"].edge_index = torch.tensor(np.stack([SRC, DST]))
    expected = Graph.from_coo(SRC, DST, num_src=4, num_dst=5)
    assert same(Graph.from_pyg(data), expected)
    data["item", "rated", "user"].edge_index = torch.tensor(np.stack([DST, SRC]))
    assert same(Graph.from_pyg(data, ("user", "rates", "item")), expected)
    with pytest.raises(GraphError, match=r"^edge_type: must name one of"):
        Graph.from_pyg(data)
    with pytest.raises(GraphError, match=r"^edge_type: must be one of"):
        Graph.from_pyg(data, ("user", "likes", "item"))


@pytest.mark.pyg
def test_what_is_no_pyg_graph(pyg: Any) -> None:
    import torch

    with pytest.raises(InputTypeError, match=r"^data: must be a PyG Data with edge_index or adj_t"):
        Graph.from_pyg(pyg.data.Data(num_nodes=3))
    with pytest.raises(InputTypeError, match=r"^data: must be a PyG Data \(got Tensor\)"):
        Graph.from_pyg(torch.zeros(2, 3, dtype=torch.int64))
    with pytest.raises(GraphError, match=r"ids must be below"):
        Graph.from_pyg(pyg.data.Data(edge_index=torch.tensor([[0, 9], [0, 1]]), num_nodes=3))


class DglGraph:
    """A DGL graph as far as it is used, for where DGL cannot be installed."""

    canonical_etypes = (("user", "rates", "item"),)

    def to_canonical_etype(self, edge_type: Any) -> Any:
        return self.canonical_etypes[0]

    def edges(self, order: str, etype: Any) -> Any:
        assert order == "eid"
        return SRC, DST

    def num_src_nodes(self, node_type: str) -> int:
        return {"user": 4}[node_type]

    def num_dst_nodes(self, node_type: str) -> int:
        return {"item": 5}[node_type]


def test_dgl_like() -> None:
    expected = Graph.from_coo(SRC, DST, num_src=4, num_dst=5)
    assert same(Graph.from_dgl(DglGraph()), expected)
    assert same(Graph.from_dgl(DglGraph(), "rates"), expected)
    with pytest.raises(InputTypeError, match=r"^graph: must be a DGL graph \(got list\)"):
        Graph.from_dgl([])


@pytest.mark.parametrize("kind", ["DiGraph", "MultiDiGraph"])
def test_networkx_directed(kind: str) -> None:
    networkx = pytest.importorskip("networkx", reason="networkx is not installed")
    graph = getattr(networkx, kind)()
    graph.add_nodes_from("abcde")
    edges = [("abcde"[u], "abcde"[v]) for u, v in zip(SRC, DST, strict=True)]
    graph.add_edges_from(edges + (edges[:1] if "Multi" in kind else []))
    listed = [("abcde".index(u), "abcde".index(v)) for u, v, *_ in graph.edges]
    expected = Graph.from_coo(*np.array(listed).T, num_src=5, num_dst=5)
    assert same(Graph.from_networkx(graph), expected)
    assert expected.num_edges == 5 + ("Multi" in kind)


def test_networkx_undirected_is_one_edge_each_way() -> None:
    networkx = pytest.importorskip("networkx", reason="networkx is not installed")
    graph = networkx.karate_club_graph()
    ours = Graph.from_networkx(graph)
    from tvm_gnn.graph import datasets

    assert ours.digest == datasets.load("karate").digest
    weights = np.array([data["weight"] for _, _, data in graph.to_directed().edges(data=True)], np.float64)
    dense = networkx.to_numpy_array(graph)  # its default weight attribute
    rows = np.repeat(np.arange(34), ours.in_degrees)
    np.testing.assert_array_equal(ours.to_csr_order(weights), dense[rows, ours.indices])
    assert Graph.from_networkx(networkx.Graph()).num_edges == 0
    with pytest.raises(InputTypeError, match=r"^graph: must be a networkx graph \(got dict\)"):
        Graph.from_networkx({})


def test_no_framework_is_imported(run_python: Any) -> None:
    code = (
        "import sys, tvm_gnn; tvm_gnn.Graph; print(sorted({'dgl', 'networkx', 'torch_geometric'} & set(sys.modules)))"
    )
    assert run_python(code).strip() == "[]"
    assert isinstance(sys.modules["tvm_gnn"], ModuleType)
