"""g-SpMM kernels against the float64 reference: operators × widths × index types × edge orders × dtypes × schedules.

How it is sampled (all seeded). The combinations of operator, edge order and dtype, with index types in turn, are dealt
out to the widths, each with a schedule drawn from the space of a simulated CPU (AVX-512, AVX2, SSE in turn) and with
edge values of a drawn width (one per edge, per head, per feature). For each CPU some widths also have a covering sample
of the plain space: the default, then schedules until every legal value of every decision has occurred. `conftest` says
how each library is run and compared.
"""

from __future__ import annotations

import random
from functools import cache
from typing import Any

import pytest

from tvm_gnn.ops import Problem
from tvm_gnn.ops.dtypes import DTYPES
from tvm_gnn.ops.spmm import SPMM_OPS
from tvm_gnn.templates.space import Decisions
from tvm_gnn.testing.operands import problem
from tvm_gnn.testing.schedules import TARGETS, covering_sample, launches, space_of, values_of

WIDTHS = (1, 2, 3, 7, 16, 31, 32, 33, 64, 127, 128, 129, 257)
COVERED = {7: "sse", 33: "avx512", 64: "avx2", 129: "sse", 257: "avx512"}
INDEX_DTYPES = ("int32", "int64")
# Only edge values have an order; kernels without them are built for one.
COMBINATIONS = [
    (name, dtype, INDEX_DTYPES[(i + j + k) % 2], edge_order)
    for i, (name, op) in enumerate(SPMM_OPS.items())
    for j, dtype in enumerate(DTYPES)
    for k, edge_order in enumerate(("csr", "edge_ids") if op.uses_edge else ("csr",))
]


def edge_feats(op: str, feat: int) -> list[tuple[int | tuple[int, ...], tuple[int, ...] | None]]:
    """Shapes of features of this width and of what may be read per edge: one number, one per head, one per feature."""
    if not SPMM_OPS[op].uses_edge or not SPMM_OPS[op].uses_src:
        return [(feat, None)]
    per_head = [((heads, feat // heads), (heads, 1)) for heads in (2, 4) if feat % heads == 0]
    return [(feat, ()), (feat, (feat,)), *per_head]


@cache
def drawn(feat: int) -> list[tuple[Problem, str, Decisions]]:
    """Problems and schedules of one width (see the module's text)."""
    dealt = random.Random(0).sample(COMBINATIONS, len(COMBINATIONS))[WIDTHS.index(feat) :: len(WIDTHS)]
    rng = random.Random(1000 + feat)
    cases = []
    for i, (op, dtype, index_dtype, edge_order) in enumerate(dealt):
        target = list(TARGETS)[i % len(TARGETS)]
        shape, edge_feat = rng.choice(edge_feats(op, feat))
        what = problem(op, shape, dtype, index_dtype, edge_order, edge_feat)
        cases.append((what, target, space_of(what, target).sample(rng)))
    return cases


@cache
def covering(feat: int) -> list[tuple[Problem, str, Decisions]]:
    """Every legal value of every decision of one CPU's plain space, on operators that take part in it."""
    rng, target = random.Random(feat), COVERED[feat]
    cases = []
    for choice in covering_sample(space_of(problem("copy_u_sum", feat), target), rng):
        op, _, index_dtype, edge_order = rng.choice(COMBINATIONS)
        if not SPMM_OPS[op].uses_src:
            op, edge_order = "copy_u_sum", "csr"
        cases.append((problem(op, feat, "float32", index_dtype, edge_order), target, choice))
    return cases


@pytest.mark.parametrize("feat", WIDTHS)
def test_kernels_match_the_reference(matrix: Any, feat: int) -> None:
    matrix.check([matrix.Case(*case) for case in drawn(feat)])


@pytest.mark.parametrize("feat", COVERED)
def test_every_decision_gives_the_same_result(matrix: Any, feat: int) -> None:
    matrix.check([matrix.Case(*case) for case in covering(feat)])


def test_every_combination_is_dealt_out() -> None:
    problems = [what for feat in WIDTHS for what, _, _ in drawn(feat)]
    found = [(what.op.name, what.dtype, what.index_dtype, what.edge_order) for what in problems]
    assert sorted(found) == sorted(COMBINATIONS)
    assert set(COVERED.values()) == set(TARGETS)


@pytest.mark.parametrize("feat", COVERED)
def test_every_value_is_covered(feat: int) -> None:
    space = space_of(problem("copy_u_sum", feat), COVERED[feat])
    assert values_of([choice for _, _, choice in covering(feat)]) == values_of(list(space))


def test_half_types_have_the_schedules_of_what_they_are_computed_in() -> None:
    for target in TARGETS:
        # Slices keep their sums in the output, which halves cannot.
        single = [choice for choice in space_of(problem("u_mul_e_sum", 64), target) if choice["slices"] == 1]
        for dtype in ("float16", "bfloat16"):
            assert list(space_of(problem("u_mul_e_sum", 64, dtype), target)) == single


def test_launches_cover_every_run_time_value() -> None:
    space = space_of(problem("copy_u_sum", 64))
    prefetching = {**space.default, "prefetch": 8}
    found = launches(space, prefetching, threads=2)
    assert {launch["prefetch_distance"] for launch in found} == {8, 16, 32}
    assert {launch["parts"] for launch in found} == set(next(d for d in space.decisions if d.name == "parts").values)
    assert {(launch["parts"], launch["tasks"]) for launch in found} >= {(1, 1), (2, 2), (16, 16), (64, 64)}
    in_tiles = launches(space, {**prefetching, "order": "tiles", "vectors": 1}, threads=2)
    assert {(launch["parts"], launch["tasks"]) for launch in in_tiles} >= {(16, 2), (16, 16), (64, 2), (64, 64)}
