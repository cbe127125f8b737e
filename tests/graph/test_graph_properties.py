"""Random multigraphs: adjacency, edge order both ways, reverse, signature, partition."""

from __future__ import annotations

import itertools
import random
import threading

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tvm_gnn.graph import Graph

Sample = tuple[np.ndarray, np.ndarray, int, int]


@st.composite
def multigraphs(draw: st.DrawFn, min_edges: int = 0) -> Sample:
    """src, dst, num_src, num_dst."""
    num_src, num_dst = draw(st.integers(1, 12)), draw(st.integers(1, 12))
    edges = draw(
        st.lists(st.tuples(st.integers(0, num_src - 1), st.integers(0, num_dst - 1)), min_size=min_edges, max_size=40)
    )
    pairs = np.array(edges, np.int64).reshape(-1, 2)
    return pairs[:, 0], pairs[:, 1], num_src, num_dst


def build(sample: Sample) -> Graph:
    src, dst, num_src, num_dst = sample
    return Graph.from_coo(src, dst, num_src=num_src, num_dst=num_dst)


def adjacency(src: np.ndarray, dst: np.ndarray, num_src: int, num_dst: int) -> np.ndarray:
    counts = np.zeros((num_dst, num_src), int)
    np.add.at(counts, (dst, src), 1)
    return counts


def edges_of(graph: Graph) -> tuple[np.ndarray, np.ndarray]:
    """Sources and destinations in the caller's order."""
    rows = np.repeat(np.arange(graph.num_dst), np.diff(graph.indptr))
    return graph.from_csr_order(graph.indices), graph.from_csr_order(rows)


@given(multigraphs())
def test_adjacency_and_edge_order(sample: Sample) -> None:
    graph = build(sample)
    src, dst, num_src, num_dst = sample
    rows = np.repeat(np.arange(num_dst), np.diff(graph.indptr))
    np.testing.assert_array_equal(adjacency(graph.indices, rows, num_src, num_dst), adjacency(*sample))
    keys = rows * num_src + graph.indices
    assert np.all(keys[1:] >= keys[:-1])
    np.testing.assert_array_equal(edges_of(graph)[0], src)
    np.testing.assert_array_equal(edges_of(graph)[1], dst)
    if graph.edge_ids is not None:
        ties = keys[1:] == keys[:-1]
        assert np.all((graph.edge_ids[1:] > graph.edge_ids[:-1])[ties])


@given(multigraphs(), st.sampled_from(["numpy", "torch"]))
def test_edge_values_round_trip(sample: Sample, kind: str) -> None:
    graph = build(sample)
    values = np.arange(graph.num_edges * 2, dtype=np.float32).reshape(-1, 2)
    if kind == "torch":
        values = pytest.importorskip("torch").from_numpy(values)
    ordered = graph.to_csr_order(values)
    assert type(ordered) is type(values)
    expected = range(graph.num_edges) if graph.edge_ids is None else graph.edge_ids.tolist()
    assert np.asarray(ordered)[:, 0].tolist() == [2.0 * e for e in expected]
    assert np.array_equal(np.asarray(graph.from_csr_order(ordered)), np.asarray(values))
    assert (ordered is values) == (graph.edge_ids is None)


def test_edge_values_carry_gradients() -> None:
    torch = pytest.importorskip("torch")
    graph = Graph.from_coo([1, 0, 2], [0, 0, 0])
    weights = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    (graph.to_csr_order(weights) * torch.tensor([10.0, 20.0, 30.0])).sum().backward()
    assert weights.grad.tolist() == [20.0, 10.0, 30.0]


@given(multigraphs())
def test_reverse(sample: Sample) -> None:
    graph = build(sample)
    src, dst, num_src, num_dst = sample
    turned = graph.reverse()
    assert (turned.num_dst, turned.num_src) == (num_src, num_dst)
    by_hand = Graph.from_coo(dst, src, num_src=num_dst, num_dst=num_src)
    np.testing.assert_array_equal(turned.indptr, by_hand.indptr)
    np.testing.assert_array_equal(turned.indices, by_hand.indices)
    assert (turned.edge_ids is None) == (by_hand.edge_ids is None)
    if turned.edge_ids is not None:
        np.testing.assert_array_equal(turned.edge_ids, by_hand.edge_ids)
    assert graph.reverse() is turned
    assert turned.reverse() is graph


def test_reverse_outlives_its_origin() -> None:
    turned = Graph.from_coo([1, 0, 2], [0, 0, 1]).reverse()
    assert turned.reverse().indices.tolist() == [0, 1, 2]


@given(multigraphs(), st.randoms(use_true_random=False), st.sampled_from([np.uint8, np.int32, np.int64]))
def test_signature_ignores_edge_list_order_and_width(sample: Sample, shuffler: random.Random, dtype: type) -> None:
    src, dst, num_src, num_dst = sample
    order = list(range(len(src)))
    shuffler.shuffle(order)
    shuffled = Graph.from_coo(src[order].astype(dtype), dst[order].astype(dtype), num_src=num_src, num_dst=num_dst)
    assert shuffled.signature == build(sample).signature


def test_signature_ignores_the_stored_width() -> None:
    graph = Graph.from_coo([1, 0, 2], [0, 0, 1])
    wide = Graph(graph.indptr.astype(np.int64), graph.indices.astype(np.int64), num_src=graph.num_src)
    assert wide.index_dtype == "int64"
    assert wide.signature == graph.signature


@given(multigraphs(min_edges=1), st.data())
def test_signature_sees_every_structural_change(sample: Sample, data: st.DataObject) -> None:
    src, dst, num_src, num_dst = sample
    digest = build(sample).signature.exact
    changed = {
        "row more": (src, dst, num_src, num_dst + 1),
        "column more": (src, dst, num_src + 1, num_dst),
        "edge less": (src[1:], dst[1:], num_src, num_dst),
        "edge doubled": (np.append(src, src[0]), np.append(dst, dst[0]), num_src, num_dst),
    }
    for what, other in changed.items():
        assert build(other).signature.exact != digest, what
    edge = data.draw(st.integers(0, len(src) - 1))
    moved = src.copy()
    moved[edge] = (moved[edge] + 1) % num_src
    assume(num_src > 1)
    assert build((moved, dst, num_src, num_dst)).signature.exact != digest


@given(multigraphs(), st.integers(1, 20))
def test_partition_covers_and_balances(sample: Sample, parts: int) -> None:
    graph = build(sample)
    bounds = graph.row_partition(parts)
    assert bounds.shape == (parts + 1,)
    assert bounds.dtype == graph.indptr.dtype
    assert not bounds.flags.writeable
    assert (bounds[0], bounds[-1]) == (0, graph.num_dst)
    assert np.all(np.diff(bounds) >= 0)
    cost = graph.in_degrees + 4
    per_part = [int(cost[a:b].sum()) for a, b in itertools.pairwise(bounds)]
    assert max(per_part) <= cost.sum() / parts + cost.max()
    assert graph.row_partition(parts) is bounds


def test_partition_follows_edges_not_rows() -> None:
    # One row holds nearly everything: it must not share a part with half of the rows.
    graph = Graph.from_coo(np.arange(1000), np.zeros(1000, int), num_src=1000, num_dst=100)
    assert graph.row_partition(4).tolist()[1] == 1


def test_partition_of_no_rows() -> None:
    assert Graph.from_edge_index([[], []], 0).row_partition(3).tolist() == [0, 0, 0, 0]


def test_threads_share_what_is_derived() -> None:
    rng = np.random.default_rng(0)
    graph = Graph.from_coo(rng.integers(0, 500, 5000), rng.integers(0, 500, 5000))
    barrier = threading.Barrier(8)
    seen: list[tuple[int, int]] = []

    def derive() -> None:
        barrier.wait()
        seen.append((id(graph.reverse()), id(graph.row_partition(7))))

    threads = [threading.Thread(target=derive) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(seen) == 8
    assert len(set(seen)) == 1
