"""g-SDDMM kernels against the float64 reference: operators × shapes × index types × edge orders × dtypes × schedules.

How it is sampled (all seeded). Every operator with every dtype is dealt out to the shapes, index types and edge orders
in turn, each with a schedule drawn from the space of a simulated CPU and, where it reads edges, with edge values of a
drawn shape (one per edge, per head, per feature). The space of a dot product and that of a sum are covered for one CPU
each: the default, then schedules until every legal value of every decision has occurred. `conftest` says how each
library is run and compared.
"""

from __future__ import annotations

import itertools
import random
from functools import cache
from typing import Any

import pytest

from tvm_gnn.ops import Problem
from tvm_gnn.ops.dtypes import DTYPES
from tvm_gnn.ops.sddmm import SDDMM_OPS
from tvm_gnn.templates.space import Decisions
from tvm_gnn.testing.operands import problem
from tvm_gnn.testing.schedules import TARGETS, covering_sample, space_of, values_of

SHAPES = (1, 3, 16, 33, 64, 129, 257, (1, 7), (4, 1), (3, 2), (4, 16), (2, 33))
STRUCTURES = list(itertools.product(("int32", "int64"), ("csr", "edge_ids")))
COMBINATIONS = list(itertools.product(SDDMM_OPS, DTYPES))
COVERED = {"avx512": ("u_dot_v", 33), "avx2": ("v_dot_u", (4, 16)), "sse": ("u_add_v", 31)}


def edge_feats(op: str, shape: Any) -> list[tuple[int, ...] | None]:
    """Shapes that the operator may read per edge."""
    what = SDDMM_OPS[op]
    if "e" not in (what.lhs, what.rhs) or what.reduces or what.combine is None:
        return [None]
    return [None, (), (shape[0], 1)] if isinstance(shape, tuple) else [None, ()]


@cache
def drawn(shape: Any) -> list[tuple[Problem, str, Decisions]]:
    """Problems and schedules of one shape (see the module's text)."""
    dealt = random.Random(0).sample(COMBINATIONS, len(COMBINATIONS))[SHAPES.index(shape) :: len(SHAPES)]
    rng = random.Random(SHAPES.index(shape))
    cases = []
    for i, (op, dtype) in enumerate(dealt):
        target = list(TARGETS)[i % len(TARGETS)]
        what = problem(op, shape, dtype, *STRUCTURES[i % len(STRUCTURES)], rng.choice(edge_feats(op, shape)))
        cases.append((what, target, space_of(what, target).sample(rng)))
    return cases


@cache
def covering(target: str) -> list[tuple[Problem, str, Decisions]]:
    """Every legal value of every decision of one CPU's space."""
    op, shape = COVERED[target]
    sample = covering_sample(space_of(problem(op, shape), target), random.Random(0))
    return [
        (problem(op, shape, "float32", *STRUCTURES[i % len(STRUCTURES)]), target, choice)
        for i, choice in enumerate(sample)
    ]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_kernels_match_the_reference(matrix: Any, shape: Any) -> None:
    matrix.check([matrix.Case(*case) for case in drawn(shape)])


@pytest.mark.parametrize("target", COVERED)
def test_every_decision_gives_the_same_result(matrix: Any, target: str) -> None:
    matrix.check([matrix.Case(*case) for case in covering(target)])


def test_every_combination_is_dealt_out() -> None:
    problems = [what for shape in SHAPES for what, _, _ in drawn(shape)]
    assert sorted((what.op.name, what.dtype) for what in problems) == sorted(COMBINATIONS)
    # Of the others every pair occurs.
    assert {(what.dtype, what.index_dtype, what.edge_order) for what in problems} == {
        (dtype, *structure) for dtype in DTYPES for structure in STRUCTURES
    }
    assert {what.dims.edge_feat for what in problems} >= {(), (4, 1), (3, 1), (257,), (4, 16)}


@pytest.mark.parametrize("target", COVERED)
def test_every_value_is_covered(target: str) -> None:
    op, shape = COVERED[target]
    chosen = [choice for _, _, choice in covering(target)]
    assert values_of(chosen) == values_of(list(space_of(problem(op, shape), target)))
