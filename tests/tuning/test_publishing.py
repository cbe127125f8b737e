"""For whom the winner of a run is stored: callers of its edge order, and of the other one where that is safe."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tvm_gnn import Graph
from tvm_gnn.compile import make_task
from tvm_gnn.templates.space import Decisions
from tvm_gnn.tuning.report import TuneReport
from tvm_gnn.tuning.runner import RunResult
from tvm_gnn.tuning.task import Task
from tvm_gnn.untuned import artifact_store

Tune = Callable[..., TuneReport]
OP, FEAT = "u_mul_e_sum", 128  # what `tune` tunes


@pytest.mark.parametrize("edge_order", ["caller", "csr"])
def test_the_schedule_serves_both_edge_orders(machine: Any, tune: Tune, karate: Graph, edge_order: str) -> None:
    src, dst = karate.indices, np.repeat(np.arange(34), karate.in_degrees)
    shuffled = np.random.default_rng(0).permutation(karate.num_edges)
    unsorted = Graph.from_coo(src[shuffled], dst[shuffled], num_src=34, num_dst=34)
    report = tune(unsorted, edge_order=edge_order)
    tasks = [make_task(unsorted, OP, FEAT, edge_order=order) for order in ("caller", "csr")]
    assert {task.kernel_edge_order for task in tasks} == {"edge_ids", "csr"}
    artifacts = [artifact_store().lookup(task.key, unsorted.signature.exact) for task in tasks]
    assert [artifact and artifact.decisions for artifact in artifacts] == [report.decisions] * 2
    assert machine.checks == [report.decisions]


def test_a_schedule_tuned_for_its_own_edge_order_is_kept(machine: Any, tune: Tune, karate: Graph) -> None:
    other = make_task(karate, OP, FEAT).other_edge_order()
    assert other is not None
    own = tune(other.graph)
    machine.seconds = lambda choice: 1.0 if choice["parts"] == 1 else 0.5 if choice["unroll"] == 4 else 0.9
    tune(karate)
    kept = artifact_store().lookup(other.key, karate.signature.exact)
    assert kept is not None
    assert (str(kept.path), kept.extra["edge_order"]) == (own.artifact, "edge_ids")


def test_a_wrong_kernel_for_the_other_edge_order_is_not_kept(machine: Any, tune: Tune, karate: Graph) -> None:
    machine.check = lambda choice: RunResult(status="wrong", reason="row 3")
    report = tune(karate)
    other = make_task(karate, OP, FEAT).other_edge_order()
    assert other is not None
    assert artifact_store().lookup(other.key, karate.signature.exact) is None
    assert report.artifact is not None
    assert any("other edge order: wrong: row 3" in warning for warning in report.warnings)


def test_interrupt_while_the_other_edge_order_is_checked_keeps_the_winner(
    machine: Any, tune: Tune, karate: Graph, wide: Task
) -> None:
    def check(choice: Decisions) -> None:
        raise KeyboardInterrupt

    machine.check = check
    report = tune(karate)
    kept = artifact_store().lookup(wide.key, karate.signature.exact)
    assert kept is not None
    assert (report.interrupted, report.artifact) == (True, str(kept.path))
    assert machine.open == 0
