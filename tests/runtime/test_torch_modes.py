"""Torch's tracers, transforms and version counters: a call by address is either seen by them or refused."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tvm_gnn.errors import InputTypeError
from tvm_gnn.graph import datasets
from tvm_gnn.runtime.kernel import Kernel

torch = pytest.importorskip("torch", reason="torch is not installed")
GRAPH = datasets.load("karate")


@pytest.fixture(scope="module")
def kernel(make_kernel: Callable[..., Kernel]) -> Kernel:
    return make_kernel(GRAPH, "copy_u_sum", 8)


def traced(kernel: Kernel, x: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.jit.trace(lambda a: kernel(a) + 0, x, check_trace=False)


def made_fx(kernel: Kernel, x: Any) -> Any:
    from torch.fx.experimental.proxy_tensor import make_fx

    return make_fx(lambda a: kernel(a) + 0)(x)


def functionalized(kernel: Kernel, x: Any) -> Any:
    return torch.func.functionalize(kernel)


def exported(kernel: Kernel, x: Any) -> Any:
    class Model(torch.nn.Module):
        def forward(self, a: Any) -> Any:
            return kernel(a) + 0

    return torch.export.export(Model(), (x,)).module()


@pytest.mark.torch
@pytest.mark.parametrize("trace", [traced, made_fx, functionalized, exported])
def test_traced_programs_call_the_kernel(kernel: Kernel, trace: Callable[[Any, Any], Any]) -> None:
    program = trace(kernel, torch.ones(GRAPH.num_src, 8))
    x = torch.rand(GRAPH.num_src, 8)
    assert torch.equal(program(x), kernel(x))


def mapped(kernel: Kernel, x: Any) -> None:
    torch.vmap(kernel)(torch.stack([x, x]))


def functional_gradient(kernel: Kernel, x: Any) -> None:
    torch.func.grad(lambda a: kernel(a).sum())(x)


def functional_tangent(kernel: Kernel, x: Any) -> None:
    torch.func.jvp(kernel, (x,), (x,))


def dual_number(kernel: Kernel, x: Any) -> None:
    with torch.autograd.forward_ad.dual_level():
        kernel(torch.autograd.forward_ad.make_dual(x, x))


def fake(kernel: Kernel, x: Any) -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode() as mode:
        kernel(mode.from_tensor(x))


def fake_outside(kernel: Kernel, x: Any) -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    kernel(FakeTensorMode().from_tensor(x))


def without_storage(kernel: Kernel, x: Any) -> None:
    x.untyped_storage().resize_(0)
    kernel(x)


def zero_tensor(kernel: Kernel, x: Any) -> None:
    kernel(torch._efficientzerotensor(x.shape))


@pytest.mark.torch
@pytest.mark.parametrize(
    "call",
    [
        mapped,
        functional_gradient,
        functional_tangent,
        dual_number,
        fake,
        fake_outside,
        without_storage,
        zero_tensor,
    ],
)
def test_what_torch_could_not_follow_is_refused(kernel: Kernel, call: Callable[[Any, Any], None]) -> None:
    with pytest.raises(InputTypeError, match=r"^x: must (not be transformed|hold data|have no tangent)"):
        call(kernel, torch.ones(GRAPH.num_src, 8))


@pytest.mark.torch
def test_writing_into_out_is_noticed_by_a_backward_pass(kernel: Kernel) -> None:
    factor = torch.ones(GRAPH.num_dst, 8, requires_grad=True)
    x = torch.ones(GRAPH.num_src, 8)
    y = kernel(x)
    loss = (y * factor).sum()
    kernel(2 * x, out=y)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


@pytest.mark.torch
def test_parameters_are_tensors(kernel: Kernel) -> None:
    x = torch.nn.Parameter(torch.rand(GRAPH.num_src, 8))
    with torch.no_grad():
        assert torch.equal(kernel(x), kernel(x.detach()))


def test_called_again_while_a_call_is_laid_out(kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a signal handler may: between setting the addresses and the call."""
    from tvm_gnn.runtime import library

    one, two = (np.full((GRAPH.num_src, 8), value, np.float32) for value in (1, 2))
    want = kernel(one)
    call = library.Frame.__call__
    depth = [0]

    def interrupted(frame: library.Frame, tasks: int, threads: int) -> None:
        depth[0] += 1
        if depth[0] == 1:
            kernel(two)
        call(frame, tasks, threads)

    monkeypatch.setattr(library.Frame, "__call__", interrupted)
    assert np.array_equal(kernel(one), want)
