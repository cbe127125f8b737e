"""A schedule space: named decisions with their values and a rule that says which combinations are legal."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from ..errors import InputError


class Counts(NamedTuple):
    """Sizes of a graph."""

    num_dst: int
    num_src: int
    num_edges: int


Value: TypeAlias = int | str | bool
Decisions: TypeAlias = dict[str, Value]


@dataclass(frozen=True)
class Decision:
    """One choice a schedule makes.

    Attributes
    ----------
    name : str
        The key in `Decisions`.
    values : tuple
        What may be chosen, in a natural order.
    """

    name: str
    values: tuple[Value, ...]


@dataclass(frozen=True)
class Space:
    """All schedules of one template for one task.

    Attributes
    ----------
    decisions : tuple of Decision
    default : dict
        A good schedule that needs no search; legal.
    legal : callable
        Whether a full set of decisions may be built; no two legal sets mean the same kernel.
    """

    decisions: tuple[Decision, ...]
    default: Decisions
    legal: Callable[[Mapping[str, Value]], bool] = field(repr=False)

    def __iter__(self) -> Iterator[Decisions]:
        """Every legal set of decisions, in a fixed order."""
        names = [decision.name for decision in self.decisions]
        for values in itertools.product(*(decision.values for decision in self.decisions)):
            choice = dict(zip(names, values, strict=True))
            if self.legal(choice):
                yield choice

    def sample(self, rng: random.Random) -> Decisions:
        """A uniformly drawn legal set of decisions."""
        while True:
            choice = {decision.name: rng.choice(decision.values) for decision in self.decisions}
            if self.legal(choice):
                return choice

    def moved(self, choice: Mapping[str, Value], name: str, value: Value, rng: random.Random) -> Decisions | None:
        """`choice` with one decision changed, and a second where the rule asks for it; None when two are not enough.

        Without the second one a decision that is tied to another (dynamic hand-out to many parts) could never move.
        """
        changed: Decisions = {**choice, name: value}
        if self.legal(changed):
            return changed
        repaired = [
            {**changed, other.name: second}
            for other in self.decisions
            if other.name != name
            for second in other.values
            if second != choice[other.name] and self.legal({**changed, other.name: second})
        ]
        return rng.choice(repaired) if repaired else None

    def check(self, choice: Mapping[str, Value]) -> Decisions:
        """The decisions in their natural order; raises `InputError` when they are not of this space."""
        if set(choice) != {decision.name for decision in self.decisions}:
            expected = ", ".join(decision.name for decision in self.decisions)
            raise InputError(f"decisions: must name exactly {expected} (got {', '.join(choice) or 'none'}).")
        for decision in self.decisions:
            if choice[decision.name] not in decision.values:
                raise InputError(f"{decision.name}: must be one of {decision.values} (got {choice[decision.name]!r}).")
        if not self.legal(choice):
            raise InputError(f"decisions: not a legal combination (got {dict(choice)}).")
        return {decision.name: choice[decision.name] for decision in self.decisions}
