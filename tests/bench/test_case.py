"""A case's inputs, matrix form and refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp  # type: ignore[import-untyped,unused-ignore]

from tvm_gnn.bench import Case
from tvm_gnn.bench.contenders.contender import MATRIX_OPS
from tvm_gnn.errors import InputError, InputTypeError
from tvm_gnn.graph import Graph
from tvm_gnn.ops.registry import OPS


@pytest.mark.parametrize("op", sorted(MATRIX_OPS))
def test_matrix_form_equals_reference(graphs: dict[str, Graph], op: str) -> None:
    for graph in graphs.values():
        case = Case(graph, op, 4)  # type: ignore[arg-type]
        matrix = sp.csr_array(
            (case.matrix_values.astype(np.float64), graph.indices, graph.indptr), shape=(graph.num_dst, graph.num_src)
        )
        np.testing.assert_allclose(matrix @ case.x.astype(np.float64), case.reference, rtol=1e-6, atol=1e-6)


def test_inputs_are_seeded_and_distinct(graphs: dict[str, Graph]) -> None:
    first, again, other = (Case(graphs["wide"], OPS["u_mul_e_sum"], 3, seed=seed) for seed in (7, 7, 8))
    assert np.array_equal(first.x, again.x)
    assert np.array_equal(first.w, again.w)
    assert not np.array_equal(first.x, other.x)
    assert not np.array_equal(first.x.ravel()[:20], first.w[:20])
    assert first.x.dtype == first.w.dtype == np.float32


@pytest.mark.parametrize("feat", [1, 3, 33])
def test_features_start_on_a_cache_line(graphs: dict[str, Graph], feat: int) -> None:
    x = Case(graphs["wide"], OPS["copy_u_sum"], feat).x
    assert x.ctypes.data % 64 == 0
    assert x.shape == (23, feat)
    assert x.flags.c_contiguous


@pytest.mark.parametrize(
    ("fields", "error", "text"),
    [
        ({"feat": 0}, InputError, r"feat: must be at least 1 \(got 0\)"),
        ({"feat": 2.0}, InputTypeError, r"feat: must be an integer or a pair of them \(got 2\.0 of type float\)"),
        ({"op": "u_mul_v_sum"}, InputError, "op: must be the name of an operator"),
        ({"dtype": "float16"}, InputError, r"float32 only \(got 'float16'\)"),
    ],
)
def test_refusals(graphs: dict[str, Graph], fields: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        Case(**{"graph": graphs["wide"], "op": "copy_u_sum", "feat": 2, **fields})
