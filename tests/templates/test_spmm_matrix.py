"""g-SpMM kernels against the float64 reference: operators × widths × index types × edge orders × schedules × graphs.

How it is sampled (all seeded). For every width each combination of operator, index type and edge order gets a schedule
drawn from the space of a simulated CPU (AVX-512, AVX2, SSE in turn), with edge values of a drawn width (one per edge,
per head, per feature), a quarter of them in float64; and for each CPU a covering sample of the plain space follows: the
default, then schedules until every legal value of every decision has occurred. Every library so built runs on every
odd graph: once on one thread, and on two threads with every third of the launch parameters (parts, static and dynamic
hand-out, prefetch distance) that some legal schedule gives this code, the next third on the next graph. Inputs are
small numbers, whose sums are exact in any order: the first run must equal the reference rounded to the dtype, all
others must have the same bits.
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
DTYPES = ("float32", "float64")
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
    edge_width: int
    dtype: str
    index_dtype: str
    edge_order: str
    target: str
    choice: Decisions


def edge_widths(op: str, feat: int) -> list[int]:
    """What the operator may read per edge: one number, one per head of two or four, one per feature."""
    if not OPS[op].uses_edge:
        return [1]
    if not OPS[op].uses_src:
        return [feat]
    return sorted({1, feat} | {heads for heads in (2, 4) if feat % heads == 0})


@cache
def cases(feat: int) -> list[Case]:
    """The libraries of one width (see the module's text)."""
    rng = random.Random(1000 + feat)
    drawn: list[Case] = []
    for i, (op, index_dtype, edge_order) in enumerate(rng.sample(COMBINATIONS, len(COMBINATIONS))):
        target, dtype = list(TARGETS)[i % len(TARGETS)], DTYPES[rng.random() < 0.25]
        width = rng.choice(edge_widths(op, feat))
        choice = spmm_space(feat, target, dtype, width).sample(rng)
        drawn.append(Case(op, feat, width, dtype, index_dtype, edge_order, target, choice))
    # Every legal value of every decision of the plain space occurs, on an operator that takes part in it.
    for target in TARGETS:
        for choice in covering_sample(spmm_space(feat, target), rng):
            op, index_dtype, edge_order = rng.choice(COMBINATIONS)
            if OPS[op].uses_src:
                drawn.append(Case(op, feat, 1, "float32", index_dtype, edge_order, target, choice))
            else:
                drawn.append(Case("copy_u_sum", feat, 1, "float32", index_dtype, "csr", target, choice))
    return drawn


class Data(NamedTuple):
    """Inputs at two alignments on one graph, and the exact result."""

    graph: Graph
    inputs: list[tuple[NDArray[Any], NDArray[Any]]]
    exact: NDArray[Any]


@cache
def data(graph_name: str, op: str, feat: int, edge_width: int, dtype: str, index_dtype: str, edge_order: str) -> Data:
    graph = variant(ODD_GRAPHS[graph_name](), index_dtype, edge_order)
    rng = np.random.default_rng(feat)
    x = rng.choice([-7, -5, -3, -1, 2, 4, 6], (graph.num_src, feat)).astype(dtype)
    # Powers of two: quotients are exact too.
    w = rng.choice([-4, -2, -1, 0.5, 1, 2], (graph.num_edges, edge_width)).astype(dtype)
    inputs = [(at_offset(x, offset), at_offset(w, offset)) for offset in (0, np.dtype(dtype).itemsize)]
    reference = spmm_reference(OPS[op], graph.indptr, graph.indices, graph.edge_ids, x, w)
    return Data(graph, inputs, reference.astype(dtype))


def mistake(library: Library, case: Case, graph_name: str) -> str | None:
    """What is wrong with a library on a graph; None when every launch is right."""
    known = data(graph_name, case.op, case.feat, case.edge_width, case.dtype, case.index_dtype, case.edge_order)
    itemsize = known.exact.itemsize
    outputs = [Guarded(known.exact.shape, case.dtype, offset) for offset in (0, itemsize)]
    before = [array.tobytes() for pair in known.inputs for array in pair]
    first: NDArray[Any] | None = None
    space = spmm_space(case.feat, case.target, case.dtype, case.edge_width)
    variants = launches(space, case.choice, threads=2)
    runs = [(variants[-1], 1)] + [(launch, 2) for launch in variants[list(ODD_GRAPHS).index(graph_name) % 3 :: 3]]
    for i, (launch, threads) in enumerate(runs):
        (x, w), output = known.inputs[i % 2], outputs[i // 2 % 2]
        op = OPS[case.op]
        frame = SpMMFrame(library, known.graph, case.feat, case.dtype, case.edge_order, op, case.edge_width, launch)
        output.reset()
        addresses = (x.ctypes.data if op.uses_src else None, w.ctypes.data if op.uses_edge else None)
        frame.run(*addresses, output.array.ctypes.data, threads)
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
                "edge_width": case.edge_width,
                "dtype": case.dtype,
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
        plain = [case for case in chosen if case.target == target and (case.edge_width, case.dtype) == (1, "float32")]
        sampled = values_of([case.choice for case in plain])
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
