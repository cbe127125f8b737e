"""Arrays at a kernel's door: any strides and alignment right, everything else refused by name; nothing else touched."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tvm_gnn.errors import InputError, InputTypeError, TvmGnnError
from tvm_gnn.ops.spmm import SPMM_OPS
from tvm_gnn.testing.odd_graphs import ODD_GRAPHS
from tvm_gnn.testing.operands import edge_values_shape, used

FEAT = 6
GRAPH = ODD_GRAPHS["wide"]()  # 300 sources, 9 destinations, 200 edges
RNG = np.random.default_rng(0)
X = RNG.standard_normal((300, FEAT)).astype(np.float32)
W = RNG.standard_normal(200).astype(np.float32)
X.flags.writeable = W.flags.writeable = False


@pytest.fixture
def copy_sum(make_kernel: Any) -> Any:
    return make_kernel(GRAPH, "copy_u_sum", FEAT)


@pytest.fixture
def mul_sum(make_kernel: Any) -> Any:
    return make_kernel(GRAPH, "u_mul_e_sum", FEAT)


@pytest.fixture
def torch() -> Any:
    return pytest.importorskip("torch", reason="needs torch")


def bytes_apart(array: Any, offset_bytes: int) -> Any:
    """The same values at an address that is no multiple of the item size."""
    memory = np.zeros(array.nbytes + 16, np.uint8)
    view = memory[offset_bytes : offset_bytes + array.nbytes].view(array.dtype).reshape(array.shape)
    view[...] = array
    assert not view.flags.aligned
    return view


LAYOUTS: dict[str, Callable[[Any], Any]] = {
    "fortran": np.asfortranarray,
    "transposed": lambda a: np.ascontiguousarray(a.T).T,
    "every other column": lambda a: np.repeat(a, 2, axis=1)[:, ::2],
    "every other row": lambda a: np.repeat(a, 2, axis=0)[::2],
    "columns reversed": lambda a: np.ascontiguousarray(a[:, ::-1])[:, ::-1],
    "rows reversed": lambda a: np.ascontiguousarray(a[::-1])[::-1],
    "window": lambda a: np.pad(a, 3, constant_values=np.nan)[3:-3, 3:-3],
    "one byte off": lambda a: bytes_apart(a, 1),
    "two bytes off": lambda a: bytes_apart(a, 2),
    "one element off": lambda a: np.concatenate([[0], a.ravel()]).astype(np.float32)[1:].reshape(a.shape),
    "read-only": lambda a: a,
    "subclass": lambda a: a.view(np.memmap),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_numpy_layouts_of_x(copy_sum: Any, layout: str) -> None:
    x = LAYOUTS[layout](X)
    np.testing.assert_array_equal(x, X)
    assert copy_sum(x).tobytes() == copy_sum(X).tobytes()


def test_a_row_that_is_repeated_without_memory(copy_sum: Any) -> None:
    x = np.broadcast_to(X[:1], X.shape)
    assert copy_sum(x).tobytes() == copy_sum(x.copy()).tobytes()


@pytest.mark.parametrize(
    "layout",
    [
        lambda w: np.repeat(w, 3)[::3],
        lambda w: w[::-1].copy()[::-1],
        lambda w: bytes_apart(w, 3),
        lambda w: np.concatenate([[0], w]).astype(np.float32)[1:],
    ],
    ids=["strided", "reversed", "three bytes off", "one element off"],
)
def test_numpy_layouts_of_w(mul_sum: Any, layout: Any) -> None:
    assert mul_sum(X, layout(W)).tobytes() == mul_sum(X, W).tobytes()


@pytest.mark.torch
@pytest.mark.parametrize(
    "layout",
    [
        lambda t: t.T.contiguous().T,
        lambda t: t.repeat_interleave(2, dim=1)[:, ::2],
        lambda t: t.repeat_interleave(2, dim=0)[::2],
        lambda t: t.new_zeros(t.numel() + 1)[1:].view(t.shape).copy_(t),
        lambda t: t.new_zeros(t.numel() + 3)[3:].view(t.shape).copy_(t),
        lambda t: sys.modules["torch"]._neg_view(-t),
    ],
    ids=["transposed", "columns strided", "rows strided", "offset 1", "offset 3", "lazily negated"],
)
def test_torch_layouts_of_x(torch: Any, copy_sum: Any, layout: Any) -> None:
    x = torch.tensor(X)
    y = copy_sum(layout(x))
    assert isinstance(y, torch.Tensor)
    assert torch.equal(y, torch.from_numpy(copy_sum(X)))


@pytest.mark.torch
def test_torch_expanded_tensors(torch: Any, mul_sum: Any) -> None:
    x, w = torch.ones(1, 1).expand(300, FEAT), torch.ones(1).expand(200)
    degrees = torch.tensor(GRAPH.in_degrees, dtype=torch.float32)
    assert torch.equal(mul_sum(x, w), degrees[:, None].expand(9, FEAT))


@pytest.mark.parametrize("op", SPMM_OPS)
def test_inputs_are_never_written_and_outputs_are_new(make_kernel: Any, op: str) -> None:
    kernel = make_kernel(GRAPH, op, FEAT)
    w = np.resize(W, edge_values_shape(SPMM_OPS[op], GRAPH, FEAT))
    given = used(SPMM_OPS[op], X.copy(), w)
    before = [array.tobytes() for array in given]
    structure = [GRAPH.indptr.tobytes(), GRAPH.indices.tobytes()]
    first, second = kernel(*given), kernel(*given)
    assert [array.tobytes() for array in given] == before
    assert [GRAPH.indptr.tobytes(), GRAPH.indices.tobytes()] == structure
    assert not np.shares_memory(first, second)
    assert not any(np.shares_memory(first, array) for array in given)
    second.fill(0)
    assert first.any()


@pytest.mark.torch
def test_the_output_is_of_the_callers_kind(torch: Any, mul_sum: Any) -> None:
    y = mul_sum(torch.tensor(X), torch.tensor(W))
    assert (type(y), y.dtype, tuple(y.shape), y.requires_grad) == (torch.Tensor, torch.float32, (9, FEAT), False)
    z = mul_sum(X, W)
    assert (type(z), z.dtype, z.shape, z.flags.c_contiguous) == (np.ndarray, np.float32, (9, FEAT), True)
    assert y.numpy().tobytes() == z.tobytes()


WRONG_NUMPY: dict[str, tuple[Callable[[], tuple[Any, ...]], type[TvmGnnError], str]] = {
    "x float64": (lambda: (X.astype(np.float64), W), InputTypeError, r"x: must be float32 \(got float64\).*Convert"),
    "x int": (lambda: (X.astype(np.int32), W), InputTypeError, r"x: must be float32 \(got int32\)"),
    "x complex": (lambda: (X.astype(np.complex64), W), InputTypeError, r"x: must be float32 \(got complex64\)"),
    "x half": (lambda: (X.astype(np.float16), W), InputTypeError, r"x: must be float32 \(got float16\)"),
    "x big-endian": (lambda: (X.astype(">f4"), W), InputTypeError, r"x: must be float32 \(got >f4\)"),
    "x object": (lambda: (X.astype(object), W), InputTypeError, r"x: must be float32 \(got object\)"),
    "x wide": (lambda: (X[:, :5], W), InputError, r"x: must have shape \(300, 6\) \(got \(300, 5\)\)"),
    "x short": (lambda: (X[:299], W), InputError, r"x: must have shape \(300, 6\) \(got \(299, 6\)\)"),
    "x as rows of y": (lambda: (X[:9], W), InputError, r"x: must have shape \(300, 6\) \(got \(9, 6\)\)"),
    "x flat": (lambda: (X.ravel(), W), InputError, r"x: must have shape \(300, 6\) \(got \(1800,\)\)"),
    "x cube": (lambda: (X[:, None], W), InputError, r"x: must have shape \(300, 6\) \(got \(300, 1, 6\)\)"),
    "x transposed": (lambda: (X.T, W), InputError, r"x: must have shape \(300, 6\) \(got \(6, 300\)\)"),
    "x list": (lambda: (X.tolist(), W), InputTypeError, r"x: must be a numpy array or a torch tensor \(got list\)"),
    "x none": (lambda: (None, W), InputTypeError, r"x: must be a numpy array or a torch tensor \(got NoneType\)"),
    "w missing": (lambda: (X,), InputTypeError, r"w: .* takes kernel\(x, w\), w of shape \(200,\) \(got none\)"),
    "w none": (lambda: (X, None), InputTypeError, r"w: .* takes kernel\(x, w\), w of shape \(200,\) \(got none\)"),
    "w short": (lambda: (X, W[:-1]), InputError, r"w: must have shape \(200,\) \(got \(199,\)\)"),
    "w columns": (lambda: (X, W[:, None].repeat(2, 1)), InputError, r"w: must have shape \(200,\) \(got \(200, 2\)\)"),
    "w float64": (lambda: (X, W.astype(float)), InputTypeError, r"w: must be float32 \(got float64\)"),
    "w scalar": (lambda: (X, 2.0), InputTypeError, r"w: must be a numpy array or a torch tensor \(got float\)"),
}


@pytest.mark.parametrize("case", WRONG_NUMPY)
def test_wrong_numpy_inputs(mul_sum: Any, case: str) -> None:
    build, error, text = WRONG_NUMPY[case]
    with pytest.raises(error, match=text):
        mul_sum(*build())
    assert np.isfinite(mul_sum(X, W)).all()  # the next valid call works


def test_an_operator_without_edge_values_refuses_them(copy_sum: Any) -> None:
    with pytest.raises(InputTypeError, match=r"^arguments: copy_u_sum takes kernel\(x\) \(got 2, .* type ndarray\)"):
        copy_sum(X, W)


@pytest.mark.torch
def test_wrong_torch_inputs(torch: Any, copy_sum: Any, mul_sum: Any) -> None:
    x, w = torch.tensor(X), torch.tensor(W)
    wrong: list[tuple[Callable[[], Any], str]] = [
        (lambda: copy_sum(x.double()), r"x: must be float32 \(got float64\)"),
        (lambda: copy_sum(x.bfloat16()), r"x: must be float32 \(got bfloat16\)"),
        (lambda: copy_sum(x.to("meta")), r"x: must be on the CPU, .* \(got device meta\)"),
        (lambda: copy_sum(x.to_sparse()), r"x: must be a dense tensor \(got layout torch.sparse_coo\)"),
        (lambda: mul_sum(x, W), r"w: must be a torch array like the first argument \(got ndarray\)"),
        (lambda: mul_sum(X, w), r"w: must be a numpy array like the first argument \(got Tensor\)"),
        (lambda: copy_sum(x, out=np.empty((9, FEAT), np.float32)), r"out: must be a torch array like the first"),
        (lambda: copy_sum(X, out=torch.empty(9, FEAT)), r"out: must be a numpy array like the first"),
        (lambda: copy_sum(x.clone().requires_grad_(), out=torch.empty(9, FEAT)), r"out: must not be given where torch"),
        (lambda: copy_sum(x, out=torch.empty(9, FEAT, requires_grad=True)), r"out: must not be given where torch"),
    ]
    for call, text in wrong:
        with pytest.raises(InputTypeError, match=text):
            call()
    with pytest.raises(InputError, match=r"x: must have shape \(300, 6\) \(got \(300, 5\)\)"):
        copy_sum(x[:, :5])


@pytest.mark.torch
def test_requires_grad_is_fine_where_grad_is_off(torch: Any, copy_sum: Any) -> None:
    x = torch.tensor(X, requires_grad=True)
    expected = torch.from_numpy(copy_sum(X))
    with torch.no_grad():
        assert torch.equal(copy_sum(x), expected)
    with torch.inference_mode():
        assert torch.equal(copy_sum(x), expected)
    assert torch.equal(copy_sum(x.detach()), expected)


def test_out_numpy(mul_sum: Any) -> None:
    expected = mul_sum(X, W)
    out = np.full((9, FEAT), np.nan, np.float32)
    assert mul_sum(X, W, out=out) is out
    assert out.tobytes() == expected.tobytes()
    rows = np.full((20, FEAT), 7, np.float32)
    mul_sum(X, W, out=rows[5:14])
    assert rows[5:14].tobytes() == expected.tobytes()
    assert (np.delete(rows, range(5, 14), axis=0) == 7).all()


@pytest.mark.torch
def test_out_torch(torch: Any, mul_sum: Any) -> None:
    x, w = torch.tensor(X), torch.tensor(W)
    memory = torch.full((9 * FEAT + 2,), 7.0)
    out = memory[1:-1].view(9, FEAT)
    assert mul_sum(x, w, out=out) is out
    assert torch.equal(out, mul_sum(x, w))
    assert memory[0] == memory[-1] == 7


def test_wrong_numpy_outs(mul_sum: Any) -> None:
    read_only = np.zeros((9, FEAT), np.float32)
    read_only.flags.writeable = False
    memory = np.zeros(2000, np.float32)
    aliased_x, inside_x = memory[:1800].reshape(300, FEAT), memory[1790 : 1790 + 54].reshape(9, FEAT)
    aliased_w = memory[:200]
    wrong: list[tuple[Any, Any, Any, str]] = [
        (X, W, np.zeros((9, 5), np.float32), r"out: must have shape \(9, 6\) \(got \(9, 5\)\)"),
        (X, W, np.zeros((300, FEAT), np.float32), r"out: must have shape \(9, 6\) \(got \(300, 6\)\)"),
        (X, W, np.zeros((9, FEAT), np.float32, order="F"), r"out: must be contiguous"),
        (X, W, np.zeros((9, 2 * FEAT), np.float32)[:, ::2], r"out: must be contiguous"),
        (X, W, read_only, r"out: must be writable \(got a read-only array\)"),
        (aliased_x, W, inside_x, r"out: must not share memory with an input"),
        (aliased_x, W, aliased_x[:9], r"out: must not share memory with an input"),
        (X, aliased_w, memory[190 : 190 + 54].reshape(9, FEAT), r"out: must not share memory with an input"),
    ]
    for x, w, out, text in wrong:
        before = memory.tobytes()
        with pytest.raises(InputError, match=text):
            mul_sum(x, w, out=out)
        assert memory.tobytes() == before
    with pytest.raises(InputTypeError, match=r"out: must be float32 \(got float64\)"):
        mul_sum(X, W, out=np.zeros((9, FEAT)))
    beside = memory[1800 : 1800 + 54].reshape(9, FEAT)
    assert mul_sum(aliased_x, W, out=beside) is beside


def test_an_out_that_is_not_aligned_to_its_items_is_refused(copy_sum: Any) -> None:
    with pytest.raises(InputError, match=r"out: must be contiguous"):
        copy_sum(X, out=bytes_apart(np.zeros((9, FEAT), np.float32), 1))


@pytest.mark.torch
def test_wrong_torch_outs(torch: Any, copy_sum: Any, make_kernel: Any) -> None:
    x = torch.tensor(X)
    with pytest.raises(InputError, match=r"out: must have shape"):
        copy_sum(x, out=torch.empty(9, 7))
    with pytest.raises(InputError, match=r"out: must be contiguous"):
        copy_sum(x, out=torch.empty(FEAT, 9).T)
    with pytest.raises(InputError, match=r"out: must not share memory"):
        copy_sum(x, out=x[100:109])


def test_numpy_outputs_start_on_a_cache_line(copy_sum: Any) -> None:
    assert {copy_sum(X).ctypes.data % 64 for _ in range(8)} == {0}


def test_numpy_calls_do_not_import_torch(run_python: Any) -> None:
    run_python(
        "import sys, numpy as np, tvm_gnn\n"
        "graph = tvm_gnn.Graph.from_coo([], [], num_src=2, num_dst=2)\n"
        "tvm_gnn.load(graph, 'copy_u_sum', 1)(np.zeros((2, 1), 'float32'))\n"
        "assert not {'torch', 'tvm', 'tvm_ffi', 'xgboost'} & set(sys.modules), sorted(sys.modules)\n"
    )
    assert "tvm_gnn" in sys.modules
