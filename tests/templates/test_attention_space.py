"""The schedule spaces of g-SDDMM, edge softmax, GAT and GATv2: legal defaults and samples, within the hardware."""

from __future__ import annotations

import random

import pytest

from tvm_gnn.ops.attention import heads_of
from tvm_gnn.ops.dims import RowShape
from tvm_gnn.templates.registry import template_of
from tvm_gnn.templates.space import Counts
from tvm_gnn.testing.operands import problem
from tvm_gnn.testing.schedules import TARGETS, space_of, values_of
from tvm_gnn.toolchain.target import CpuTarget

OPS = ("u_dot_v", "e_mul_u", "copy_v", "edge_softmax", "gat", "gat(attention=True)", "gatv2")
SHAPES: tuple[RowShape, ...] = (
    *((1,), (2,), (3,), (8,), (33,), (257,), (1000,)),
    *((1, 1), (3, 5), (8, 8), (4, 16), (5, 33), (16, 1), (64, 1), (100, 3), (2, 1000)),
)


@pytest.mark.parametrize("threads", [1, 2, 16])
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("op", OPS)
def test_the_default_is_legal_whatever_the_sizes(op: str, target: str, threads: int) -> None:
    base = TARGETS[target]
    cpu = CpuTarget(base.cpu, base.vector_bytes, base.vector_registers, threads)
    for feat in SHAPES:
        for dtype in ("float32", "float64"):
            what = problem(op, feat, dtype)
            for num_src, num_edges in ((1, 1), (1000, 10), (5000, 10**6), (10**6, 10**7), (3 * 10**9, 10**10)):
                space = template_of(what).space(what, cpu, Counts(num_src, num_src, num_edges))
                assert space.check(space.default) == space.default, (feat, dtype)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("op", OPS)
def test_samples_are_legal_and_reach_all_values(op: str, target: str) -> None:
    for feat in ((3,), (33,), (8, 8)):
        space = space_of(problem(op, feat), target)
        rng = random.Random(0)
        drawn = [space.sample(rng) for _ in range(400)]
        assert all(space.check(choice) == choice for choice in drawn)
        assert values_of(drawn) == values_of(list(space))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("op", [op for op in OPS if op != "edge_softmax"])
def test_vectors_fit_the_registers_and_the_width(op: str, target: str) -> None:
    for feat in SHAPES:
        width = feat[-1] if op in ("gat", "gatv2", "u_dot_v") else problem(op, feat).width
        for choice in space_of(problem(op, feat), target):
            assert 1 <= int(choice["lanes"]) <= width
            assert int(choice["lanes"]) * 4 <= TARGETS[target].vector_bytes


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("feat", SHAPES, ids=str)
def test_no_two_schedules_of_gat_are_the_same_tiles(feat: RowShape, target: str) -> None:
    from tvm_gnn.templates.gat_csr import _tile

    what = problem("gat", feat)
    seen = set()
    for choice in space_of(what, target):
        tile = _tile(*heads_of(what.dims), int(choice["lanes"]), int(choice["vectors"]), 4)
        rest = tuple(value for name, value in choice.items() if name != "vectors")
        assert (tile, rest) not in seen
        seen.add((tile, rest))
        # What a chunk's numbers and a cell's sums take on the stack.
        assert int(choice["chunk"]) * tile[0] * 4 < 1024
        assert tile[0] * -(-tile[1] // int(choice["lanes"])) * int(choice["lanes"]) * 4 < 1024


def test_no_schedule_prefetches_where_nothing_is_gathered() -> None:
    for op in ("copy_v", "e_dot_v", "edge_softmax"):
        assert {choice["prefetch"] for choice in space_of(problem(op, 8))} == {0}
    for op in ("copy_u", "u_dot_v", "gat"):
        assert {choice["prefetch"] for choice in space_of(problem(op, 8))} == {0, 8, 16, 32}
