"""Budgets: what is read as a time or a number of trials, what is refused, what is left."""

from __future__ import annotations

import math
import time

import pytest

from tvm_gnn.errors import InputError, InputTypeError
from tvm_gnn.tuning.budget import Budget, parse_budget


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("60s", 60.0),
        ("60", 60.0),
        (" 1.5 s ", 1.5),
        (".5s", 0.5),
        ("500ms", 0.5),
        ("2m", 120.0),
        ("2min", 120.0),
        ("1h", 3600.0),
        (60, 60.0),
        (0.25, 0.25),
        (60.0 / 7, 60.0 / 7),
        (1e-5, 1e-5),
        (1e17, 1e17),
    ],
)
def test_times(text: str | float, seconds: float) -> None:
    budget = parse_budget(text)
    assert budget.seconds == pytest.approx(seconds)
    assert budget.trials is None


@pytest.mark.parametrize(
    "text",
    [
        *("", "s", "0", "0s", "-1", "-1s", "abc", "nan", "inf", "1d", "1 2s", "1,5s", "60S", "6" * 400),
        *(0, -1, 0.0, -0.5, math.nan, math.inf, -math.inf),
    ],
)
def test_times_that_are_none(text: str | float) -> None:
    with pytest.raises(InputError, match=r"^budget: must be (a )?positive.*\(got "):
        parse_budget(text)


@pytest.mark.parametrize("value", [True, b"60s", [60], 60j])
def test_budget_of_another_type(value: object) -> None:
    with pytest.raises(InputTypeError, match=f"^budget: .*got {type(value).__name__}"):
        parse_budget(value)  # type: ignore[arg-type]


@pytest.mark.parametrize("trials", [0, -1, -(10**9)])
def test_trials_out_of_range(trials: int) -> None:
    with pytest.raises(InputError, match=rf"^trials: must be at least 1 \(got {trials}\)"):
        parse_budget(None, trials)


@pytest.mark.parametrize("trials", [True, 1.0, "8"])
def test_trials_of_another_type(trials: object) -> None:
    with pytest.raises(InputTypeError, match=r"^trials: must be an integer"):
        parse_budget("1s", trials)  # type: ignore[arg-type]


def test_one_of_the_two_is_needed() -> None:
    with pytest.raises(InputError, match=r"^budget: give a time"):
        parse_budget(None)


def test_what_is_left() -> None:
    untimed = parse_budget(None, 5)
    assert untimed.left_s() == math.inf
    assert [untimed.trials_left(done) for done in (0, 3, 5, 9)] == [5, 2, 0, 0]
    timed = parse_budget("1h")
    assert timed.trials_left(10**6) > 10**6
    time.sleep(0.01)
    assert timed.elapsed_s() >= 0.01
    assert 3000 < timed.left_s() <= 3600 - 0.01
    assert Budget(0.001, None, time.monotonic() - 1).left_s() < 0
