"""Which schedules to try next: MetaSchedule's evolutionary search led by the cost model, and random sampling."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable
from typing import Protocol

from ..templates.space import Decisions, Space, Value
from .cost_model import CostModel
from .evolution import Evolution
from .task import Task

Frozen = tuple[Value, ...]

BATCH = 16
FIRST_BATCH = 8
FIRST_TRIALS = 40


class Search(Protocol):
    """Proposes candidates and learns from their times."""

    def propose(self, count: int) -> list[Decisions]:
        """Up to `count` candidates never proposed before; empty when the space is exhausted."""

    def observe(self, choices: list[Decisions], seconds: list[float | None], default_s: float) -> None:
        """The times of proposed candidates, None for a failed one."""

    def skip(self, choices: Iterable[Decisions]) -> None:
        """Candidates that need no proposing: they were measured already."""


class RandomSearch:
    """Uniform sampling without repetition: the baseline any search has to beat."""

    def __init__(self, space: Space, seed: int = 0) -> None:
        self._space = space
        self._rng = random.Random(seed)
        self._seen: set[Frozen] = set()

    def propose(self, count: int) -> list[Decisions]:
        """See `Search`."""
        return fresh_samples(self._space, self._rng, self._seen, count)

    def observe(self, choices: list[Decisions], seconds: list[float | None], default_s: float) -> None:
        """Learns nothing."""

    def skip(self, choices: Iterable[Decisions]) -> None:
        """See `Search`."""
        self._seen.update(frozen(choice) for choice in choices)


class EvolutionarySearch:
    """MetaSchedule's `EvolutionarySearch` over the decisions of a space, scored by our own cost model.

    The first batch is half the default's neighbourhood and half random; from then on a population of random and best
    measured schedules is mutated, the model picks, and a share of the picks stays random.

    Parameters
    ----------
    task : Task
    model : CostModel
        Fitted here on what is observed.
    seed : int
        Same seed and same times give the same candidates.
    """

    def __init__(self, task: Task, model: CostModel, seed: int = 0) -> None:
        self._task = task
        self._model = model
        self._seed = seed
        self._rng = random.Random(seed)
        self._seen: set[Frozen] = set()
        self._measured: list[tuple[Decisions, float]] = []
        self._evolution: Evolution | None = None

    def propose(self, count: int) -> list[Decisions]:
        """See `Search`."""
        space = self._task.space
        if not self._model.is_trained:
            near = neighbours(space, space.default, self._rng)
            chosen = self._take(near, count // 2)
            return chosen + fresh_samples(space, self._rng, self._seen, count - len(chosen))
        if self._evolution is None:
            self._evolution = Evolution(
                self._task, self._model, self._seed, max(count, BATCH), lambda choice: frozen(choice) in self._seen
            )
        explore = max(1, count // 8)
        chosen = self._take(self._evolution.generate(self._measured), count - explore)
        return chosen + fresh_samples(space, self._rng, self._seen, count - len(chosen))

    def observe(self, choices: list[Decisions], seconds: list[float | None], default_s: float) -> None:
        """See `Search`."""
        self._model.add(choices, [None if s is None else default_s / s for s in seconds])
        self._model.fit()
        self._measured += [(c, s) for c, s in zip(choices, seconds, strict=True) if s is not None]

    def skip(self, choices: Iterable[Decisions]) -> None:
        """See `Search`."""
        self._seen.update(frozen(choice) for choice in choices)

    def _take(self, choices: Iterable[Decisions], count: int) -> list[Decisions]:
        taken: list[Decisions] = []
        for choice in choices:
            if len(taken) == count:
                break
            if frozen(choice) not in self._seen:
                self._seen.add(frozen(choice))
                taken.append(choice)
        return taken


def frozen(choice: Decisions) -> Frozen:
    """The decisions as a hashable value, whatever order they are in: a record's are sorted by name."""
    return tuple(value for _, value in sorted(choice.items()))


def neighbours(space: Space, choice: Decisions, rng: random.Random) -> list[Decisions]:
    """The schedules one move (`Space.moved`) away from `choice`, each decision in turn, in random order.

    Any first few of them so try many decisions rather than many values of one.
    """
    moves: list[list[Decisions]] = []
    for decision in space.decisions:
        of_decision = [
            found
            for value in decision.values
            if value != choice[decision.name]
            for found in [space.moved(choice, decision.name, value, rng)]
            if found is not None
        ]
        rng.shuffle(of_decision)
        moves.append(of_decision)
    rng.shuffle(moves)
    in_turn = [found for row in itertools.zip_longest(*moves) for found in row if found is not None]
    return list({frozen(found): found for found in in_turn}.values())


def batch_size(finished: int) -> int:
    """Candidates to propose at once after so many trials: few while every time teaches the model much."""
    return FIRST_BATCH if finished < FIRST_TRIALS else BATCH


def fresh_samples(space: Space, rng: random.Random, seen: set[Frozen], count: int) -> list[Decisions]:
    """Up to `count` uniform samples that are not in `seen`, which grows by them."""
    samples: list[Decisions] = []
    for _ in range(50 * count):
        if len(samples) == count:
            return samples
        choice = space.sample(rng)
        if frozen(choice) not in seen:
            seen.add(frozen(choice))
            samples.append(choice)
    # Nearly everything was seen: go through the space instead of guessing.
    for choice in space:
        if len(samples) == count:
            break
        if frozen(choice) not in seen:
            seen.add(frozen(choice))
            samples.append(choice)
    return samples
