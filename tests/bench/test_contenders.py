"""Every contender that can run here gives the reference's numbers; every other one says why it cannot."""

from __future__ import annotations

import gc
import os
import platform
import sys
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tvm_gnn.bench import CONTENDERS, Case, Contender, check, select, taken_as
from tvm_gnn.bench.contenders import contender as contender_module
from tvm_gnn.bench.contenders import dgl_ops, handwritten, mkl_library
from tvm_gnn.bench.contenders.contender import MATRIX_OPS
from tvm_gnn.errors import InputError
from tvm_gnn.graph import Graph
from tvm_gnn.ops.operand import Structure
from tvm_gnn.ops.registry import parse_op
from tvm_gnn.ops.tolerance import first_mismatch

WIDTHS = (1, 3, 16, 33, 64, 100)
HEADS = ((1, 5), (4, 16), (3, 7))


def runnable(name: str) -> Contender:
    contender = CONTENDERS[name]
    reason = contender.missing()
    if reason is not None:
        pytest.skip(reason)
    return contender


PAIRS = [(name, op) for name, contender in CONTENDERS.items() for op in sorted(contender.ops)]


def feats(op: str) -> tuple[Any, ...]:
    return HEADS if op == "gat" else WIDTHS


def first_op(contender: Contender) -> str:
    return sorted(contender.ops)[-1]


@pytest.mark.parametrize(("name", "op"), PAIRS)
def test_agrees_with_reference(graphs: dict[str, Graph], name: str, op: str) -> None:
    contender = runnable(name)
    for label, graph in graphs.items():
        for feat in feats(op):
            case = Case(graph, parse_op(op), feat)
            wrong = check(case, contender.prepare(case, threads=2).run_on(case))
            assert wrong is None, f"{label}, F={feat}: {wrong}"


@pytest.mark.parametrize("name", CONTENDERS)
def test_follows_new_inputs_and_writes_to_none(graphs: dict[str, Graph], name: str) -> None:
    contender = runnable(name)
    op = parse_op(first_op(contender))
    case = Case(graphs["wide"], op, feats(op.name)[-1])
    kept = [array.copy() for array in (case.graph.indptr, case.graph.indices, *case.inputs)]
    entrant = contender.prepare(case, threads=1)
    fixed = list(case.inputs[len(case.arguments) :])
    structure = Structure(case.graph.indptr, case.graph.indices, None, case.graph.num_src)
    for factor in (1, -3):
        arrays = [factor * array for array in case.arguments]
        given = [taken_as(entrant.takes, array.copy()) for array in arrays]
        got = np.asarray(entrant.kernel(*given)).copy()
        rows = [a.reshape(-1, each.width) for a, each in zip(arrays + fixed, case.problem.inputs, strict=True)]
        (want, *_), (scale, *_) = (f(case.problem.dims, structure, *rows) for f in (op.reference, op.error_scale))
        assert first_mismatch(got.reshape(want.shape), want, scale) is None
        for before, after in zip(arrays, given, strict=True):
            assert np.array_equal(before, np.asarray(after))
    for before, after in zip(kept, (case.graph.indptr, case.graph.indices, *case.inputs), strict=True):
        assert np.array_equal(before, after)


@pytest.mark.parametrize("name", CONTENDERS)
def test_says_what_ran(graphs: dict[str, Graph], name: str) -> None:
    contender = runnable(name)
    op = first_op(contender)
    case = Case(graphs["wide"], parse_op(op), feats(op)[0])
    contender.prepare(case, threads=1).run_on(case)()
    assert any(character.isdigit() for character in contender.describe())


@pytest.mark.parametrize("name", ["handwritten", "mkl_ie"])
def test_native_kernel_refuses_features_it_would_misread(graphs: dict[str, Graph], name: str) -> None:
    contender = runnable(name)
    case = Case(graphs["wide"], parse_op("copy_u_sum"), 4)
    kernel = contender.prepare(case, threads=1).kernel
    for wrong in (np.asfortranarray(case.x), case.x.astype(np.float64), case.x[:-1]):
        with pytest.raises(InputError, match="x: must be C-contiguous float32"):
            kernel(wrong)


@pytest.mark.parametrize("name", ["handwritten", "mkl_ie"])
def test_native_run_keeps_alive_what_it_reads(graphs: dict[str, Graph], name: str) -> None:
    contender = runnable(name)
    case = Case(graphs["wide"], parse_op("u_mul_e_sum"), 4)
    kernel = contender.prepare(case, threads=1).kernel
    alive = weakref.ref(kernel)
    run = contender.bind(kernel, case.x)
    del kernel
    gc.collect()
    assert alive() is not None
    del run
    gc.collect()
    assert alive() is None


@pytest.mark.parametrize("feat", [7, 8, 15, 17, 47, 65, 127, 128, 129, 200])
def test_handwritten_at_every_tail_with_64_bit_indices(graphs: dict[str, Graph], feat: int) -> None:
    contender = runnable("handwritten")
    graph = graphs["wide"]
    wide = Graph(graph.indptr.astype(np.int64), graph.indices.astype(np.int64), num_src=graph.num_src)
    case = Case(wide, parse_op("u_mul_e_mean"), feat)
    assert check(case, contender.prepare(case, threads=3).run_on(case)) is None


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the flags are those of x86-64 compilers")
@pytest.mark.parametrize("flag", ["-mno-avx512f", "-mno-avx"])
def test_handwritten_on_narrower_vectors(graphs: dict[str, Graph], flag: str, monkeypatch: pytest.MonkeyPatch) -> None:
    contender = runnable("handwritten")
    monkeypatch.setattr(handwritten, "FLAGS", (*handwritten.FLAGS, flag))
    handwritten._library.cache_clear()
    try:
        for feat in (3, 4, 9, 64, 71, 129):
            case = Case(graphs["tall"], parse_op("u_mul_e_mean"), feat)
            assert check(case, contender.prepare(case, threads=2).run_on(case)) is None
    finally:
        handwritten._library.cache_clear()


def test_64_bit_graph_is_refused_by_mkl(graphs: dict[str, Graph]) -> None:
    contender = runnable("mkl_ie")
    graph = graphs["wide"]
    wide = Graph(graph.indptr.astype(np.int64), graph.indices.astype(np.int64), num_src=graph.num_src)
    with pytest.raises(InputError, match="32-bit indices"):
        contender.prepare(Case(wide, parse_op("copy_u_sum"), 4), threads=1)


def test_dgl_import_leaves_no_empty_modules_behind() -> None:
    runnable("dgl")
    backend = os.environ.get("DGLBACKEND")
    with dgl_ops._surroundings():
        assert "torchdata" in sys.modules
        assert os.environ["DGLBACKEND"] == "pytorch"
    for name in ("torchdata", "torchdata.datapipes", "dgl.graphbolt"):
        assert name not in sys.modules
    assert os.environ.get("DGLBACKEND") == backend


def test_missing_gives_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contender_module, "find_spec", lambda name: None)
    monkeypatch.setattr(handwritten, "c_compiler", lambda: None)
    monkeypatch.setattr(mkl_library, "library_path", lambda: None)
    dgl_ops._missing.cache_clear()
    try:
        reasons = {name: contender.missing() for name, contender in CONTENDERS.items()}
    finally:
        dgl_ops._missing.cache_clear()
    assert reasons["scipy"] == "scipy is not installed"
    assert reasons["dgl"] == "torch and dgl are not installed"
    assert reasons["handwritten"] == "no C compiler on the path (cc, gcc, clang)"
    assert reasons["mkl_ie"] == "mkl is not installed (no libmkl_rt found)"
    assert all(reasons.values())


def test_dgl_that_cannot_load_is_missing_with_the_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> None:
        raise OSError("libdgl.so: undefined symbol")

    monkeypatch.setattr(dgl_ops, "needs", lambda *names: lambda: None)
    monkeypatch.setattr(dgl_ops, "_dgl", broken)
    monkeypatch.setattr("importlib.metadata.version", lambda name: "2.1.0")
    dgl_ops._missing.cache_clear()
    try:
        assert dgl_ops._missing() == "dgl 2.1.0 cannot be imported here: OSError: libdgl.so: undefined symbol"
    finally:
        dgl_ops._missing.cache_clear()


def test_registry_names_and_groups() -> None:
    assert all(name == contender.name for name, contender in CONTENDERS.items())
    assert {contender.group for contender in CONTENDERS.values()} == {"default", "strongest"}
    strongest = [name for name, contender in CONTENDERS.items() if contender.group == "strongest"]
    assert strongest == ["mkl_ie", "handwritten", "numba", "graphblas"]


def names(words: str) -> list[str]:
    return [contender.name for contender in select(words)]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("scipy, dgl", ["scipy", "dgl"]),
        ("dgl,scipy,scipy", ["scipy", "dgl"]),
        ("pyg", ["pyg_scatter", "pyg_spmm", "pyg_softmax", "pyg_gat"]),
        ("mkl", ["mkl_ie"]),
        ("torch_int32", ["torch_int32", "torch_int32_out"]),
        ("strongest", ["mkl_ie", "handwritten", "numba", "graphblas"]),
        ("all", list(CONTENDERS)),
    ],
)
def test_select(words: str, expected: list[str]) -> None:
    assert names(words) == expected


@pytest.mark.parametrize("words", ["", "scipy,", "cupy", "tor", "_"])
def test_select_refuses_words_that_name_nothing(words: str) -> None:
    with pytest.raises(InputError, match=r"against: must name contenders \(got .*Choose from all, default"):
        select(words)


def test_contender_defaults(fake_contender: Callable[..., Contender], case: Case) -> None:
    contender = fake_contender("fake")
    assert contender.ops == MATRIX_OPS
    assert check(case, contender.prepare(case, threads=1).run_on(case)) is None
