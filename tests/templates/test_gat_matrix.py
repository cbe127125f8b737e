"""GAT and GATv2 kernels against the float64 reference: options × shapes × dtypes × schedules × graphs."""

from __future__ import annotations

from typing import Any

import pytest

from tvm_gnn.ops import parse_op
from tvm_gnn.ops.dims import RowShape
from tvm_gnn.ops.dtypes import DTYPES
from tvm_gnn.testing.cases import ATTENTION_OPS, EDGE_ORDERS, INDEX_DTYPES, SHAPES, attention_cases


@pytest.mark.parametrize("feat", SHAPES, ids=str)
def test_kernels_match_the_reference(matrix: Any, feat: RowShape) -> None:
    matrix.check(attention_cases(feat))


def test_the_sample_has_every_option_dtype_and_edge_order() -> None:
    problems = [case.problem for feat in SHAPES for case in attention_cases(feat)]
    assert {what.op for what in problems} == set(map(parse_op, ATTENTION_OPS))
    for primitive in ("gat", "gatv2"):
        assert {what.dtype for what in problems if what.op.primitive == primitive} == set(DTYPES)
    assert {(what.index_dtype, what.edge_order) for what in problems} == {
        (index_dtype, edge_order) for index_dtype in INDEX_DTYPES for edge_order in EDGE_ORDERS
    }
