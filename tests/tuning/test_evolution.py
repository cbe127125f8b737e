"""The bridge to MetaSchedule: decisions survive the trip through a trace, and the workload has static shapes."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

import pytest

from tvm_gnn import Graph
from tvm_gnn.templates.space import Decisions
from tvm_gnn.tuning.evolution import decisions_of, replay, sample, trace_json
from tvm_gnn.tuning.task import Task


@pytest.fixture(scope="module")
def module(task: Task) -> Any:
    return task.static_module()


def schedule(module: Any) -> Any:
    from tvm.s_tir import Schedule

    return Schedule(module)


def draws(task: Task, count: int = 25) -> list[Decisions]:
    rng = random.Random(0)
    return [task.space.default, *(task.space.sample(rng) for _ in range(count))]


def test_decisions_survive_a_trace(task: Task, module: Any) -> None:
    for choice in draws(task):
        sch = schedule(module)
        sample(sch, task.space, choice)
        assert decisions_of(sch.trace, task.space) == choice


def test_free_sampling_stays_among_the_values(task: Task, module: Any) -> None:
    found = []
    for _ in range(20):
        sch = schedule(module)
        sample(sch, task.space)
        found.append(decisions_of(sch.trace, task.space))
    for decision in task.space.decisions:
        assert {choice[decision.name] for choice in found} <= set(decision.values)
    assert len({tuple(choice.values()) for choice in found}) > 5


def test_every_decision_is_noted_on_the_root_block(task: Task, module: Any) -> None:
    choice = draws(task)[-1]
    sch = schedule(module)
    sample(sch, task.space, choice)
    root = sch.get(sch.get_sblock("root"))
    noted = {
        decision.name: decision.values[int(root.annotations[f"tvm_gnn.{decision.name}"])]
        for decision in task.space.decisions
    }
    assert noted == choice


def test_traces_are_plain_and_replay_on_other_shapes(task: Task, module: Any, make: Callable[..., Task]) -> None:
    other = make(graph=Graph.from_coo([0, 1, 2], [0, 0, 4], num_src=3, num_dst=5)).static_module()
    for choice in draws(task, 5):
        trace = trace_json(module, task.space, choice)
        assert json.loads(json.dumps(trace)) == trace
        assert replay(trace, module, task.space) == choice
        assert replay(trace, other, task.space) == choice


@pytest.mark.parametrize("op", ["copy_u_mean", "u_mul_e_sum"])
def test_static_module_has_static_shapes(make: Callable[..., Task], op: str) -> None:
    from tvm.tirx import IntImm

    for feat in (1, 7, 128):
        function = make(op, feat).static_module()["main"]
        assert all(isinstance(dim, IntImm) for buffer in function.params for dim in buffer.shape)
        sizes = {buffer.name: [int(dim) for dim in buffer.shape] for buffer in function.params}
        assert sizes["indptr"] == [35]
        assert sizes["indices"] == [156]
        assert sizes["x"] == sizes["y"] == [34, feat]
