"""Under which names a graph's tuned schedules are found: exact digest, quantised bucket, distance between graphs."""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import xxhash

from .stats import GraphStats
from .validate import IntArray

_CHUNK = 1 << 18
_FORMAT = b"tvm_gnn.graph.1"
# One unit of a feature is not one unit of difference in speed: what steers the best schedule (row length and its
# spread, reuse of sources) counts more than size, of which mostly the place in the cache hierarchy matters.
WEIGHTS = {
    "log2_num_dst": 0.1,
    "log2_num_src": 0.2,
    "log2_nnz": 0.1,
    "log2_degree_mean": 1.0,
    "log2_degree_std": 0.2,
    "log2_degree_cv": 2.0,
    "log2_degree_max": 0.1,
    "degree_gini": 2.0,
    "log2_degree_q10": 0.1,
    "log2_degree_q25": 0.1,
    "log2_degree_q50": 0.3,
    "log2_degree_q75": 0.1,
    "log2_degree_q90": 0.1,
    "log2_degree_q99": 0.1,
    "empty_rows": 2.0,
    "locality_distance": 1.0,
    "log2_window_spread": 0.3,
    "log2_block_density": 0.3,
}


@dataclass(frozen=True)
class Signature:
    """Identity of a graph's structure.

    Attributes
    ----------
    exact : str
        32 hex digits: XXH3-128 of (num_dst, num_src, nnz, indptr, indices) in canonical order. Edge values, the
        order of the caller's edge list and the width of the index dtype do not enter.
    features : dict of str to float
        `GraphStats.as_features()`.
    bucket : str
        The features quantised; graphs of one bucket are expected to like the same schedules.
    """

    exact: str
    features: dict[str, float] = field(hash=False)
    bucket: str


def exact_digest(indptr: IntArray, indices: IntArray, num_src: int) -> str:
    """`Signature.exact` of a canonical CSR; cost: one pass over `indptr` and `indices`."""
    digest = xxhash.xxh3_128(_FORMAT)
    digest.update(struct.pack("<qqq", indptr.size - 1, num_src, indices.size))
    for array in (indptr, indices):
        for start in range(0, array.size, _CHUNK):
            digest.update(np.ascontiguousarray(array[start : start + _CHUNK], dtype="<i8").data)
    return digest.hexdigest()


def bucket_of(stats: GraphStats) -> str:
    """Short text of the quantised statistics.

    ``n`` log2 of rows, ``m`` log2 of sources, ``d`` log2 of the mean in-degree in half steps, ``v`` log2(1 + CV) in
    half steps, ``e`` share of empty rows (0: ≤ 1 %, 1: ≤ 10 %, 2: ≤ 50 %, 3: more), ``w`` -log2 of the window spread.
    """
    if stats.nnz == 0:
        return "no-edges"
    empty = sum(stats.empty_rows > bound for bound in (0.01, 0.1, 0.5))
    return (
        f"n{round(math.log2(stats.num_dst))}-m{round(math.log2(stats.num_src))}"
        f"-d{round(2 * math.log2(stats.degree_mean)) / 2:g}-v{round(2 * math.log2(1 + stats.degree_cv)) / 2:g}"
        f"-e{empty}-w{round(-math.log2(stats.window_spread))}"
    )


def distance(a: Signature, b: Signature) -> float:
    """How unlike two graphs are for a schedule; see `feature_distance`."""
    return feature_distance(a.features, b.features)


def feature_distance(a: Mapping[str, float], b: Mapping[str, float]) -> float:
    """Distance of two graphs by their features: sqrt(Σ weight · difference²) over `WEIGHTS`.

    0 for equal features. A feature that only one of the two knows (a record of another version) counts as if it
    differed by 1, so old records stay usable but lose to complete ones.
    """
    total = 0.0
    for name, weight in WEIGHTS.items():
        if name in a and name in b:
            total += weight * (a[name] - b[name]) ** 2
        elif name in a or name in b:
            total += weight
    return math.sqrt(total)


# Beyond this the nearest graph says nothing: a schedule found on a graph eight times smaller may be serial, or rely on
# features staying in a cache that they do not fit.
COMPARABLE_WITHIN = 2.0


def comparable_distance(a: Mapping[str, float], b: Mapping[str, float]) -> float:
    """`feature_distance`, infinite for graphs too unlike to share a schedule (`COMPARABLE_WITHIN`)."""
    distance = feature_distance(a, b)
    return distance if distance <= COMPARABLE_WITHIN else math.inf
