"""Edges ordered by slice of sources: every edge once, in its slice and row."""

from __future__ import annotations

import numpy as np
import pytest

from tvm_gnn.errors import InputError
from tvm_gnn.graph import Graph
from tvm_gnn.testing.odd_graphs import ODD_GRAPHS


@pytest.mark.parametrize("slices", [1, 2, 7, 64])
@pytest.mark.parametrize("name", ODD_GRAPHS)
def test_every_edge_stands_in_its_slice_and_row(name: str, slices: int) -> None:
    graph = ODD_GRAPHS[name]()
    sliced = graph.sliced(slices)
    assert sliced.indptr.size == slices * graph.num_dst + 1
    assert sorted(sliced.positions.tolist()) == list(range(graph.num_edges))
    row_of = np.repeat(np.arange(graph.num_dst), graph.in_degrees)
    cells = np.repeat(np.arange(slices * graph.num_dst), np.diff(sliced.indptr))
    of_slice, row = np.divmod(cells, max(1, graph.num_dst))
    np.testing.assert_array_equal(row, row_of[sliced.positions])
    np.testing.assert_array_equal(sliced.indices, graph.indices[sliced.positions])
    bounds = np.arange(slices + 1) * graph.num_src // slices
    assert (bounds[of_slice] <= sliced.indices).all()
    assert (sliced.indices < bounds[of_slice + 1]).all()
    ids = np.arange(graph.num_edges) if graph.edge_ids is None else graph.edge_ids
    np.testing.assert_array_equal(sliced.edge_ids, ids[sliced.positions])
    assert {array.dtype.name for array in sliced} == {graph.index_dtype}


def test_slices_are_kept_and_read_only() -> None:
    graph = Graph.from_coo([0, 1, 2], [0, 0, 1])
    assert graph.sliced(2) is graph.sliced(2)
    with pytest.raises(ValueError, match="read-only"):
        graph.sliced(2).indices[0] = 1
    with pytest.raises(InputError, match=r"slices: must be at least 1 \(got 0\)"):
        graph.sliced(0)
