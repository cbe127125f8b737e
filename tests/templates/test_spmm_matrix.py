"""g-SpMM kernels against the float64 reference: operators × widths × index types × edge orders × schedules × graphs.

How it is sampled (all seeded). For every width the schedules are, for each of three simulated CPUs (AVX-512, AVX2,
SSE), a covering sample: the default, then schedules until every legal value of every decision has occurred. They are
dealt out in turn to the twelve combinations of operator, index type and edge order, in an order that is shuffled per
width; where there are fewer schedules than combinations more are drawn. Every library so built runs on every odd
graph: once on one thread, and on two threads with every third of the launch parameters (parts, static and dynamic
hand-out, prefetch distance) that some legal schedule gives this code, the next third on the next graph. Inputs are
small integers, whose sums are exact in float32 in any order: the first run must equal the reference rounded to
float32, all others must have the same bits.
"""

from __future__ import annotations

import random
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from tvm_gnn.graph import Graph
from tvm_gnn.ops import OPS
from tvm_gnn.ops.reference import spmm_reference
from tvm_gnn.runtime.library import Library
from tvm_gnn.runtime.spmm_kernel import SpMMFrame
from tvm_gnn.templates import spmm_csr
from tvm_gnn.templates.space import Decisions
from tvm_gnn.testing.buffers import Guarded, at_offset
from tvm_gnn.testing.odd_graphs import ODD_GRAPHS, variant
from tvm_gnn.testing.schedules import TARGETS, covering_sample, launches, spmm_space, values_of

WIDTHS = (1, 2, 3, 7, 16, 31, 32, 33, 64, 127, 128, 129, 257)
INDEX_DTYPES = ("int32", "int64")
# Only edge values have an order; kernels without them are built for one.
COMBINATIONS = [
    (name, index_dtype, edge_order)
    for name, op in OPS.items()
    for index_dtype in INDEX_DTYPES
    for edge_order in (("csr", "edge_ids") if op.uses_edge else ("csr",))
]


class Case(NamedTuple):
    """One library of the matrix and the schedule it was built for."""

    op: str
    feat: int
    index_dtype: str
    edge_order: str
    target: str
    choice: Decisions


@cache
def cases(feat: int) -> list[Case]:
    """The libraries of one width (see the module's text)."""
    rng = random.Random(1000 + feat)
    schedules = [(target, choice) for target in TARGETS for choice in covering_sample(spmm_space(feat, target), rng)]
    while len(schedules) < len(COMBINATIONS):
        target = rng.choice(list(TARGETS))
        schedules.append((target, spmm_space(feat, target).sample(rng)))
    rng.shuffle(schedules)
    dealt = rng.sample(COMBINATIONS, len(COMBINATIONS))
    return [
        Case(op, feat, index_dtype, edge_order, target, choice)
        for i, (target, choice) in enumerate(schedules)
        for op, index_dtype, edge_order in [dealt[i % len(dealt)]]
    ]


class Data(NamedTuple):
    """Inputs at two alignments on one graph, and the exact result."""

    graph: Graph
    inputs: list[tuple[NDArray[Any], NDArray[Any]]]
    exact: NDArray[np.float32]


@cache
def data(graph_name: str, op: str, feat: int, index_dtype: str, edge_order: str) -> Data:
    graph = variant(ODD_GRAPHS[graph_name](), index_dtype, edge_order)
    rng = np.random.default_rng(feat)
    x = rng.choice([-7, -5, -3, -1, 2, 4, 6], (graph.num_src, feat)).astype(np.float32)
    w = rng.choice([-3, -2, -1, 1, 2, 5], graph.num_edges).astype(np.float32)
    inputs = [(at_offset(x, offset), at_offset(w, offset)) for offset in (0, 4)]
    reference = spmm_reference(OPS[op], graph.indptr, graph.indices, graph.edge_ids, x, w)
    return Data(graph, inputs, reference.astype(np.float32))


def mistake(library: Library, case: Case, graph_name: str) -> str | None:
    """What is wrong with a library on a graph; None when every launch is right."""
    known = data(graph_name, case.op, case.feat, case.index_dtype, case.edge_order)
    outputs = [Guarded(known.exact.shape, "float32", offset) for offset in (0, 4)]
    before = [array.tobytes() for pair in known.inputs for array in pair]
    first: NDArray[Any] | None = None
    variants = launches(spmm_space(case.feat, case.target), case.choice, threads=2)
    runs = [(variants[-1], 1)] + [(launch, 2) for launch in variants[list(ODD_GRAPHS).index(graph_name) % 3 :: 3]]
    for i, (launch, threads) in enumerate(runs):
        (x, w), output = known.inputs[i % 2], outputs[i // 2 % 2]
        uses_edge = OPS[case.op].uses_edge
        frame = SpMMFrame(library, known.graph, case.feat, "float32", case.edge_order, uses_edge, launch)
        output.reset()
        frame.run(x.ctypes.data, w.ctypes.data if uses_edge else None, output.array.ctypes.data, threads)
        where = f"{graph_name}, {launch}, {threads} thread(s)"
        if not output.intact():
            return f"{where}: wrote outside its output"
        if first is None:
            first = output.array.copy()
            wrong = np.argwhere(first != known.exact)
            if len(wrong):
                row, column = map(int, wrong[0])
                place = f"first at row {row}, feature {column}"
                got, expected = first[row, column], known.exact[row, column]
                return f"{where}: {len(wrong)} elements differ, {place}: got {got}, expected {expected}"
        elif first.tobytes() != output.array.tobytes():
            return f"{where}: other bits than {runs[0]}"
    if before != [array.tobytes() for pair in known.inputs for array in pair]:
        return f"{graph_name}: wrote to an input"
    return None


@pytest.mark.parametrize("feat", WIDTHS)
def test_kernels_match_the_reference(libraries: Any, feat: int) -> None:
    chosen = cases(feat)
    built = libraries.load(
        [
            {
                "op": case.op,
                "feat": feat,
                "dtype": "float32",
                "index_dtype": case.index_dtype,
                "edge_order": case.edge_order,
                "code": spmm_csr.code_decisions(case.choice),
            }
            for case in chosen
        ]
    )
    mistakes = [
        f"{case}: {wrong}"
        for case, library in zip(chosen, built, strict=True)
        for graph_name in ODD_GRAPHS
        if (wrong := mistake(library, case, graph_name)) is not None
    ]
    data.cache_clear()
    assert not mistakes, f"{len(mistakes)} wrong, first:\n" + "\n".join(mistakes[:5])


@pytest.mark.parametrize("feat", WIDTHS)
def test_the_sample_has_every_combination_and_every_value(feat: int) -> None:
    chosen = cases(feat)
    assert {(case.op, case.index_dtype, case.edge_order) for case in chosen} == set(COMBINATIONS)
    for target in TARGETS:
        sampled = values_of([case.choice for case in chosen if case.target == target])
        assert sampled == values_of(list(spmm_space(feat, target))), target


def test_launches_cover_every_run_time_value() -> None:
    space = spmm_space(64, "avx512")
    prefetching = {**space.default, "prefetch": 8}
    found = launches(space, prefetching, threads=2)
    assert {launch["prefetch_distance"] for launch in found} == {8, 16, 32}
    assert {launch["parts"] for launch in found} == set(next(d for d in space.decisions if d.name == "parts").values)
    assert {(launch["parts"], launch["tasks"]) for launch in found} >= {(1, 1), (2, 2), (16, 16), (64, 64)}
    in_tiles = launches(space, {**prefetching, "order": "tiles", "vectors": 1}, threads=2)
    assert {(launch["parts"], launch["tasks"]) for launch in in_tiles} >= {(16, 2), (16, 16), (64, 2), (64, 64)}
