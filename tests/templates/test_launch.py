"""What of a schedule shapes the code and what is passed at run time."""

from __future__ import annotations

from typing import Any

import pytest

from tvm_gnn.templates.launch import code_decisions, launch_parameters
from tvm_gnn.testing.operands import problem
from tvm_gnn.testing.schedules import space_of

SPACE = space_of(problem("copy_u_sum", 64))


def test_what_shapes_the_code_and_what_does_not() -> None:
    base = {**SPACE.default, "prefetch": 8}
    code = code_decisions(base)
    for same in ({"parts": 1, "dynamic": False}, {"prefetch": 32}):
        assert code_decisions({**base, **same}) == code
    assert code_decisions({**base, "slices": 4}) == code_decisions({**base, "slices": 8}) != code
    for other in ({"prefetch": 0}, {"lanes": 8}, {"vectors": 1}, {"unroll": 2}, {"order": "tiles"}):
        assert code_decisions({**base, **other}) != code


@pytest.mark.parametrize(
    ("changes", "threads", "expected"),
    [
        (
            {"parts": 1, "dynamic": False, "prefetch": 0},
            2,
            (1, 1, 1, 0),
        ),
        (
            {"parts": 16, "dynamic": False, "prefetch": 8},
            2,
            (16, 2, 1, 8),
        ),
        (
            {"parts": 16, "dynamic": True, "prefetch": 32},
            2,
            (16, 16, 1, 32),
        ),
        (
            {"parts": 2, "dynamic": False, "prefetch": 0},
            8,
            (2, 2, 1, 0),
        ),
        (
            {"parts": 2, "dynamic": False, "prefetch": 0, "slices": 8},
            2,
            (2, 2, 8, 0),
        ),
    ],
)
def test_launch_parameters(changes: dict[str, Any], threads: int, expected: tuple[int, ...]) -> None:
    found = launch_parameters({**SPACE.default, **changes}, threads)
    assert list(found) == ["parts", "tasks", "slices", "prefetch_distance"]
    assert tuple(found.values()) == expected
