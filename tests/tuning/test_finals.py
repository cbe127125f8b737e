"""The final comparison, on a runner with invented times."""

from __future__ import annotations

from pathlib import Path

import pytest

from tvm_gnn.templates.space import Decisions
from tvm_gnn.tuning.finals import Final, pick_winner
from tvm_gnn.tuning.runner import RunResult
from tvm_gnn.tuning.task import Task

ROUNDS = 10


class FakeRunner:
    """Serves times by library; a library without times fails."""

    def __init__(self, times_s: dict[str, list[float]], fails_together: bool = False) -> None:
        self._times_s = times_s
        self._fails_together = fails_together
        self.compared: list[int] = []

    def run(self, library: Path, launch: dict[str, int]) -> RunResult:
        if library.name in self._times_s:
            return RunResult(self._times_s[library.name])
        return RunResult(status="crash", reason="it crashed")

    def compare(self, candidates: list[tuple[Path, dict[str, int]]]) -> list[list[float]] | RunResult:
        self.compared.append(len(candidates))
        names = [library.name for library, _ in candidates]
        if not set(names) <= set(self._times_s) or (self._fails_together and len(names) > 1):
            return RunResult(status="crash", reason="it crashed")
        return [self._times_s[name] for name in names]


@pytest.fixture
def finalists(task: Task) -> dict[str, Decisions]:
    default = task.space.default
    others = [choice for choice in task.space if choice != default]
    return {"default": default, "a": others[0], "b": others[-1]}


def winner(task: Task, finalists: dict[str, Decisions], runner: FakeRunner) -> str | None:
    candidates = [(choice, Path(name)) for name, choice in finalists.items()]
    final = pick_winner(candidates, task, runner)  # type: ignore[arg-type]
    if isinstance(final, RunResult):
        return None
    assert final.decisions == finalists[final.library.name]
    assert final.speedup == pytest.approx(final.default_ms / final.best_ms)
    return final.library.name


def constant(seconds: float) -> list[float]:
    return [seconds] * ROUNDS


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        (constant(1.0), constant(1.0), "default"),
        (constant(2.0), constant(3.0), "default"),
        (constant(0.995), constant(0.999), "default"),  # less than 1 % is noise
        (constant(0.5), constant(0.7), "a"),
        (constant(0.7), constant(0.5), "b"),
        (constant(0.98), constant(1.0), "a"),
        # Half of the rounds won, however clearly, are no majority.
        ([0.1] * 5 + [1.1] * 5, constant(2.0), "default"),
        ([0.1] * 6 + [1.1] * 4, constant(2.0), "a"),
        # The fastest single round does not count, the median does.
        ([0.01] + [0.9] * 9, constant(0.8), "b"),
    ],
)
def test_the_default_wins_unless_clearly_beaten(
    task: Task, finalists: dict[str, Decisions], a: list[float], b: list[float], expected: str
) -> None:
    runner = FakeRunner({"default": constant(1.0), "a": a, "b": b})
    assert winner(task, finalists, runner) == expected


def test_a_win_reports_medians(task: Task, finalists: dict[str, Decisions]) -> None:
    runner = FakeRunner({"default": [4.0, 1.0, 2.0], "a": [1.0, 0.5, 9.0], "b": constant(3.0)[:3]})
    final = pick_winner([(c, Path(n)) for n, c in finalists.items()], task, runner)  # type: ignore[arg-type]
    assert isinstance(final, Final)
    assert (final.library.name, final.best_ms, final.default_ms, final.speedup) == ("a", 1000.0, 2000.0, 2.0)


def test_default_alone_has_speedup_one(task: Task) -> None:
    final = pick_winner([(task.space.default, Path("default"))], task, FakeRunner({"default": constant(2.0)}))  # type: ignore[arg-type]
    assert isinstance(final, Final)
    assert final.speedup == 1.0


def test_failing_finalist_is_left_out(task: Task, finalists: dict[str, Decisions]) -> None:
    runner = FakeRunner({"default": constant(1.0), "b": constant(0.5)})
    assert winner(task, finalists, runner) == "b"
    assert runner.compared == [3, 2]


def test_finalists_that_fail_only_together_leave_the_default(task: Task, finalists: dict[str, Decisions]) -> None:
    times = {"default": constant(1.0), "a": constant(0.5), "b": constant(0.5)}
    assert winner(task, finalists, FakeRunner(times, fails_together=True)) == "default"


@pytest.mark.parametrize("names", [["default"], ["default", "a", "b"]])
@pytest.mark.parametrize("times", [{}, {"a": constant(0.5), "b": constant(0.4)}])
def test_failing_default_leaves_its_reason(
    task: Task, finalists: dict[str, Decisions], times: dict[str, list[float]], names: list[str]
) -> None:
    candidates = [(finalists[name], Path(name)) for name in names]
    final = pick_winner(candidates, task, FakeRunner(times))  # type: ignore[arg-type]
    assert final == RunResult(status="crash", reason="it crashed")
