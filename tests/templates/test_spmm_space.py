"""The g-SpMM schedule space: legal defaults, what is legal and what is refused."""

from __future__ import annotations

import random
from typing import Any

import pytest

from tvm_gnn.errors import InputError
from tvm_gnn.templates import spmm_csr
from tvm_gnn.templates.space import Counts, Space
from tvm_gnn.testing.operands import problem
from tvm_gnn.testing.schedules import TARGETS, covering_sample, space_of, values_of
from tvm_gnn.toolchain.target import CpuTarget

WIDTHS = (1, 2, 3, 7, 16, 31, 32, 33, 64, 127, 128, 129, 257, 1000)


def plain_space(feat: int, target: str) -> Space:
    return space_of(problem("copy_u_sum", feat), target)


@pytest.mark.parametrize("threads", [1, 2, 16])
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("feat", WIDTHS)
def test_the_default_is_legal_whatever_the_sizes(feat: int, target: str, threads: int) -> None:
    base = TARGETS[target]
    cpu = CpuTarget(base.cpu, base.vector_bytes, base.vector_registers, threads)
    for num_src, num_edges in ((1, 1), (1000, 10), (5000, 10**6), (10**6, 10**7), (3 * 10**9, 10**10)):
        space = spmm_csr.space(problem("copy_u_sum", feat), cpu, Counts(num_src, num_src, num_edges))
        assert space.check(space.default) == space.default


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("feat", WIDTHS)
def test_every_legal_schedule_fits_the_registers_and_the_width(feat: int, target: str) -> None:
    for choice in plain_space(feat, target):
        tile, unroll, lanes = int(choice["vectors"]), int(choice["unroll"]), int(choice["lanes"])
        assert lanes <= feat
        assert lanes * 4 <= TARGETS[target].vector_bytes
        assert tile * (unroll + (unroll > 1)) < TARGETS[target].vector_registers
        assert (tile - 1) * lanes < feat
        assert unroll * tile * lanes * 4 < 1024


@pytest.mark.parametrize("feat", [3, 33, 257])
def test_samples_are_legal_and_reach_all_values(feat: int) -> None:
    space = plain_space(feat, "avx2")
    rng = random.Random(0)
    drawn = [space.sample(rng) for _ in range(500)]
    assert all(space.check(choice) == choice for choice in drawn)
    assert values_of(drawn) == values_of(list(space))


def test_the_covering_sample_is_small_seeded_and_complete() -> None:
    space = plain_space(129, "avx512")
    first, second = (covering_sample(space, random.Random(1)) for _ in range(2))
    assert first == second
    assert first != covering_sample(space, random.Random(2))
    assert first[0] == space.default
    assert values_of(first) == values_of(list(space))
    assert len(first) <= 12


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"lanes": 5}, r"lanes: must be one of \(8, 16\) \(got 5\)"),
        ({"order": "columns"}, r"order: must be one of .* \(got 'columns'\)"),
        ({"unroll": 4, "vectors": 8}, r"decisions: not a legal combination"),
        ({"parts": 1, "dynamic": True}, r"decisions: not a legal combination"),
        ({"tile": 3}, r"decisions: must name exactly lanes, .* \(got .*tile\)"),
    ],
)
def test_wrong_decisions_are_refused(changes: dict[str, Any], text: str) -> None:
    space = plain_space(64, "avx512")
    with pytest.raises(InputError, match=text):
        space.check({**space.default, **changes})


def test_missing_decisions_are_refused() -> None:
    with pytest.raises(InputError, match=r"decisions: must name exactly lanes, .* \(got none\)"):
        plain_space(64, "avx512").check({})
