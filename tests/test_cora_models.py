"""Trained Cora models, computed with our kernels: the logits and accuracies that were stored with their weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import scipy.sparse as sp  # type: ignore[import-untyped,unused-ignore]
from numpy.typing import NDArray

import tvm_gnn
from tvm_gnn import config
from tvm_gnn.graph import Graph

Array = NDArray[Any]


class Cora(NamedTuple):
    """Adjacency without and with self loops, row-normalised features, labels, and which nodes are tested."""

    graph: Graph
    looped: Graph
    features: sp.csr_array
    labels: Array
    test_mask: Array


def find(name: str) -> Path:
    for folder in config.current().data_dirs:
        for path in (folder / name, folder / "weights" / name, folder.parent / "weights" / name):
            if path.is_file():
                return path
    pytest.skip(f"no {name} under TVM_GNN_DATA")


@pytest.fixture(scope="module")
def cora() -> Cora:
    with np.load(find("cora.npz"), allow_pickle=False) as data:
        nodes, columns = int(data["num_nodes"]), int(data["num_features"])
        # Rows are sources there; the graph is symmetric.
        dst, src = np.repeat(np.arange(nodes), np.diff(data["indptr"])), data["indices"]
        ones = np.ones(len(data["feat_indices"]), np.float32)
        features = sp.csr_array((ones, data["feat_indices"], data["feat_indptr"]), shape=(nodes, columns))
        labels, test_mask = data["labels"], data["test_mask"]
    features = sp.csr_array(features.multiply(1 / np.maximum(features.sum(axis=1), 1)[:, None]), dtype=np.float32)
    loops = np.arange(nodes)
    looped = Graph.from_coo(np.append(src, loops), np.append(dst, loops), num_src=nodes, num_dst=nodes)
    return Cora(Graph.from_coo(src, dst, num_src=nodes, num_dst=nodes), looped, features, labels, test_mask)


@pytest.fixture(autouse=True)
def built_once(quick_builds: None) -> None:
    """Default kernels come from the session's libraries."""


def weights_of(model: str) -> dict[str, Array]:
    with np.load(find(f"{model}_cora.npz"), allow_pickle=False) as data:
        return {name: data[name] for name in data.files}


def elu(x: Array) -> Array:
    return np.where(x > 0, x, np.expm1(np.minimum(x, 0)))


def gcn(cora: Cora, weights: dict[str, Array]) -> Array:
    degrees = cora.looped.in_degrees.astype(np.float64)
    dst = np.repeat(np.arange(cora.looped.num_dst), cora.looped.in_degrees)
    norm = (1 / np.sqrt(degrees[dst] * degrees[cora.looped.indices])).astype(np.float32)

    def layer(x: Array, index: int) -> Array:
        kernel = tvm_gnn.load(cora.looped, "u_mul_e_sum", x.shape[1], edge_order="csr")
        return kernel(x, norm) + weights[f"b{index}"]

    hidden = np.maximum(layer(cora.features @ weights["W0"], 0), 0)
    return layer(hidden @ weights["W1"], 1)


def sage(cora: Cora, weights: dict[str, Array]) -> Array:
    """The mean is taken of the narrower side: it commutes with the product."""

    def layer(x: Any, index: int) -> Array:
        neighbours = x @ weights[f"Wn{index}"]
        mean = tvm_gnn.load(cora.graph, "copy_u_mean", neighbours.shape[1])(neighbours)
        return mean + x @ weights[f"Ws{index}"] + weights[f"b{index}"]

    return layer(np.maximum(layer(cora.features, 0), 0), 1)


def gat(cora: Cora, weights: dict[str, Array]) -> Array:
    def layer(x: Any, index: int) -> Array:
        heads, width = weights[f"as{index}"].shape
        z = (x @ weights[f"W{index}"]).reshape(-1, heads, width)
        scores = ((z * weights[f"{side}{index}"]).sum(-1) for side in ("as", "ad"))
        y: Array = tvm_gnn.load(cora.looped, "gat", (heads, width))(z, *scores)
        return y.reshape(len(y), -1) + weights[f"b{index}"]

    return layer(elu(layer(cora.features, 0)), 1)


@pytest.mark.parametrize(("model", "accuracy"), [(gcn, 0.802), (sage, 0.810), (gat, 0.834)])
def test_logits_and_accuracy_are_those_stored(cora: Cora, model: Any, accuracy: float) -> None:
    weights = weights_of(model.__name__)
    logits = model(cora, weights)
    np.testing.assert_allclose(logits, weights["logits"], atol=1e-4)
    right = logits.argmax(axis=1)[cora.test_mask] == cora.labels[cora.test_mask]
    assert round(float(right.mean()), 3) == accuracy
