"""Graph statistics against their definitions, buckets and the distance between signatures."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from tvm_gnn.graph import Graph, datasets
from tvm_gnn.graph import stats as stats_module
from tvm_gnn.graph.signature import WEIGHTS, Signature, distance


def by_definition(graph: Graph) -> dict[str, float]:
    degrees = np.diff(graph.indptr).astype(float)
    rows = np.repeat(np.arange(graph.num_dst), np.diff(graph.indptr))
    cols = graph.indices
    scale = graph.num_src / graph.num_dst
    differences = np.abs(degrees[:, None] - degrees[None, :]).mean()
    return {
        "degree_mean": degrees.mean(),
        "degree_std": degrees.std(),
        "degree_cv": degrees.std() / degrees.mean(),
        "degree_max": degrees.max(),
        "degree_gini": differences / (2 * degrees.mean()),
        "degree_q10": np.quantile(degrees, 0.1),
        "degree_q50": np.quantile(degrees, 0.5),
        "degree_q99": np.quantile(degrees, 0.99),
        "empty_rows": (degrees == 0).mean(),
        "locality_distance": np.abs(rows * scale - cols).mean() / graph.num_src,
        "window_spread": len(set(zip(rows // 64, cols // 64, strict=True))) / graph.num_edges,
        "block_density": min(1, graph.num_edges / 64 / len(set(zip(rows // 8, cols // 8, strict=True)))),
    }


GRAPHS = {
    "karate": lambda: datasets.load("karate"),
    "powerlaw": lambda: datasets.load("synthetic:powerlaw:n=700,degree=6,seed=3"),
    "rectangular": lambda: Graph.from_coo(np.arange(900) % 301, np.arange(900) % 77, num_src=301, num_dst=90),
    "parallel": lambda: Graph.from_coo([0] * 100, [0] * 100, num_src=3, num_dst=2),
}


@pytest.mark.parametrize("make", GRAPHS.values(), ids=GRAPHS)
def test_stats_match_their_definitions(make: Callable[[], Graph]) -> None:
    graph = make()
    for name, expected in by_definition(graph).items():
        assert getattr(graph.stats, name) == pytest.approx(expected, rel=1e-9, abs=1e-12), name
    assert (graph.stats.num_dst, graph.stats.num_src, graph.stats.nnz) == (
        graph.num_dst,
        graph.num_src,
        graph.num_edges,
    )


@pytest.mark.parametrize("sizes", [(0, 0), (1, 1), (4, 0), (0, 4), (3, 5)])
def test_graphs_without_edges_have_finite_stats_and_a_signature(sizes: tuple[int, int]) -> None:
    graph = Graph.from_coo([], [], num_src=sizes[0], num_dst=sizes[1])
    assert all(math.isfinite(value) for value in graph.signature.features.values())
    assert graph.stats.empty_rows == (1.0 if sizes[1] else 0.0)
    assert graph.signature.bucket == "no-edges"


@pytest.mark.parametrize("kind", ["uniform:n=3000,degree=20", "grid:rows=120,cols=110", "powerlaw:n=3000,degree=30"])
def test_sampled_locality_is_near_the_whole(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = datasets.load(f"synthetic:{kind}")
    whole = graph.stats
    monkeypatch.setattr(stats_module, "SAMPLE_EDGES", 8000)
    sampled = stats_module.compute_stats(graph.indptr, graph.indices, graph.num_src)
    assert sampled != whole
    assert sampled.window_spread == pytest.approx(whole.window_spread, rel=0.2)
    assert sampled.block_density == pytest.approx(whole.block_density, rel=0.2)
    assert sampled.locality_distance == pytest.approx(whole.locality_distance, rel=0.2)


def test_a_hub_row_does_not_make_the_sample_grow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stats_module, "SAMPLE_EDGES", 1000)
    graph = Graph.from_coo(np.arange(50_000), np.zeros(50_000, int))
    rows, _ = stats_module._sampled_edges(graph.indptr, graph.indices)
    assert 500 <= rows.size <= 2000
    assert graph.stats.block_density == pytest.approx(1 / 8)


def test_working_set_counts_features_and_structure() -> None:
    stats = Graph.from_coo([0, 1, 2], [0, 0, 1], num_src=3, num_dst=2).stats
    assert stats.working_set_bytes(16, 4) == (3 + 2) * 16 * 4 + (3 + 3) * 4
    wide = Graph.from_coo([0], [0], num_src=2**31, num_dst=1).stats
    assert wide.working_set_bytes(1, 2) == (2**31 + 1) * 2 + (2 + 1) * 8


def test_features_are_finite_and_weighted_by_name() -> None:
    features = datasets.load("karate").signature.features
    assert list(features) == list(WEIGHTS)
    assert features["log2_num_dst"] == pytest.approx(math.log2(35))


def test_digest_is_stable_across_versions() -> None:
    # Stored records are found by this digest: a change here orphans every one of them.
    assert datasets.load("karate").signature.exact == "93d166fed2a2f106d5dc8fbe83c36e6d"


@pytest.mark.parametrize(
    ("small", "large"),
    [
        ("batch:graphs=400,n=20", "batch:graphs=401,n=20"),
        ("uniform:n=9000,degree=16", "uniform:n=9001,degree=16"),
        ("grid:rows=90,cols=90", "grid:rows=91,cols=90"),
    ],
)
def test_a_little_more_keeps_the_bucket(small: str, large: str) -> None:
    a, b = (datasets.load(f"synthetic:{text}").signature for text in (small, large))
    assert a.exact != b.exact
    assert a.bucket == b.bucket
    assert distance(a, b) < 0.1


def test_unlike_graphs_have_unlike_buckets() -> None:
    kinds = ("star", "grid", "rmat:scale=10", "batch", "uniform:n=1000")
    assert len({datasets.load(f"synthetic:{kind}").signature.bucket for kind in kinds}) == len(kinds)


def test_distance_is_a_semimetric_that_ranks_kin_first() -> None:
    mesh, bigger_mesh, star = (
        datasets.load(f"synthetic:{kind}").signature
        for kind in ("grid:rows=50,cols=50", "grid:rows=70,cols=60", "star:n=2500")
    )
    assert distance(mesh, mesh) == 0
    assert distance(mesh, star) == distance(star, mesh)
    assert distance(mesh, bigger_mesh) < distance(mesh, star)


def test_distance_counts_unknown_features_as_different() -> None:
    full = datasets.load("karate").signature
    partial = Signature("0" * 32, {k: v for k, v in full.features.items() if k != "degree_gini"}, full.bucket)
    assert distance(full, partial) == pytest.approx(math.sqrt(WEIGHTS["degree_gini"]))
    assert len({full, partial}) == 2
