"""Kernels over relations of every reduce, dtype and many schedules on every odd graph; see the module `conftest`."""

from __future__ import annotations

import random
from typing import Any

import pytest

from tvm_gnn.ops.dtypes import DTYPES
from tvm_gnn.ops.relational import RELATIONAL_OPS
from tvm_gnn.testing.operands import problem
from tvm_gnn.testing.schedules import TARGETS, covering_sample, space_of

WIDTHS = (1, 3, 16, 33)
OPTIONS = [
    (dtype, index_dtype, edge_order)
    for dtype in DTYPES
    for index_dtype in ("int32", "int64")
    for edge_order in ("csr", "edge_ids")
]


@pytest.mark.parametrize("feat", WIDTHS)
def test_kernels_match_the_reference(matrix: Any, feat: int) -> None:
    rng = random.Random(feat)
    cases = []
    for i, name in enumerate(RELATIONAL_OPS):
        dtype, index_dtype, edge_order = OPTIONS[(5 * i + WIDTHS.index(feat)) % len(OPTIONS)]
        relations = (1, 2, 4, 5)[(i + WIDTHS.index(feat)) % 4]
        order = edge_order if RELATIONAL_OPS[name].uses_edges else "csr"
        what = problem(f"{name}(relations={relations})", feat, dtype, index_dtype, order)
        target = list(TARGETS)[i % len(TARGETS)]
        cases.append(matrix.Case(what, target, space_of(what, target).sample(rng)))
    matrix.check(cases)


@pytest.mark.parametrize("target", TARGETS)
def test_every_value_of_every_decision(matrix: Any, target: str) -> None:
    what = problem("u_mul_e_sum_across_max(relations=2)", 33)
    matrix.check(
        [matrix.Case(what, target, choice) for choice in covering_sample(space_of(what, target), random.Random(0))]
    )
