"""Seeded samples of problems × schedules, the libraries that tests of kernels build, and how each of them is run."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from ..ops import Problem
from ..ops.dims import RowShape
from ..ops.dtypes import DTYPES
from ..templates.launch import code_decisions
from ..templates.space import Decisions
from .odd_graphs import ODD_GRAPHS
from .operands import problem
from .schedules import TARGETS, covering_sample, launches, space_of

SHAPES: tuple[RowShape, ...] = ((1,), (3,), (8,), (33,), (1, 1), (3, 5), (8, 8), (4, 16), (5, 33), (1, 300))
INDEX_DTYPES = ("int32", "int64")
EDGE_ORDERS = ("csr", "edge_ids")
# Options of the attention operators: slopes below 0 and above 1 turn the order of scores around or stretch it. None is
# 0: where thousands of a row's scores are equal, the rounding errors of their sum are too, and add up.
SLOPES = (0.2, 0.01, -0.3, 1.5)
ATTENTION_OPS = tuple(
    f"{name}(negative_slope={slope}, attention={attention})"
    for name, slope, attention in itertools.product(("gat", "gatv2"), SLOPES, (False, True))
)
# Where every value of every decision that shapes the code occurs, for each of `TARGETS`.
_COVERED: dict[str, dict[RowShape, tuple[str, ...]]] = {
    "softmax": {(3,): ("edge_softmax",), (5, 33): ("edge_softmax",)},
    "attention": {(33,): ("gatv2",), (4, 16): ("gat",)},
}
COVERED = [(name, feat, op) for name, shapes in _COVERED.items() for feat, ops in shapes.items() for op in ops]


class Case(NamedTuple):
    """One library: a problem and a schedule of the space of a simulated CPU."""

    problem: Problem
    target: str
    choice: Decisions

    def __repr__(self) -> str:
        fields = " ".join(map(str, self.problem.as_dict().values()))
        return f"{fields} {self.target} {self.choice}"


class Run(NamedTuple):
    """One launch of a library on a graph."""

    launch: dict[str, int]
    threads: int


def runs(case: Case) -> dict[str, list[Run]]:
    """Launches by odd graph.

    One on one thread, and on two threads every eighth of the launch parameters (parts, static and dynamic hand-out,
    prefetch distance) that some legal schedule gives the case's code, the next eighth on the next graph.
    """
    variants = launches(space_of(case.problem, case.target), case.choice, threads=2)
    return {
        graph: [Run(variants[-1], 1), *(Run(launch, 2) for launch in variants[i % 8 :: 8])]
        for i, graph in enumerate(ODD_GRAPHS)
    }


def softmax_cases(feat: RowShape) -> list[Case]:
    """Edge softmax in every dtype."""
    return _cases(feat, ["edge_softmax"] * len(DTYPES), _COVERED["softmax"].get(feat, ()))


def attention_cases(feat: RowShape) -> list[Case]:
    """Every second variant of GAT and GATv2, the others at the next shape."""
    at = SHAPES.index(feat)
    names = [name for i, name in enumerate(ATTENTION_OPS) if (i + i // 2 + at) % 2 == 0]
    return _cases(feat, names, _COVERED["attention"].get(feat, ()))


# Of the primitives, all cases of each by the shape of features.
CASES: dict[str, Callable[[RowShape], list[Case]]] = {
    "softmax": softmax_cases,
    "attention": attention_cases,
}


def _cases(feat: RowShape, ops: Sequence[str], covered: Iterable[str]) -> list[Case]:
    """A drawn schedule of each operator, then schedules that cover the spaces of `covered`; one seed for each shape."""
    rng = random.Random(f"{feat} {ops[0]}")
    every = list(itertools.product(INDEX_DTYPES, EDGE_ORDERS))
    rng.shuffle(every)
    drawn = []
    for i, op in enumerate(ops):
        index_dtype, edge_order = every[i % len(every)]
        dtype = DTYPES[(i + i // len(DTYPES) + SHAPES.index(feat)) % len(DTYPES)]
        what = problem(op, feat, dtype, index_dtype, edge_order)
        target = list(TARGETS)[i % len(TARGETS)]
        drawn.append(Case(what, target, space_of(what, target).sample(rng)))
    for op, target in itertools.product(covered, TARGETS):
        what = problem(op, feat, "float32", *rng.choice(every))
        sample = covering_sample(space_of(what, target), rng)
        # Schedules of one code differ in their launches only, which `runs` goes through.
        by_code = {str(code_decisions(choice)): choice for choice in sample}
        drawn += [Case(what, target, choice) for choice in by_code.values()]
    return drawn
