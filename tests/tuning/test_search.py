"""Searches: nothing twice, everything once, repeatable by their seed, and better than chance."""

from __future__ import annotations

import json
import os
import random
import statistics
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import tvm_gnn
from tvm_gnn.templates.space import Decisions
from tvm_gnn.tuning.cost_model import CostModel
from tvm_gnn.tuning.search import (
    BATCH,
    EvolutionarySearch,
    RandomSearch,
    Search,
    batch_size,
    fresh_samples,
    frozen,
    neighbours,
)
from tvm_gnn.tuning.task import Task

Cost = Callable[[Decisions], float | None]
SEARCHES: dict[str, Callable[[Task, int], Search]] = {
    "random": lambda task, seed: RandomSearch(task.space, seed),
    "evolutionary": lambda task, seed: EvolutionarySearch(task, CostModel(task, seed), seed),
}


def explore(search: Search, task: Task, cost: Cost, trials: int, batch: int = BATCH) -> list[Decisions]:
    """What a search proposes, batch by batch, when it is told the cost."""
    proposed: list[Decisions] = []
    default_s = cost(task.space.default)
    assert default_s is not None
    while len(proposed) < trials:
        choices = search.propose(min(batch, trials - len(proposed)))
        if not choices:
            break
        proposed += choices
        search.observe(choices, [cost(choice) for choice in choices], default_s)
    return proposed


@pytest.fixture(scope="module")
def small(make: Callable[..., Task]) -> Task:
    """About a hundred schedules."""
    return make(feat=1)


@pytest.mark.parametrize("name", SEARCHES)
def test_small_space_is_exhausted_without_repetition(name: str, small: Task, cost_s: Cost) -> None:
    search = SEARCHES[name](small, 0)
    members = list(small.space)
    assert 30 < len(members) < 200
    proposed = explore(search, small, cost_s, trials=10_000)
    assert len(proposed) == len(members)
    assert {frozen(choice) for choice in proposed} == {frozen(choice) for choice in members}
    assert search.propose(BATCH) == []


@pytest.mark.parametrize("name", SEARCHES)
def test_proposals_are_legal_distinct_and_not_skipped(name: str, wide: Task, cost_s: Cost) -> None:
    search = SEARCHES[name](wide, 3)
    members = list(wide.space)
    skipped = members[::2]
    search.skip(skipped)
    proposed = explore(search, wide, cost_s, trials=64)
    assert len(proposed) == 64
    assert all(wide.space.check(choice) == choice for choice in proposed)
    assert len({frozen(choice) for choice in proposed}) == 64
    assert not {frozen(choice) for choice in proposed} & {frozen(choice) for choice in skipped}


@pytest.mark.parametrize("name", SEARCHES)
def test_all_skipped_leaves_nothing(name: str, small: Task) -> None:
    search = SEARCHES[name](small, 0)
    search.skip(list(small.space))
    assert search.propose(BATCH) == []


@pytest.mark.parametrize("name", SEARCHES)
def test_seed_decides(name: str, wide: Task, cost_s: Cost) -> None:
    def run(seed: int) -> list[Decisions]:
        return explore(SEARCHES[name](wide, seed), wide, cost_s, trials=48)

    assert run(1) == run(1)
    assert run(1) != run(2)


def test_seed_decides_across_processes(wide: Task, tmp_path: Path) -> None:
    # Hashes of strings differ between the processes; nothing may depend on them.
    code = """
import json
from tvm_gnn import datasets
from tvm_gnn.compile import make_task
from tvm_gnn.tuning.cost_model import CostModel
from tvm_gnn.tuning.search import EvolutionarySearch
task = make_task(datasets.load("karate"), "u_mul_e_sum", 128, threads=2)
search = EvolutionarySearch(task, CostModel(task, 5), 5)
proposed = []
for _ in range(3):
    batch = search.propose(16)
    proposed += batch
    search.observe(batch, [1e-4 * (1 + sum(map(len, map(str, c.values())))) for c in batch], 1e-3)
print(json.dumps(proposed))
"""

    def run(hash_seed: str) -> list[Decisions]:
        root = str(Path(tvm_gnn.__file__).parents[1])
        environment = {**os.environ, "PYTHONPATH": root, "PYTHONHASHSEED": hash_seed}
        done = subprocess.run(
            [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True, timeout=120
        )
        found: list[Decisions] = json.loads(done.stdout)
        return found

    first = run("1")
    assert len(first) == 48
    assert first == run("2")


def test_evolutionary_beats_random_at_equal_trials(wide: Task, cost_s: Cost) -> None:
    def found(name: str, seed: int) -> float:
        proposed = explore(SEARCHES[name](wide, seed), wide, cost_s, trials=64)
        return min(cost for choice in proposed if (cost := cost_s(choice)) is not None)

    seeds = range(5)
    by_chance = statistics.median(found("random", seed) for seed in seeds)
    evolved = statistics.median(found("evolutionary", seed) for seed in seeds)
    best = min(cost for choice in wide.space if (cost := cost_s(choice)) is not None)
    assert evolved < by_chance
    assert evolved <= 1.05 * best


def test_failed_candidates_are_avoided(wide: Task, cost_s: Cost) -> None:
    def fails(choice: Decisions) -> bool:
        return int(choice["prefetch"]) > 0

    members = list(wide.space)
    assert sum(map(fails, members)) > 0.7 * len(members)
    proposed = explore(
        SEARCHES["evolutionary"](wide, 0), wide, lambda choice: None if fails(choice) else cost_s(choice), trials=96
    )
    assert sum(map(fails, proposed[BATCH:])) < 0.35 * len(proposed[BATCH:])


def test_first_batch_looks_around_the_default(wide: Task) -> None:
    search = SEARCHES["evolutionary"](wide, 0)
    search.skip([wide.space.default])
    batch = search.propose(BATCH)
    default = wide.space.default
    differing = [sum(choice[name] != default[name] for name in default) for choice in batch]
    assert max(differing[: BATCH // 2]) <= 2
    assert max(differing) > 2


def test_neighbours_reach_every_value_of_every_decision(wide: Task) -> None:
    space = wide.space
    # A serial schedule has nothing to hand out, so it is two decisions away from a dynamic one.
    default = {**space.default, "parts": max(choice["parts"] for choice in space), "dynamic": True}
    assert space.legal(default)
    found = neighbours(space, default, random.Random(0))
    assert len({frozen(choice) for choice in found}) == len(found)
    assert all(space.legal(choice) for choice in found)
    single = {frozen(choice) for choice in space if sum(choice[k] != default[k] for k in default) == 1}
    assert single <= {frozen(choice) for choice in found}
    for decision in space.decisions:
        moved = {choice[decision.name] for choice in found} | {default[decision.name]}
        assert moved == {choice[decision.name] for choice in space}


def test_first_neighbours_try_many_decisions(wide: Task) -> None:
    space = wide.space
    first = neighbours(space, space.default, random.Random(3))[:6]
    touched = {name for choice in first for name in choice if choice[name] != space.default[name]}
    assert len(touched) >= 6


def test_first_batches_are_small() -> None:
    assert batch_size(0) < batch_size(1000) == BATCH


def test_fresh_samples_notes_what_it_gave(small: Task) -> None:
    seen = {frozen(small.space.default)}
    samples = fresh_samples(small.space, random.Random(0), seen, 5)
    assert len(samples) == 5
    assert len(seen) == 6
    assert {frozen(choice) for choice in samples} <= seen


def test_frozen_ignores_the_order_of_names(wide: Task) -> None:
    default = wide.space.default
    assert frozen(default) == frozen(dict(sorted(default.items())))
    assert frozen(default) != frozen({**default, "unroll": 4})
