"""Gradients through kernels: every differentiable operator against finite differences, in float64."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tvm_gnn
from tvm_gnn.errors import InputError, InputTypeError
from tvm_gnn.graph import Graph
from tvm_gnn.ops import OPS
from tvm_gnn.ops.messages import MESSAGES
from tvm_gnn.ops.sddmm import SDDMM_OPS
from tvm_gnn.ops.spmm import SPMM_OPS
from tvm_gnn.testing.odd_graphs import ODD_GRAPHS

torch = pytest.importorskip("torch", reason="torch is not installed")

# Isolated nodes, a rectangle, and an edge list in an order of its own.
GRAPHS = ("isolated_nodes", "unsorted_edge_list", "wide")


@pytest.fixture(scope="module")
def built_once(libraries: Any) -> Iterator[None]:
    """Default kernels come from the session's libraries: a gradient needs several."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tvm_gnn.tuning.builder.build_once", lambda spec, target, folder: libraries.paths([spec])[0])
        yield


pytestmark = pytest.mark.usefixtures("built_once")


def inputs_of(kernel: Any, seed: int = 0) -> list[Any]:
    """Distinct values between 0.5 and 1.5: no quotient explodes and no maximum is tied."""
    rng = np.random.default_rng(seed)
    arrays = []
    for slot in kernel._inputs:
        size = int(np.prod(slot.shape))
        values = 0.5 + (rng.permutation(size) + 0.5) / max(size, 1)
        arrays.append(torch.tensor(values.reshape(slot.shape), requires_grad=True))
    return arrays


def check_gradient(graph: Graph, op: str, feat: Any, **options: Any) -> None:
    kernel = tvm_gnn.load(graph, op, feat, dtype="float64", **options)
    torch.manual_seed(0)
    assert torch.autograd.gradcheck(kernel, inputs_of(kernel), fast_mode=True), (op, feat, options)


@pytest.mark.parametrize("op", SPMM_OPS)
def test_gradcheck_of_spmm(op: str) -> None:
    graphs = [ODD_GRAPHS[name]() for name in GRAPHS]
    for i, graph in enumerate(graphs):
        check_gradient(graph, op, (3, (2, 3), 4)[i])
    if MESSAGES[SPMM_OPS[op].message].uses_edge and SPMM_OPS[op].uses_src:
        check_gradient(graphs[1], op, (2, 3), edge_feat=(2, 3))
        check_gradient(graphs[1], op, (2, 3), edge_feat=())


@pytest.mark.parametrize("op", [name for name in SDDMM_OPS if name != "copy_e"])
def test_gradcheck_of_sddmm(op: str) -> None:
    graphs = [ODD_GRAPHS[name]() for name in GRAPHS]
    for i, graph in enumerate(graphs):
        check_gradient(graph, op, (3, (2, 3), 4)[i])
    sddmm = SDDMM_OPS[op]
    if "e" in (sddmm.lhs, sddmm.rhs) and not sddmm.reduces:
        check_gradient(graphs[1], op, (2, 3), edge_feat=(2, 1))
        check_gradient(graphs[1], op, 3, edge_feat=())


@pytest.mark.parametrize("name", GRAPHS)
def test_gradcheck_of_edge_softmax(name: str) -> None:
    for feat in (1, 3):
        check_gradient(ODD_GRAPHS[name](), "edge_softmax", feat)


@pytest.mark.parametrize("op", ["gat", "gat(negative_slope=-0.5,attention=True)", "gatv2", "gatv2(attention=True)"])
@pytest.mark.parametrize("name", GRAPHS)
def test_gradcheck_of_attention(name: str, op: str) -> None:
    check_gradient(ODD_GRAPHS[name](), op, (2, 3))


def test_attention_that_is_not_used_has_no_gradient() -> None:
    graph = ODD_GRAPHS["wide"]()
    grads = []
    for op in ("gat", "gat(attention=True)"):
        kernel = tvm_gnn.load(graph, op, (2, 3), dtype="float64")
        arrays = inputs_of(kernel)
        y = kernel(*arrays)
        (y if op == "gat" else y[0]).sin().sum().backward()
        grads.append([array.grad for array in arrays])
    for one, other in zip(*grads, strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("op", ["u_mul_e_sum", "u_add_e_max", "copy_e_mean", "u_dot_v", "e_mul_u"])
def test_gradcheck_with_edges_in_csr_order(op: str) -> None:
    check_gradient(ODD_GRAPHS["unsorted_edge_list"](), op, 3, edge_order="csr")


@pytest.mark.parametrize("op", OPS)
def test_every_primitive_has_a_gradient(op: str) -> None:
    from tvm_gnn.runtime.autograd import custom_ops
    from tvm_gnn.runtime.autograd.rules import RULES

    assert custom_ops.RULES is RULES

    assert OPS[op].primitive in RULES


def test_the_gradient_of_a_sum_is_the_out_degree() -> None:
    graph = ODD_GRAPHS["power_law"]()
    x = torch.ones(graph.num_src, 4, requires_grad=True)
    y = tvm_gnn.load(graph, "copy_u_sum", 4)(x)
    assert y.requires_grad
    y.sum().backward()
    out_degrees = np.bincount(graph.indices, minlength=graph.num_src)
    np.testing.assert_array_equal(x.grad.numpy(), np.repeat(out_degrees[:, None], 4, axis=1))


@pytest.mark.parametrize("reduce", ["max", "min"])
def test_a_tie_sends_the_gradient_to_one_edge(reduce: str) -> None:
    graph = Graph.from_coo([0, 1, 2, 0], [0, 0, 0, 1], num_src=3, num_dst=3)
    x = torch.ones(3, 2, requires_grad=True)
    tvm_gnn.load(graph, f"copy_u_{reduce}", 2)(x).sum().backward()
    assert x.grad.tolist() == [[2.0, 2.0], [0.0, 0.0], [0.0, 0.0]]


def test_gradients_of_only_some_inputs() -> None:
    graph = ODD_GRAPHS["unsorted_edge_list"]()
    kernel = tvm_gnn.load(graph, "u_mul_e_sum", 3, dtype="float64")
    x, w = inputs_of(kernel)
    kernel(x, w.detach()).sum().backward()
    both = x.grad.clone()
    x.grad = None
    kernel(x, w).sum().backward()
    assert torch.equal(x.grad, both)
    alone = torch.autograd.grad(kernel(x.detach(), w).sum(), [w])[0]
    assert torch.equal(alone, w.grad)


def test_edge_values_keep_their_form() -> None:
    graph = ODD_GRAPHS["unsorted_edge_list"]()
    kernel = tvm_gnn.load(graph, "u_mul_e_sum", 3)
    x = torch.rand(graph.num_src, 3)
    w = torch.rand(graph.num_edges, 1, requires_grad=True)
    kernel(x, w).sum().backward()
    assert w.grad.shape == w.shape


def test_scores_of_one_head_keep_their_form() -> None:
    kernel = tvm_gnn.load(ODD_GRAPHS["unsorted_edge_list"](), "gat", 3, dtype="float64")
    z, *scores = inputs_of(kernel)
    flat = [each.detach()[:, 0].clone().requires_grad_() for each in scores]
    kernel(z, *scores).square().sum().backward()
    kernel(z, *flat).square().sum().backward()
    for one, other in zip(flat, scores, strict=True):
        assert one.grad.shape == one.shape
        torch.testing.assert_close(one.grad, other.grad[:, 0], rtol=0, atol=0)


def test_views_strides_and_accumulation() -> None:
    graph = ODD_GRAPHS["wide"]()
    kernel = tvm_gnn.load(graph, "copy_u_mean", 3)
    base = torch.rand(3, graph.num_src, requires_grad=True)
    y = kernel(base.t())
    (y * torch.arange(3.0)).sum().backward()
    first = base.grad.clone()
    (kernel(base.t()) * torch.arange(3.0)).sum().backward()
    assert torch.equal(base.grad, 2 * first)


def test_no_graph_is_recorded_without_need() -> None:
    graph = ODD_GRAPHS["wide"]()
    kernel = tvm_gnn.load(graph, "copy_u_sum", 3)
    x = torch.rand(graph.num_src, 3, requires_grad=True)
    with torch.no_grad():
        assert not kernel(x).requires_grad
    with torch.inference_mode():
        assert not kernel(x).requires_grad
    assert not kernel(x.detach()).requires_grad
    assert kernel(x).grad_fn is not None


def test_empty_graphs_have_gradients_of_zero() -> None:
    for name in ("zero_edges", "no_destination", "empty"):
        graph = ODD_GRAPHS[name]()
        x = torch.rand(graph.num_src, 3, requires_grad=True)
        tvm_gnn.load(graph, "copy_u_sum", 3)(x).sum().backward()
        assert x.grad.shape == x.shape
        assert not x.grad.any()


def test_what_is_recorded_keeps_the_kernel_alive_and_no_longer() -> None:
    graph = ODD_GRAPHS["wide"]()
    kernel = tvm_gnn.load(graph, "u_mul_e_sum", 3)
    x = torch.rand(graph.num_src, 3, requires_grad=True)
    y = kernel(x, torch.rand(graph.num_edges))
    gone = weakref.ref(kernel)
    del kernel
    gc.collect()
    y.sum().backward()
    assert x.grad is not None
    del y
    assert gone() is None


def test_saved_tensors_changed_in_place_are_noticed() -> None:
    graph = ODD_GRAPHS["wide"]()
    kernel = tvm_gnn.load(graph, "u_mul_e_sum", 3)
    x, w = torch.rand(graph.num_src, 3, requires_grad=True), torch.rand(graph.num_edges)
    y = kernel(x, w)
    w.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_a_kernel_that_load_did_not_make_says_so(make_kernel: Any) -> None:
    graph = ODD_GRAPHS["wide"]()
    x = torch.rand(graph.num_src, 3, requires_grad=True)
    y = make_kernel(graph, "copy_u_sum", 3)(x)
    with pytest.raises(ValueError, match="kernel: must be made by load"):
        y.sum().backward()


def test_training_moves_towards_the_target(tmp_path: Path) -> None:
    graph = ODD_GRAPHS["power_law"]()
    torch.manual_seed(0)
    kernel = tvm_gnn.load(graph, "u_mul_e_mean", 8)
    layer = torch.nn.Linear(8, 8)
    w = torch.nn.Parameter(torch.ones(graph.num_edges))
    x, target = torch.rand(graph.num_src, 8), torch.rand(graph.num_dst, 8)
    optimiser = torch.optim.Adam([*layer.parameters(), w], lr=0.05)
    losses = []
    for _ in range(60):
        optimiser.zero_grad()
        loss = (kernel(layer(x), w) - target)[graph.in_degrees > 0].square().mean()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] / 3


def test_second_derivatives_are_refused_by_name() -> None:
    kernel = tvm_gnn.load(ODD_GRAPHS["wide"](), "u_mul_e_sum", 3, dtype="float64")
    x, w = (each.requires_grad_() for each in inputs_of(kernel))
    (gradient,) = torch.autograd.grad(kernel(x, w).pow(2).sum(), x, create_graph=True)
    with pytest.raises(InputError, match="kernel: has no second derivatives"):
        gradient.sum().backward()


def test_another_kind_of_array_beside_a_recorded_tensor_is_refused_by_name() -> None:
    kernel = tvm_gnn.load(ODD_GRAPHS["wide"](), "u_mul_e_sum", 3, dtype="float64")
    x, w = inputs_of(kernel)
    with pytest.raises(InputTypeError, match=r"w: must be a torch array like the other arguments \(got ndarray\)"):
        kernel(x.requires_grad_(), w.detach().numpy())
