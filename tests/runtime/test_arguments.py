"""A kernel's arguments by position and by name, its outputs one or several: what is bound to what, and the errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tvm_gnn.errors import InputError, InputTypeError
from tvm_gnn.ops import Problem
from tvm_gnn.ops.operand import Dims
from tvm_gnn.runtime.kernel import Kernel, Provenance
from tvm_gnn.testing.odd_graphs import ODD_GRAPHS
from tvm_gnn.testing.odd_operator import ScaledEdges
from tvm_gnn.testing.operands import problem

FEAT = 6
GRAPH = ODD_GRAPHS["wide"]()  # 300 sources, 9 destinations, 200 edges
RNG = np.random.default_rng(0)
X = RNG.standard_normal((300, FEAT)).astype(np.float32)
W = RNG.standard_normal(200).astype(np.float32)
FACTOR = np.ones(1, np.float32)


def unbuilt(what: Problem) -> Kernel:
    """A kernel without a library, which checks its arguments and writes zeros."""
    return Kernel(GRAPH, what, None, 2, Provenance("default"))


@pytest.fixture
def scaled() -> Kernel:
    """(factor, s) in, (z, degree) out."""
    return unbuilt(Problem(ScaledEdges(), Dims((FEAT,), ()), index_dtype=GRAPH.index_dtype))


def test_by_position_by_name_and_with_none(make_kernel: Any) -> None:
    kernel = make_kernel(GRAPH, "u_mul_e_sum", FEAT)
    expected = kernel(X, W).tobytes()
    for given, named in [
        ((), {"x": X, "w": W}),
        ((), {"w": W, "x": X}),
        ((X,), {"w": W}),
        ((X, W), {"w": None}),
        ((X, W, None), {}),
        ((X, None), {"w": W}),
        ((None, W), {"x": X}),
    ]:
        assert kernel(*given, **named).tobytes() == expected, (len(given), list(named))
        out = np.empty((9, FEAT), np.float32)
        assert kernel(*given, **named, out=out) is out
        assert out.tobytes() == expected


@pytest.mark.parametrize(("op", "name", "array"), [("copy_u_sum", "x", X), ("copy_e_sum", "w", W[:, None])])
def test_one_argument(make_kernel: Any, op: str, name: str, array: Any) -> None:
    kernel = make_kernel(GRAPH, op, array.shape[1])
    other = {"x": "w", "w": "x"}[name]
    expected = kernel(array).tobytes()
    for given, named in [((), {name: array}), ((array, None), {}), ((array,), {other: None})]:
        assert kernel(*given, **named).tobytes() == expected


@pytest.mark.parametrize(
    ("given", "named", "text"),
    [
        ((), {}, r"x: u_mul_e_sum takes kernel\(x, w\), x of shape \(300, 6\) \(got none\)\."),
        ((X,), {}, r"w: u_mul_e_sum takes kernel\(x, w\), w of shape \(200,\) \(got none\)\."),
        ((X, None), {}, r"w: u_mul_e_sum takes kernel\(x, w\), w of shape \(200,\) \(got none\)\."),
        ((), {"w": W}, r"x: u_mul_e_sum takes kernel\(x, w\), x of shape \(300, 6\) \(got none\)\."),
        ((), {"x": None, "w": W}, r"x: u_mul_e_sum takes kernel\(x, w\), x of shape \(300, 6\) \(got none\)\."),
        ((X, W, W), {}, r"arguments: u_mul_e_sum takes kernel\(x, w\) \(got 3, the last of type ndarray\)\."),
        ((X, W, None, "s"), {}, r"arguments: u_mul_e_sum takes kernel\(x, w\) \(got 4, the last of type str\)\."),
        ((X,), {"weight": W}, r"weight: u_mul_e_sum takes kernel\(x, w\) \(got weight of type ndarray\)\."),
        ((X, W), {"y": X}, r"y: u_mul_e_sum takes kernel\(x, w\) \(got y of type ndarray\)\."),
        ((X, W), {"w": W}, r"w: must be given once \(got it by position and by name\)\."),
        ((X,), {"x": X, "w": W}, r"x: must be given once \(got it by position and by name\)\."),
    ],
)
def test_missing_unknown_and_extra_arguments(given: Any, named: Any, text: str) -> None:
    with pytest.raises(InputTypeError, match=f"^{text}$"):
        unbuilt(problem("u_mul_e_sum", FEAT))(*given, **named)


def test_what_a_kernel_says_of_itself() -> None:
    text = "<u_mul_e_sum kernel, feat={}, float64, source='default', threads=2, {{}}>"
    assert repr(unbuilt(problem("u_mul_e_sum", 6, "float64"))) == text.format("6")
    assert repr(unbuilt(problem("u_mul_e_sum", (2, 3), "float64"))) == text.format("(2, 3)")


@pytest.mark.parametrize("form", [(200,), (200, 1)])
def test_several_outputs_come_as_a_tuple(scaled: Kernel, form: tuple[int, ...]) -> None:
    """Each of its own dtype; one that is like an input has the form in which that was given."""
    found = scaled(s=W.reshape(form), factor=FACTOR)
    assert isinstance(found, tuple)
    assert [(array.shape, array.dtype) for array in found] == [(form, np.float32), ((9,), GRAPH.index_dtype)]
    assert not any(array.any() for array in found)


@pytest.mark.torch
def test_several_outputs_are_of_the_callers_kind() -> None:
    torch = pytest.importorskip("torch", reason="needs torch")
    kernel = unbuilt(Problem(ScaledEdges(), Dims((FEAT,), (2,)), "float64", GRAPH.index_dtype))
    z, degree = kernel(torch.ones(1, dtype=torch.float64), torch.ones(200, 2, dtype=torch.float64))
    assert (tuple(z.shape), z.dtype) == ((200, 2), torch.float64)
    assert (tuple(degree.shape), degree.dtype) == ((9,), torch.int32)


def test_several_buffers(scaled: Kernel) -> None:
    for form in ((200,), (200, 1)):
        out = (np.full(form, np.nan, np.float32), np.full(9, -1, GRAPH.index_dtype))
        found = scaled(FACTOR, W, out=out)
        assert [given is array for given, array in zip(out, found, strict=True)] == [True, True]
        assert not out[0].any()
        assert not out[1].any()


def test_wrong_buffers(scaled: Kernel) -> None:
    z, degree = np.zeros(200, np.float32), np.zeros(9, GRAPH.index_dtype)
    memory = np.zeros(200, np.float32)
    wrong: list[tuple[Any, type[Exception], str]] = [
        (z, InputTypeError, r"^out: must be a tuple of 2 buffers, \(z, degree\) \(got ndarray\)\.$"),
        ([z, degree], InputTypeError, r"^out: must be a tuple of 2 buffers, \(z, degree\) \(got list\)\.$"),
        ((z,), InputTypeError, r"^out: must be a tuple of 2 buffers, \(z, degree\) \(got 1 of them\)\.$"),
        ((z, degree, z), InputTypeError, r"^out: must be a tuple of 2 buffers, \(z, degree\) \(got 3 of them\)\.$"),
        ((z, None), InputTypeError, r"^out: must be a numpy array or a torch tensor \(got NoneType\)"),
        ((degree, z), InputTypeError, r"^out: must be float32 \(got int32\)"),
        ((z, degree.astype(np.int64)), InputTypeError, r"^out: must be int32 \(got int64\)"),
        ((z, degree[:8]), InputError, r"^out: must have shape \(9,\) \(got \(8,\)\)"),
        ((W, degree), InputError, r"^out: must not share memory with an input or another output"),
        ((memory, memory.view(np.int32)[100:109]), InputError, r"^out: must not share memory with an input or another"),
    ]
    for out, error, text in wrong:
        with pytest.raises(error, match=text):
            scaled(FACTOR, W, out=out)
    with pytest.raises(InputTypeError, match=r"^out: must be a numpy array or a torch tensor \(got tuple\)"):
        unbuilt(problem("u_mul_e_sum", FEAT))(X, W, out=(np.zeros((9, FEAT), np.float32),))
