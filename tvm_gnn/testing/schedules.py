"""A sample of schedules in which every legal value of every decision occurs, for several kinds of CPU."""

from __future__ import annotations

import random
from collections.abc import Mapping

from ..ops import Problem
from ..templates.launch import code_decisions, launch_parameters
from ..templates.registry import template_of
from ..templates.space import Counts, Decisions, Space, Value
from ..toolchain.target import CpuTarget

# Whatever CPU the tests run on, LLVM cuts vectors that are too wide for it: schedules of all three can be run anywhere.
TARGETS: dict[str, CpuTarget] = {
    "avx512": CpuTarget("simulated avx512", vector_bytes=64, vector_registers=32, threads=2),
    "avx2": CpuTarget("simulated avx2", vector_bytes=32, vector_registers=16, threads=2),
    "sse": CpuTarget("simulated sse", vector_bytes=16, vector_registers=16, threads=2),
}
# Rows long enough for every number of slices; what else is legal does not depend on the counts.
_COUNTS = Counts(num_dst=1_000, num_src=1_000, num_edges=1_000_000)


def space_of(problem: Problem, target: str = "avx512") -> Space:
    """The space of a problem on one of `TARGETS`."""
    return template_of(problem).space(problem, TARGETS[target], _COUNTS)


def values_of(choices: list[Decisions]) -> set[tuple[str, Value]]:
    """Every (decision, value) that occurs in some of the schedules."""
    return {item for choice in choices for item in choice.items()}


def covering_sample(space: Space, rng: random.Random) -> list[Decisions]:
    """The default schedule and then, until every legal value of every decision occurs, the one with most new values.

    Ties are broken by `rng`, so that another seed gives other combinations.
    """
    legal = list(space)
    rng.shuffle(legal)
    sample = [space.default]
    missing = values_of(legal) - values_of(sample)
    while missing:
        best = max(legal, key=lambda choice: len(missing & set(choice.items())))
        sample.append(best)
        missing -= set(best.items())
    return sample


def launches(space: Space, choice: Mapping[str, Value], threads: int) -> list[dict[str, int]]:
    """Launch parameters of every legal schedule that shares the code of `choice`, each once."""
    code = code_decisions(choice)
    alike = (other for other in space if code_decisions(other) == code)
    distinct = {tuple(launch_parameters(other, threads).items()) for other in alike}
    return [dict(items) for items in sorted(distinct)]
