"""Edge softmax kernels against the float64 reference: shapes × dtypes × edge orders × schedules × graphs."""

from __future__ import annotations

from typing import Any

import pytest

from tvm_gnn.ops.dims import RowShape
from tvm_gnn.ops.dtypes import DTYPES
from tvm_gnn.testing.cases import EDGE_ORDERS, INDEX_DTYPES, SHAPES, softmax_cases


@pytest.mark.parametrize("feat", SHAPES, ids=str)
def test_kernels_match_the_reference(matrix: Any, feat: RowShape) -> None:
    matrix.check(softmax_cases(feat))


def test_the_sample_has_every_dtype_and_edge_order() -> None:
    problems = [case.problem for feat in SHAPES for case in softmax_cases(feat)]
    assert {what.dtype for what in problems} == set(DTYPES)
    assert {(what.index_dtype, what.edge_order) for what in problems} == {
        (index_dtype, edge_order) for index_dtype in INDEX_DTYPES for edge_order in EDGE_ORDERS
    }
