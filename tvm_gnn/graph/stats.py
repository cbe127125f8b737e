"""What a cost model sees of a graph: sizes, the degree distribution, locality, block density."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .canonical import rows_of
from .validate import IntArray, index_dtype_for

QUANTILES = (0.1, 0.25, 0.5, 0.75, 0.9, 0.99)
WINDOW = 64
BLOCK = 8
# Edges looked at for the locality measures, so that their cost stops growing with the graph.
SAMPLE_EDGES = 1 << 17
_MAX_WINDOWS = 1024
_SMALLEST_SHARE = 2.0**-16


@dataclass(frozen=True)
class GraphStats:
    """Statistics of one graph; every figure is 0 where there is nothing to measure.

    Attributes
    ----------
    num_dst, num_src, nnz : int
        Rows, columns and edges (parallel edges count each).
    degree_mean, degree_std, degree_cv, degree_max, degree_q10 … degree_q99 : float or int
        Of the in-degree; cv = std / mean, qNN its quantiles by linear interpolation.
    degree_gini : float
        Gini coefficient of the in-degree: 0 when all rows are equally long, towards 1 when one row has all edges.
    empty_rows : float
        Share of rows without an in-edge.
    locality_distance : float
        Mean over edges of |i · num_src / num_dst - j| / num_src, for row i and source j; |i - j| / n when square.
    window_spread : float
        Distinct (window of 64 rows, block of 64 sources) pairs per edge, in (0, 1]: 1 when no two edges of a window
        share a block of sources, small when consecutive rows gather the same features again.
    block_density : float
        Mean fill of the 8 x 8 blocks of the adjacency that hold an edge, in [1/64, 1].

    Graphs of more than 2**17 edges have the last three measured on about as many edges, in evenly spaced windows of 64
    rows; they are deterministic all the same.
    """

    num_dst: int
    num_src: int
    nnz: int
    degree_mean: float
    degree_std: float
    degree_cv: float
    degree_max: int
    degree_gini: float
    degree_q10: float
    degree_q25: float
    degree_q50: float
    degree_q75: float
    degree_q90: float
    degree_q99: float
    empty_rows: float
    locality_distance: float
    window_spread: float
    block_density: float

    def working_set_bytes(self, feat: int, itemsize: int = 4) -> int:
        """Bytes one SpMM touches: source and output rows of `feat` values, indptr and indices (no edge values)."""
        index_bytes = index_dtype_for(self.nnz, self.num_src, self.num_dst).itemsize
        return (self.num_src + self.num_dst) * feat * itemsize + (self.num_dst + 1 + self.nnz) * index_bytes

    def as_features(self) -> dict[str, float]:
        """The statistics as numbers of similar range, by stable names: log2(1 + x) for what spans decades.

        Shares in (0, 1] that span decades (`window_spread`, `block_density`) are log2, clipped at -16.
        """
        features: dict[str, float] = {}
        for name, value in asdict(self).items():
            if name in ("window_spread", "block_density"):
                features[f"log2_{name}"] = math.log2(max(value, _SMALLEST_SHARE))
            elif name in ("degree_gini", "empty_rows", "locality_distance"):
                features[name] = float(value)
            else:
                features[f"log2_{name}"] = math.log2(1 + value)
        return features


def compute_stats(indptr: IntArray, indices: IntArray, num_src: int) -> GraphStats:
    """Statistics of a canonical CSR; cost: one sort of the degrees and one of at most about 2**17 edges."""
    num_dst = indptr.size - 1
    nnz = indices.size
    degrees = np.sort(np.diff(indptr))
    q10, q25, q50, q75, q90, q99 = _quantiles(degrees) if num_dst else [0.0] * len(QUANTILES)
    mean = nnz / num_dst if num_dst else 0.0
    std = float(degrees.std(dtype=np.float64)) if num_dst else 0.0
    distance, spread, density = _locality(indptr, indices, num_src)
    return GraphStats(
        num_dst=num_dst,
        num_src=num_src,
        nnz=nnz,
        degree_mean=mean,
        degree_std=std,
        degree_cv=std / mean if mean else 0.0,
        degree_max=int(degrees[-1]) if num_dst else 0,
        degree_gini=_gini(degrees),
        degree_q10=q10,
        degree_q25=q25,
        degree_q50=q50,
        degree_q75=q75,
        degree_q90=q90,
        degree_q99=q99,
        empty_rows=int(np.searchsorted(degrees, 1)) / num_dst if num_dst else 0.0,
        locality_distance=distance,
        window_spread=spread,
        block_density=density,
    )


def _quantiles(ascending: NDArray[Any]) -> list[float]:
    # np.quantile would do, but imports numpy.ma on first use: 10 ms of the first `load` in a process.
    at = np.asarray(QUANTILES) * (ascending.size - 1)
    below = at.astype(np.int64)
    above = np.minimum(below + 1, ascending.size - 1)
    values: list[float] = (ascending[below] + (at - below) * (ascending[above] - ascending[below])).tolist()
    return values


def _gini(ascending: NDArray[Any]) -> float:
    total = float(ascending.sum(dtype=np.float64))
    if total == 0:
        return 0.0
    n = ascending.size
    weighted = float(np.dot(np.arange(1, n + 1, dtype=np.float64), ascending))
    return max(0.0, 2 * weighted / (n * total) - (n + 1) / n)


def _locality(indptr: IntArray, indices: IntArray, num_src: int) -> tuple[float, float, float]:
    rows, cols = _sampled_edges(indptr, indices)
    if rows.size == 0:
        return 0.0, 0.0, 0.0
    num_dst = indptr.size - 1
    distance = float(np.abs(rows * (num_src / num_dst) - cols).mean()) / num_src
    spread = _distinct_blocks(rows // WINDOW, cols // WINDOW) / rows.size
    density = rows.size / (BLOCK * BLOCK * _distinct_blocks(rows // BLOCK, cols // BLOCK))
    # Parallel edges can fill a block more than once.
    return distance, spread, min(1.0, density)


def _sampled_edges(indptr: IntArray, indices: IntArray) -> tuple[IntArray, IntArray]:
    """Rows and sources of the edges in evenly spaced windows of 64 rows, as int64; of all edges when they are few."""
    if indices.size <= SAMPLE_EDGES:
        return rows_of(indptr, np.dtype(np.int64)), indices.astype(np.int64)
    num_dst = indptr.size - 1
    num_windows = -(-num_dst // WINDOW)
    wanted = min(num_windows, _MAX_WINDOWS, max(4, num_windows * SAMPLE_EDGES // indices.size))
    first = np.linspace(0, num_windows - 1, wanted).astype(np.int64) * WINDOW
    sampled = (first[:, None] + np.arange(WINDOW)).ravel()
    sampled = sampled[sampled < num_dst]
    rows = np.repeat(sampled, (indptr[sampled + 1] - indptr[sampled]).astype(np.int64, copy=False))
    ends = np.minimum(first + WINDOW, num_dst)
    cols = np.concatenate([indices[a:b] for a, b in zip(indptr[first], indptr[ends], strict=True)])
    # Windows with hub rows can hold most edges of the graph: thin them by whole blocks of sources, so that the blocks
    # that stay are complete.
    stride = rows.size // SAMPLE_EDGES
    if stride > 1:
        kept = np.flatnonzero((cols // WINDOW) % stride == 0)
        if kept.size:
            rows, cols = rows[kept], cols[kept]
    return rows, cols.astype(np.int64)


def _distinct_blocks(rows: IntArray, cols: IntArray) -> int:
    """Distinct (row block, column block) pairs."""
    keys = np.sort((rows - rows[0]) * (int(cols.max()) + 1) + cols)
    return 1 + int(np.count_nonzero(keys[1:] != keys[:-1]))
