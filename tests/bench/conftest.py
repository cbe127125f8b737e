"""Small odd graphs, and contenders made of a plain function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tvm_gnn.bench import Case, Contender
from tvm_gnn.graph import Graph


def _random(num_src: int, num_dst: int, num_edges: int, seed: int) -> Graph:
    """Parallel edges are certain, and the last third of the rows is empty."""
    rng = np.random.default_rng(seed)
    src = rng.integers(0, num_src, num_edges)
    dst = rng.integers(0, max(1, 2 * num_dst // 3), num_edges)
    return Graph.from_coo(src, dst, num_src=num_src, num_dst=num_dst)


@pytest.fixture(scope="session")
def graphs() -> dict[str, Graph]:
    no_edges = np.array([], np.int64)
    return {
        "wide": _random(23, 9, 80, seed=0),
        "tall": _random(4, 31, 60, seed=1),
        "star": Graph.from_coo(np.arange(1, 40), np.zeros(39, np.int64), num_src=40, num_dst=40),
        "one_edge": Graph.from_coo([0], [1], num_src=1, num_dst=3),
        "no_edges": Graph.from_coo(no_edges, no_edges, num_src=3, num_dst=5),
    }


@pytest.fixture
def case(graphs: dict[str, Graph]) -> Case:
    return Case(graphs["wide"], "u_mul_e_sum", 5)  # type: ignore[arg-type]


@pytest.fixture
def fake_contender() -> Callable[..., Contender]:
    """A contender that answers with the reference after `change` was applied to it."""

    def make(name: str, change: Callable[[Any], Any] = lambda y: y, **fields: Any) -> Contender:
        def build(case: Case, threads: int) -> Callable[[Any], Any]:
            answer = change(case.reference.astype(np.float32))
            return lambda x: answer

        known: dict[str, Any] = {"missing": lambda: None, "describe": lambda: f"{name} 1.0", "build": build}
        return Contender(name, fields.pop("group", "default"), **{**known, **fields})

    return make
