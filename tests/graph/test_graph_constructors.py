"""Graph constructors: every kind of input on every odd graph gives the same adjacency, in the caller's edge order."""

from __future__ import annotations

import copy
import subprocess
import sys
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp  # type: ignore[import-untyped,unused-ignore]

from tvm_gnn.graph import Graph


@dataclass(frozen=True)
class Case:
    src: list[int]
    dst: list[int]
    num_src: int
    num_dst: int


CASES = {
    "no_nodes": Case([], [], 0, 0),
    "one_node": Case([], [], 1, 1),
    "zero_edges": Case([], [], 5, 3),
    "star_in": Case([3, 1, 4, 2], [0, 0, 0, 0], 5, 5),
    "star_out": Case([0, 0, 0], [3, 1, 2], 4, 4),
    "isolated_nodes": Case([4, 0], [0, 4], 7, 7),
    "trailing_empty_rows": Case([0, 2, 1], [1, 0, 0], 3, 6),
    "bipartite_wide": Case([6, 0, 3, 6], [1, 0, 1, 0], 8, 2),
    "bipartite_tall": Case([0, 1, 0], [5, 5, 2], 2, 6),
    "parallel_edges": Case([1, 0, 1, 1, 0], [0, 1, 0, 0, 1], 2, 2),
    "self_loops": Case([1, 0, 2, 2], [1, 0, 2, 2], 3, 3),
    "sorted_already": Case([0, 2, 1], [0, 0, 2], 3, 3),
}
ALL_CASES = pytest.mark.parametrize("case", CASES.values(), ids=CASES)


def adjacency(case: Case) -> np.ndarray:
    """How many edges v ← u, the independent oracle."""
    counts = np.zeros((case.num_dst, case.num_src), int)
    for u, v in zip(case.src, case.dst, strict=True):
        counts[v, u] += 1
    return counts


def dense(graph: Graph) -> np.ndarray:
    counts = np.zeros((graph.num_dst, graph.num_src), int)
    for v in range(graph.num_dst):
        for p in range(int(graph.indptr[v]), int(graph.indptr[v + 1])):
            counts[v, graph.indices[p]] += 1
    return counts


def assert_canonical(graph: Graph) -> None:
    for array in (graph.indptr, graph.indices, graph.edge_ids):
        if array is not None:
            assert array.flags.c_contiguous
            assert not array.flags.writeable
            assert array.dtype.name == graph.index_dtype
    for v in range(graph.num_dst):
        row = slice(int(graph.indptr[v]), int(graph.indptr[v + 1]))
        sources = graph.indices[row].tolist()
        assert sources == sorted(sources)
        if graph.edge_ids is not None:
            pairs = list(zip(sources, graph.edge_ids[row].tolist(), strict=True))
            assert pairs == sorted(pairs), "parallel edges must keep the caller's order"


def assert_edge_order(graph: Graph, src: list[int], dst: list[int]) -> None:
    """Position p of the CSR is the caller's edge edge_ids[p]; None means the orders agree."""
    order = range(graph.num_edges) if graph.edge_ids is None else graph.edge_ids.tolist()
    rows = np.repeat(np.arange(graph.num_dst), np.diff(graph.indptr))
    assert [src[e] for e in order] == graph.indices.tolist()
    assert [dst[e] for e in order] == rows.tolist()
    if graph.edge_ids is not None:
        assert graph.edge_ids.tolist() != list(range(graph.num_edges)), "edge_ids must be None when it says nothing"


def check(graph: Graph, case: Case) -> None:
    assert (graph.num_src, graph.num_dst, graph.num_edges) == (case.num_src, case.num_dst, len(case.src))
    assert graph.index_dtype == "int32"
    assert_canonical(graph)
    np.testing.assert_array_equal(dense(graph), adjacency(case))
    assert_edge_order(graph, case.src, case.dst)
    np.testing.assert_array_equal(graph.in_degrees, adjacency(case).sum(1))


def convert(values: list[Any], kind: str) -> object:
    if kind == "list":
        return values
    if kind.startswith("torch"):
        torch = pytest.importorskip("torch")
        return torch.tensor(values, dtype=getattr(torch, kind.removeprefix("torch_")))
    return np.array(values, dtype=kind)


KINDS = ["list", "int32", "int64", "uint8", "uint64", "torch_int32", "torch_int64", "torch_uint8"]


@ALL_CASES
@pytest.mark.parametrize("kind", KINDS)
def test_from_coo(case: Case, kind: str) -> None:
    graph = Graph.from_coo(convert(case.src, kind), convert(case.dst, kind), num_src=case.num_src, num_dst=case.num_dst)
    check(graph, case)


@ALL_CASES
@pytest.mark.parametrize("kind", KINDS)
def test_from_edge_index(case: Case, kind: str) -> None:
    edge_index = convert([case.src, case.dst], kind)
    check(Graph.from_edge_index(edge_index, (case.num_src, case.num_dst)), case)


def csr_lists(case: Case) -> tuple[list[int], list[int], list[int]]:
    """Rows in order, sources within a row in the caller's order, so often unsorted."""
    edges = sorted(range(len(case.src)), key=lambda e: case.dst[e])
    counts = [case.dst.count(v) for v in range(case.num_dst)]
    return [0, *np.cumsum(counts).tolist()], [case.src[e] for e in edges], [case.dst[e] for e in edges]


@ALL_CASES
@pytest.mark.parametrize("kind", KINDS)
def test_from_csr(case: Case, kind: str) -> None:
    indptr, src, dst = csr_lists(case)
    graph = Graph.from_csr(convert(indptr, kind), convert(src, kind), num_src=case.num_src)
    check(graph, Case(src, dst, case.num_src, case.num_dst))


@ALL_CASES
@pytest.mark.parametrize("make", [sp.coo_matrix, sp.coo_array])
def test_from_scipy_coo_keeps_duplicates_and_order(case: Case, make: type) -> None:
    matrix = make((np.zeros(len(case.src)), (case.dst, case.src)), shape=(case.num_dst, case.num_src))
    check(Graph.from_scipy(matrix), case)


@ALL_CASES
@pytest.mark.parametrize("layout", ["csr", "csc"])
def test_from_scipy_compressed_edge_order_is_data_order(case: Case, layout: str) -> None:
    row_major = csr_lists(case)
    indptr, src, dst = row_major
    if layout == "csr":
        matrix = sp.csr_array((np.zeros(len(src)), src, indptr), shape=(case.num_dst, case.num_src))
    else:
        turned = Case(case.dst, case.src, case.num_dst, case.num_src)
        indptr, dst, src = csr_lists(turned)
        matrix = sp.csc_array((np.zeros(len(src)), dst, indptr), shape=(case.num_dst, case.num_src))
    check(Graph.from_scipy(matrix), Case(src, dst, case.num_src, case.num_dst))


@pytest.mark.parametrize("layout", ["lil", "dok", "bsr", "dia"])
def test_from_scipy_other_formats(layout: str) -> None:
    counts = np.array([[0.0, 2.0, 0.0, 0.0], [1.0, 0.0, 0.0, 5.0]])
    graph = Graph.from_scipy(sp.csr_array(counts).asformat(layout))
    np.testing.assert_array_equal(dense(graph) > 0, counts > 0)


def test_from_scipy_ignores_spare_room_behind_the_last_entry() -> None:
    matrix = sp.csr_array((np.ones(4), np.array([0, 1, 1, 1]), np.array([0, 1, 2])), shape=(2, 2))
    assert Graph.from_scipy(matrix).num_edges == 2


@ALL_CASES
@pytest.mark.parametrize("layout", ["csr", "csc", "coo"])
@pytest.mark.filterwarnings("ignore:Sparse CS[RC] tensor support is in beta")
def test_from_torch(case: Case, layout: str) -> None:
    torch = pytest.importorskip("torch")
    shape = (case.num_dst, case.num_src)
    values = torch.zeros(len(case.src))
    src, dst = case.src, case.dst
    if layout == "coo":
        rows_cols = torch.tensor([dst, src], dtype=torch.int64)
        matrix = torch.sparse_coo_tensor(rows_cols, values, shape, check_invariants=False)
        assert not matrix.is_coalesced() or not src
    elif layout == "csr":
        indptr, src, dst = csr_lists(case)
        matrix = torch.sparse_csr_tensor(
            torch.tensor(indptr), torch.tensor(src, dtype=torch.int64), values, shape, check_invariants=False
        )
    else:
        indptr, dst, src = csr_lists(Case(case.dst, case.src, case.num_dst, case.num_src))
        matrix = torch.sparse_csc_tensor(
            torch.tensor(indptr), torch.tensor(dst, dtype=torch.int64), values, shape, check_invariants=False
        )
    check(Graph.from_torch(matrix), Case(src, dst, case.num_src, case.num_dst))


def test_counts_are_inferred() -> None:
    square = Graph.from_edge_index([[5, 0], [1, 2]])
    assert (square.num_src, square.num_dst) == (6, 6)
    assert Graph.from_edge_index([[5, 0], [1, 2]], 9).num_dst == 9
    coo = Graph.from_coo([5, 0], [1, 2])
    assert (coo.num_src, coo.num_dst) == (6, 6)
    half = Graph.from_coo([5, 0], [1, 2], num_src=8)
    assert (half.num_src, half.num_dst) == (8, 3)
    assert Graph.from_csr([0, 1, 1, 1], [0]).num_src == 3
    assert Graph.from_csr([0, 1], [4]).num_src == 5
    assert Graph.from_csr([0], []).num_dst == 0


def test_index_width_follows_the_counts_not_the_input() -> None:
    edges = np.array([[0, 1], [1, 0]], np.int64)
    assert Graph.from_edge_index(edges).index_dtype == "int32"
    assert Graph.from_edge_index(edges, (2**31 - 1, 2)).index_dtype == "int32"
    wide = Graph.from_edge_index(np.array([[2**31, 2**40], [1, 0]]), (2**40 + 1, 2))
    assert wide.index_dtype == "int64"
    assert wide.indices.tolist() == [2**40, 2**31]
    assert wide.edge_ids is not None
    assert wide.edge_ids.dtype == np.int64


def test_ids_above_16_bits_sort_right() -> None:
    # Two radix digits: an order by the low 16 bits alone would differ.
    graph = Graph.from_coo([65536, 1, 65537, 0], [65540, 65540, 4, 4])
    assert graph.edge_ids is not None
    assert graph.edge_ids.tolist() == [3, 2, 1, 0]


@pytest.mark.parametrize("make", ["coo", "csr", "edge_index", "sorted_coo", "unsorted_csr"])
def test_later_edits_of_the_callers_arrays_change_nothing(make: str) -> None:
    first, second = np.array([0, 1, 2], np.int32), np.array([0, 1], np.int32)
    if make in ("coo", "sorted_coo"):
        first = np.array([1, 0] if make == "coo" else [0, 1], np.int32)
        graph = Graph.from_coo(first, second, num_src=2, num_dst=2)
    elif make == "edge_index":
        first = np.array([[0, 1], [0, 1]], np.int32)
        graph = Graph.from_edge_index(first)
    elif make == "unsorted_csr":
        first = np.array([0, 2, 2], np.int32)
        second = np.array([1, 0], np.int32)
        graph = Graph.from_csr(first, second)
    else:
        graph = Graph.from_csr(first, second)
    before = dense(graph)
    digest = graph.signature.exact
    first[...] = 0
    second[...] = 0
    np.testing.assert_array_equal(dense(graph), before)
    assert Graph.from_csr(graph.indptr, graph.indices, num_src=2).signature.exact == digest
    assert first.flags.writeable, "the caller's array must stay the caller's"


def test_torch_edits_change_nothing() -> None:
    torch = pytest.importorskip("torch")
    edge_index = torch.tensor([[0, 1], [0, 1]], dtype=torch.int32)
    graph = Graph.from_edge_index(edge_index)
    edge_index.zero_()
    assert graph.indices.tolist() == [0, 1]


def test_arrays_are_read_only() -> None:
    graph = Graph.from_coo([1, 0], [0, 1])
    with pytest.raises(ValueError, match="read-only"):
        graph.indices[0] = 0


def test_repr_names_the_sizes() -> None:
    graph = Graph.from_coo([1, 2], [0, 0])
    assert repr(graph) == "Graph(num_dst=3, num_src=3, num_edges=2, int32, order=CSR)"


def test_copies_share_and_child_processes_get_the_same() -> None:
    graph = Graph.from_coo([2, 1, 0], [1, 1, 0])
    assert copy.deepcopy({"graph": graph})["graph"] is graph
    assert copy.copy(graph) is graph
    rebuild, parts = graph.__reduce__()
    restored = rebuild(*parts)
    assert restored.signature == graph.signature
    assert restored.edge_ids.tolist() == [2, 1, 0]
    assert_canonical(restored)


def test_lists_need_neither_torch_nor_scipy() -> None:
    code = (
        "import sys; from tvm_gnn.graph import Graph; Graph.from_coo([1, 0], [0, 1]).signature; "
        "sys.exit(any(name in sys.modules for name in ('torch', 'scipy', 'tvm', 'xgboost')))"
    )
    assert subprocess.run([sys.executable, "-c", code], env={"PYTHONPATH": ":".join(sys.path)}).returncode == 0
