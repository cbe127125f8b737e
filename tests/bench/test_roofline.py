"""Bounds from memory traffic against numbers worked out by hand, and a bandwidth that was really measured."""

from __future__ import annotations

import json

import numpy as np
import pytest

from tvm_gnn.bench import Bandwidth, Case, measured_bandwidth, overview, roofline, summarise
from tvm_gnn.bench.bandwidth import SIZES
from tvm_gnn.bench.native import c_compiler
from tvm_gnn.graph import Graph

CURVE = Bandwidth(threads=2, sizes=(1 << 10, 1 << 14, 1 << 18), bytes_per_s=(64e9, 16e9, 4e9))


@pytest.fixture
def square() -> Case:
    """32 nodes, 128 edges, 8 features."""
    src, dst = np.arange(128) % 32, np.arange(128) // 4
    return Case(Graph.from_coo(src, dst, num_src=32, num_dst=32), "u_mul_e_sum", 8)  # type: ignore[arg-type]


def test_bandwidth_between_and_beyond_its_sizes() -> None:
    assert CURVE.at(1) == CURVE.at(1 << 10) == 64e9
    assert CURVE.at(1 << 30) == 4e9
    assert CURVE.at(1 << 14) == pytest.approx(16e9)
    assert CURVE.at(1 << 12) == pytest.approx(32e9)  # half way by logarithms


def test_bounds_by_hand(square: Case) -> None:
    bounds = roofline(square, CURVE)
    x = y = 32 * 8 * 4
    structure, w = (33 + 128) * 4, 128 * 4
    assert bounds.compulsory_bytes == structure + w + x + y
    assert bounds.gathered_bytes == 128 * 8 * 4
    assert bounds.compulsory_ms == pytest.approx(1e3 * bounds.compulsory_bytes / CURVE.at(bounds.compulsory_bytes / 2))
    assert bounds.gather_ms == pytest.approx(1e3 * (128 * 8 * 4 + structure + w + y) / CURVE.at(x))
    assert bounds.bound_ms == bounds.gather_ms > bounds.compulsory_ms


@pytest.mark.parametrize(
    ("op", "per_edge"),
    [("u_dot_v", 32), ("gat", 32 + 2 * 4), ("edge_softmax", 0), ("copy_e_sum", 0), ("copy_u_mean", 32)],
)
def test_what_an_edge_gathers(op: str, per_edge: int) -> None:
    graph = Graph.from_coo([0, 1, 2], [1, 2, 0], num_src=3, num_dst=3)
    feat = (2, 4) if op == "gat" else 8
    bounds = roofline(Case(graph, op, feat), CURVE)  # type: ignore[arg-type]
    assert bounds.gathered_bytes == 3 * per_edge
    assert (bounds.gather_ms > 0) == (per_edge > 0)


def test_maxk_gathers_the_compressed_rows() -> None:
    graph = Graph.from_coo([0, 1, 2], [1, 2, 0], num_src=3, num_dst=3)
    assert roofline(Case(graph, "maxk_copy_u_sum(k=4)", 64), CURVE).gathered_bytes == 3 * 4 * (4 + 1)  # type: ignore[arg-type]


def test_share_in_summaries(square: Case) -> None:
    bounds = roofline(square, CURVE)
    times = {"ours": [bounds.bound_ms / 1e3 * 2] * 3, "peer": [bounds.bound_ms / 1e3 * 4] * 3}
    found = summarise(square, times, "ours", "exact", roofline=bounds)
    assert found.as_dict()["roofline"]["share"] == pytest.approx(0.5)
    whole = overview([found])
    assert whole is not None
    assert whole.roofline_share == pytest.approx(0.5)
    bare = overview([summarise(square, times, "ours", "exact")])
    assert bare is not None
    assert bare.roofline_share is None


@pytest.mark.skipif(c_compiler() is None, reason="needs a C compiler")
def test_measured_bandwidth_is_one_of_real_memory() -> None:
    found = measured_bandwidth(1)
    assert found.sizes == SIZES
    assert list(found.bytes_per_s) == sorted(found.bytes_per_s, reverse=True)
    assert 1e8 < found.bytes_per_s[-1] <= found.bytes_per_s[0] < 1e13  # between a floppy's and a register file's
    assert json.loads(json.dumps(found.as_dict()))["threads"] == 1
