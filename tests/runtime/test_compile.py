"""Kernels inside `torch.compile`: no graph breaks, the same numbers, few recompilations over a stream of graphs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tvm_gnn
from tvm_gnn.graph import Graph

torch = pytest.importorskip("torch", reason="torch is not installed")

# The first sizes are taken as constants, the second ones make them variables; with and without gradients.
MOST_COMPILATIONS = 4


@pytest.fixture(autouse=True)
def built_once(libraries: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr("tvm_gnn.tuning.builder.build_once", lambda spec, target, folder: libraries.paths([spec])[0])
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def random_graph(nodes: int, edges: int) -> Graph:
    rng = np.random.default_rng(nodes)
    return Graph.from_coo(rng.integers(0, nodes, edges), rng.integers(0, nodes, edges), num_src=nodes, num_dst=nodes)


class Layer(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(8, 8)

    def forward(self, kernel: Any, x: Any, w: Any) -> Any:
        return torch.relu(kernel(self.linear(x), w))


def test_a_stream_of_graphs_compiles_few_times() -> None:
    from torch._dynamo.testing import CompileCounterWithBackend

    torch.manual_seed(0)
    layer, counter = Layer(), CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(layer, fullgraph=True, backend=counter)
    for nodes, edges in ((10, 40), (12, 55), (30, 77), (31, 100), (50, 90), (51, 91)):
        kernel = tvm_gnn.load(random_graph(nodes, edges), "u_mul_e_sum", 8)
        results = []
        for run in (compiled, layer):
            x, w = torch.ones(nodes, 8, requires_grad=True), torch.ones(edges, requires_grad=True)
            y = run(kernel, x, w)
            y.square().sum().backward()
            with torch.no_grad():
                results.append((y.detach(), x.grad, w.grad, run(kernel, x, w)))
        for mine, theirs in zip(*results, strict=True):
            torch.testing.assert_close(mine, theirs)
    assert counter.frame_count <= MOST_COMPILATIONS


@pytest.mark.parametrize(
    ("op", "feat"),
    [("copy_u_max", 8), ("u_sub_e_mean", (2, 4)), ("copy_e_sum", 3), ("u_dot_v", (2, 4)), ("e_div_v", 3)],
)
def test_operators_compile_with_their_gradients(op: str, feat: Any) -> None:
    kernel = tvm_gnn.load(random_graph(20, 70), op, feat)
    compiled = torch.compile(lambda *arrays: kernel(*arrays).sin(), fullgraph=True, backend="aot_eager")
    grads = []
    for run in (compiled, lambda *arrays: kernel(*arrays).sin()):
        torch.manual_seed(1)
        arrays = [torch.rand(slot.shape).add_(0.5).requires_grad_() for slot in kernel._inputs]
        run(*arrays).sum().backward()
        grads.append([array.grad for array in arrays])
    for mine, theirs in zip(*grads, strict=True):
        torch.testing.assert_close(mine, theirs)


def test_a_kernel_held_by_a_module() -> None:
    class Model(torch.nn.Module):
        def __init__(self, kernel: Any) -> None:
            super().__init__()
            self.kernel = kernel

        def forward(self, x: Any) -> Any:
            return self.kernel(x) + 1

    graph = random_graph(20, 70)
    model = Model(tvm_gnn.load(graph, "copy_u_sum", 8))
    x = torch.rand(20, 8)
    with torch.no_grad():
        torch.testing.assert_close(torch.compile(model, fullgraph=True, backend="aot_eager")(x), model(x))


def test_wrong_shapes_are_named_while_compiling() -> None:
    kernel = tvm_gnn.load(random_graph(20, 70), "copy_u_sum", 8)
    with pytest.raises(Exception, match=r"x: must have rows of shape \(8,\) \(got \(5,\)\)"):
        torch.compile(lambda x: kernel(x), fullgraph=True, backend="aot_eager")(torch.rand(20, 5))


def test_another_graphs_size_is_named_when_it_runs() -> None:
    kernel = tvm_gnn.load(random_graph(20, 70), "copy_u_sum", 8)
    compiled = torch.compile(lambda x: kernel(x), fullgraph=True, backend="aot_eager", dynamic=True)
    compiled(torch.rand(20, 8))
    with pytest.raises(ValueError, match=r"x: must have shape \(20, 8\) \(got \(21, 8\)\)"):
        compiled(torch.rand(21, 8))


def test_a_kernel_loaded_before_torch_says_so(run_python: Any) -> None:
    code = (
        "import numpy as np, tvm_gnn\n"
        "graph = tvm_gnn.datasets.load('karate')\n"
        "kernel = tvm_gnn.load(graph, 'copy_u_sum', 8)\n"
        "import torch\n"
        "x = torch.rand(34, 8)\n"
        "run = torch.compile(lambda x: kernel(x), fullgraph=True, backend='eager')\n"
        "try:\n"
        "    run(x)\n"
        "except Exception as error:\n"
        "    print('must be loaded after torch is imported' in str(error))\n"
        "y = kernel(x.requires_grad_())\n"  # makes up for it
        "torch._dynamo.reset()\n"
        "print(torch.equal(run(x), y))\n"
    )
    assert run_python(code, timeout_s=180).split() == ["True", "True"]
