"""The schedule space: its default, its members and its samples are legal, and no two of them are the same kernel."""

from __future__ import annotations

import itertools
import random

import pytest

from tvm_gnn.errors import InputError
from tvm_gnn.templates import spmm_csr
from tvm_gnn.templates.launch import code_decisions, launch_parameters
from tvm_gnn.templates.space import Counts, Decision, Space
from tvm_gnn.testing.operands import problem
from tvm_gnn.toolchain.target import CpuTarget

WIDTHS = (1, 2, 3, 7, 8, 15, 16, 17, 31, 32, 33, 64, 100, 127, 128, 129, 256, 257, 500, 1433, 4096)
TARGETS = [
    CpuTarget("wide", vector_bytes=64, vector_registers=32, threads=2),
    CpuTarget("wide, many threads", vector_bytes=64, vector_registers=32, threads=96),
    CpuTarget("half", vector_bytes=32, vector_registers=16, threads=1),
    CpuTarget("narrow", vector_bytes=16, vector_registers=16, threads=4),
]
SIZES = (Counts(34, 34, 156), Counts(4_000, 4_000, 2_000_000), Counts(1_000_000, 1_000_000, 20_000_000))


def spaces(widths: tuple[int, ...] = WIDTHS) -> list[Space]:
    return [
        spmm_csr.space(problem("copy_u_sum", feat), target, size)
        for feat, target, size in itertools.product(widths, TARGETS, SIZES)
    ]


def test_default_is_legal_everywhere() -> None:
    for space in spaces():
        assert space.check(space.default) == space.default
        assert list(space.default) == [decision.name for decision in space.decisions]


def test_samples_are_legal_and_differ() -> None:
    for space in spaces():
        rng = random.Random(0)
        samples = [space.sample(rng) for _ in range(20)]
        assert all(space.check(choice) == choice for choice in samples)
        assert len({tuple(choice.items()) for choice in samples}) > 3


@pytest.mark.parametrize("feat", [1, 3, 16, 33, 128])
def test_members_are_legal_distinct_kernels(feat: int) -> None:
    for space, target in zip(spaces((feat,)), [t for t in TARGETS for _ in SIZES], strict=True):
        members = list(space)
        assert space.default in members
        assert all(space.legal(choice) for choice in members)
        meanings = [
            (
                *sorted(code_decisions(choice).items()),
                *sorted(launch_parameters(choice, target.threads).items()),
            )
            for choice in members
        ]
        assert len(set(meanings)) == len(members)
        assert members == list(space)


def test_members_are_all_that_is_legal() -> None:
    decisions = (Decision("a", (1, 2, 3)), Decision("b", (False, True)))
    space = Space(decisions, {"a": 1, "b": False}, lambda choice: choice["a"] != 2 or bool(choice["b"]))
    assert [tuple(choice.values()) for choice in space] == [(1, False), (1, True), (2, True), (3, False), (3, True)]
    drawn = {tuple(space.sample(random.Random(seed)).values()) for seed in range(100)}
    assert drawn == {tuple(choice.values()) for choice in space}


def test_sampling_follows_the_seed() -> None:
    space = spaces((128,))[0]

    def draws(seed: int) -> list[object]:
        rng = random.Random(seed)
        return [space.sample(rng) for _ in range(10)]

    assert draws(1) == draws(1)
    assert draws(1) != draws(2)


def test_check_names_what_is_wrong() -> None:
    space = spaces((16,))[0]
    shuffled = dict(reversed(list(space.default.items())))
    assert list(space.check(shuffled)) == list(space.default)
    with pytest.raises(InputError, match=r"decisions: must name exactly lanes, .* \(got none\)"):
        space.check({})
    with pytest.raises(InputError, match="must name exactly"):
        space.check({**space.default, "colour": 1})
    with pytest.raises(InputError, match=r"unroll: must be one of \(1, 2, 4\) \(got 3\)"):
        space.check({**space.default, "unroll": 3})
    with pytest.raises(InputError, match="not a legal combination"):
        space.check({**space.default, "parts": 1, "dynamic": True})
