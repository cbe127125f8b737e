"""Operators on segments and batches: reduce, gather, and ten thousand small graphs in one launch."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import tvm_gnn
from tvm_gnn.cache import KERNEL_FILE
from tvm_gnn.compile import make_task
from tvm_gnn.graph import Graph
from tvm_gnn.untuned import artifact_store

pytestmark = pytest.mark.usefixtures("quick_builds")

OFFSETS = {"mixed": [0, 3, 3, 4, 20, 20], "one": [0, 33], "single rows": list(range(41)), "empty": [0, 0, 0]}
REDUCE = {"sum": np.sum, "mean": np.mean, "max": np.max, "min": np.min}


@pytest.mark.parametrize("offsets", OFFSETS.values(), ids=OFFSETS)
@pytest.mark.parametrize("reduce", REDUCE)
@pytest.mark.parametrize("feat", [7, (2, 16)])
def test_segment_reduce(offsets: list[int], reduce: str, feat: Any) -> None:
    graph = Graph.from_segments(offsets)
    shape = feat if isinstance(feat, tuple) else (feat,)
    x = np.random.default_rng(0).integers(-8, 9, (graph.num_edges, *shape)).astype(np.float32)
    want = np.zeros((graph.num_dst, *shape), np.float32)
    for segment, (start, stop) in enumerate(pairwise(offsets)):
        if stop > start:
            want[segment] = REDUCE[reduce](x[start:stop], axis=0)
    got = tvm_gnn.load(graph, tvm_gnn.segment_reduce(reduce), feat)(x)
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("offsets", OFFSETS.values(), ids=OFFSETS)
@pytest.mark.parametrize("feat", [1, 7, (2, 16)])
def test_gather_gives_every_row_its_segments_values(offsets: list[int], feat: Any) -> None:
    graph = Graph.from_segments(offsets)
    shape = feat if isinstance(feat, tuple) else (feat,)
    x = np.random.default_rng(0).standard_normal((graph.num_dst, *shape)).astype(np.float32)
    got = tvm_gnn.load(graph, tvm_gnn.gather(), feat)(x)
    np.testing.assert_array_equal(got, np.repeat(x, np.diff(offsets), axis=0))


def test_reduce_and_gather_undo_each_other() -> None:
    graph = Graph.from_segments([0, 2, 6, 7])
    x = np.random.default_rng(0).standard_normal((3, 5)).astype(np.float32)
    spread = tvm_gnn.load(graph, tvm_gnn.gather(), 5)(x)
    np.testing.assert_array_equal(tvm_gnn.load(graph, tvm_gnn.segment_reduce("max"), 5)(spread), x)


def test_reduce_reads_no_indices(make_kernel: Any) -> None:
    graph = Graph.from_segments([0, 3, 3, 8])
    wild = Graph(graph.indptr, np.full(8, 2**31 - 1, np.int32), num_src=8)  # reading x by these would crash
    x = np.arange(8, dtype=np.float32)[:, None]
    assert make_kernel(wild, "copy_e_sum", 1)(x).tolist() == [[3], [0], [25]]


def small_graphs(count: int) -> list[Graph]:
    """Random graphs of 20 nodes, every third in CSR order."""
    rng = np.random.default_rng(0)
    graphs = []
    for i in range(count):
        src, dst = rng.integers(0, 20, (2, 60))
        if i % 3 == 0:
            dst.sort()
        graphs.append(Graph.from_coo(src, dst, num_src=20, num_dst=20))
    return graphs


def test_ten_thousand_small_graphs_in_one_launch(libraries: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    graphs = small_graphs(10_001)
    tuned_on, one_more = Graph.batch(graphs[:-1]), Graph.batch(graphs)
    assert one_more.graph.signature.exact != tuned_on.graph.signature.exact
    for graph, op in ((tuned_on.graph, "u_mul_e_sum"), (tuned_on.segments, "copy_e_mean")):
        task = make_task(graph, op, 4)
        (path,) = libraries.paths([task.code_spec(task.space.default)])
        decisions, own = task.space.default, graph.signature.exact
        artifact_store().publish(task.key, own, {KERNEL_FILE: path}, graph=task.graph_fields, decisions=decisions)
    monkeypatch.setattr("tvm_gnn.untuned.built", None)  # a build would call it
    rng = np.random.default_rng(1)
    x = rng.integers(-4, 5, (one_more.graph.num_src, 4)).astype(np.float32)
    w = rng.integers(1, 4, one_more.graph.num_edges).astype(np.float32)
    layer = tvm_gnn.load(one_more.graph, "u_mul_e_sum", 4)
    readout = tvm_gnn.load(one_more.segments, tvm_gnn.segment_reduce("mean"), 4)
    before = [tvm_gnn.load(tuned_on.graph, "u_mul_e_sum", 4), tvm_gnn.load(tuned_on.segments, "copy_e_mean", 4)]
    assert [kernel.source for kernel in before] == ["exact", "exact"]
    assert [layer.source, readout.source] == ["bucket", "bucket"]
    assert [layer.provenance.artifact, readout.provenance.artifact] == [each.provenance.artifact for each in before]
    y = layer(x, w)
    pooled = readout(y)
    for i in range(0, 10_001, 7):
        graph, rows = graphs[i], slice(20 * i, 20 * i + 20)
        adjacency = np.zeros((20, 20), np.float32)
        destinations = np.repeat(np.arange(20), graph.in_degrees)
        np.add.at(adjacency, (destinations, graph.indices), graph.to_csr_order(w[60 * i : 60 * i + 60]))
        want = adjacency @ x[rows]
        np.testing.assert_array_equal(y[rows], want)
        np.testing.assert_array_equal(pooled[i], want.sum(axis=0) / np.float32(20))
