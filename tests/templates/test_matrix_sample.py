"""What the matrices run, all together."""

from __future__ import annotations

import pytest

from tvm_gnn.ops.dims import RowShape
from tvm_gnn.templates.launch import code_decisions
from tvm_gnn.testing.cases import CASES, COVERED, SHAPES, runs
from tvm_gnn.testing.schedules import TARGETS, space_of, values_of


def test_there_are_thousands_of_combinations() -> None:
    """Of library, graph and launch; those of g-SpMM come on top."""
    cases = [case for cases_of in CASES.values() for feat in SHAPES for case in cases_of(feat)]
    assert sum(len(each) for case in cases for each in runs(case).values()) > 5000


@pytest.mark.parametrize(("name", "feat", "op"), COVERED, ids=str)
def test_every_value_of_every_decision_is_built(name: str, feat: RowShape, op: str) -> None:
    for target in TARGETS:
        chosen = [
            case
            for case in CASES[name](feat)
            if (case.problem.op.name, case.problem.dtype, case.target) == (op, "float32", target)
        ]
        legal = [code_decisions(choice) for choice in space_of(chosen[-1].problem, target)]
        assert values_of([code_decisions(case.choice) for case in chosen]) >= values_of(legal), target


def test_some_graph_sees_every_launch() -> None:
    case = CASES["attention"]((8, 8))[0]
    every = runs(case)
    assert {each.threads for graph in every.values() for each in graph} == {1, 2}
    parts = next(each for each in space_of(case.problem, case.target).decisions if each.name == "parts")
    assert {each.launch["parts"] for graph in every.values() for each in graph} == set(parts.values)
