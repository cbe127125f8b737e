"""Sort pooling kernels of many shapes and schedules on every odd graph; see the module `conftest`."""

from __future__ import annotations

import random
from typing import Any

import pytest

from tvm_gnn.ops.dtypes import DTYPES
from tvm_gnn.testing.operands import problem
from tvm_gnn.testing.schedules import TARGETS, covering_sample, space_of

SHAPES = ((1, 1), (3, 2), (7, 40), (33, 8))


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: f"{shape[0]}-{shape[1]}")
def test_kernels_match_the_reference(matrix: Any, shape: tuple[int, int]) -> None:
    feat, k = shape
    rng = random.Random(feat)
    cases = []
    for target in TARGETS:
        for choice in covering_sample(space_of(problem(f"sort_pool(k={k})", feat), target), rng):
            dtype, index_dtype, edge_order = (
                rng.choice(each) for each in (DTYPES, ("int32", "int64"), ("csr", "edge_ids"))
            )
            what = problem(f"sort_pool(k={k})", feat, dtype, index_dtype, edge_order)
            if choice["lanes"] in next(d for d in space_of(what, target).decisions if d.name == "lanes").values:
                cases.append(matrix.Case(what, target, choice))
    matrix.check(cases)
