"""CSR cut into slices of sources: edges of the first slice row by row, then those of the second, and so on."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .validate import IntArray


class SlicedCsr(NamedTuple):
    """The edges of a graph, ordered by slice of sources and within a slice by row; arrays are read-only.

    A kernel that takes one slice after the other reads features from a part of memory that a core's cache holds.

    Shapes
    ------
    indptr : (slices * num_dst + 1,)
        Row v of slice s holds the positions from ``indptr[s * num_dst + v]`` up to the next entry.
    indices : (num_edges,)
        Sources, ascending within a row of a slice.
    positions : (num_edges,)
        Where each edge stands in the graph's CSR order.
    edge_ids : (num_edges,)
        Where it stands in the caller's edge order.
    """

    indptr: IntArray
    indices: IntArray
    positions: IntArray
    edge_ids: IntArray


def sliced_by_source(
    indptr: IntArray, indices: IntArray, edge_ids: IntArray | None, num_src: int, slices: int
) -> SlicedCsr:
    """A CSR with ascending rows in that many slices of equally many sources. Cost: a few passes over the edges."""
    num_dst, dtype = indptr.size - 1, indptr.dtype
    bounds = np.arange(1, slices) * num_src // slices
    # Rows ascend, so the edges of a slice are one run of each row; where it ends, all rows' keys together tell.
    keys = np.repeat(np.arange(num_dst, dtype=np.int64), np.diff(indptr)) * num_src + indices
    inner = np.searchsorted(keys, (np.arange(num_dst, dtype=np.int64)[:, None] * num_src + bounds).ravel())
    ends = np.concatenate([inner.reshape(num_dst, slices - 1), indptr[1:, None]], axis=1)
    starts = np.concatenate([indptr[:-1, None], ends[:, :-1]], axis=1)
    lengths = (ends - starts).T.ravel()
    sliced = np.zeros(slices * num_dst + 1, dtype)
    np.cumsum(lengths, out=sliced[1:])
    # A run's positions are those of the sliced order, moved by where it started.
    positions = np.arange(indices.size, dtype=dtype) + np.repeat(starts.T.ravel().astype(dtype) - sliced[:-1], lengths)
    found = SlicedCsr(sliced, indices[positions], positions, positions if edge_ids is None else edge_ids[positions])
    for array in found:
        array.flags.writeable = False
    return found
