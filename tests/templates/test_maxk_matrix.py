"""MaxK and its backward kernels of many shapes and schedules on every odd graph; see the module `conftest`."""

from __future__ import annotations

import random
from typing import Any

import pytest

from tvm_gnn.ops.dtypes import DTYPES
from tvm_gnn.ops.maxk import MAXK_OPS
from tvm_gnn.testing.operands import problem
from tvm_gnn.testing.schedules import TARGETS, covering_sample, space_of

# Widths and k: alone, all of a row, no whole vectors, 8 and 16 bits of columns, more than a vector's groups.
SHAPES = ((1, 1), (3, 2), (7, 7), (16, 5), (33, 8), (129, 32), (256, 64), (257, 32), (300, 256))
OPTIONS = [
    (dtype, index_dtype, edge_order)
    for dtype in DTYPES
    for index_dtype in ("int32", "int64")
    for edge_order in ("csr", "edge_ids")
]


def with_k(op: str, k: int) -> str:
    return op if k == 32 else f"{op}(k={k})"


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: f"{shape[0]}-{shape[1]}")
def test_kernels_match_the_reference(matrix: Any, shape: tuple[int, int]) -> None:
    feat, k = shape
    rng = random.Random(feat)
    cases = []
    for i, op in enumerate(MAXK_OPS):
        dtype, index_dtype, edge_order = rng.choice(OPTIONS)
        what = problem(with_k(op, k), feat, dtype, index_dtype, edge_order if MAXK_OPS[op].uses_edges else "csr")
        target = list(TARGETS)[i % len(TARGETS)]
        cases.append(matrix.Case(what, target, space_of(what, target).sample(rng)))
    matrix.check(cases)


@pytest.mark.parametrize("op", MAXK_OPS)
def test_every_value_of_every_decision(matrix: Any, op: str) -> None:
    rng = random.Random(op)
    cases = []
    for choice in covering_sample(space_of(problem(with_k(op, 9), 40), "avx2"), rng):
        dtype, index_dtype, edge_order = rng.choice([each for each in OPTIONS if each[0] != "float64"])
        what = problem(with_k(op, 9), 40, dtype, index_dtype, edge_order if MAXK_OPS[op].uses_edges else "csr")
        cases.append(matrix.Case(what, "avx2", choice))
    matrix.check(cases)
