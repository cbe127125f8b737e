"""The edges that g-SpMM's max and min select, of many schedules: ties, NaN and infinities among the messages."""

from __future__ import annotations

import itertools
import random
from typing import Any

import pytest

from tvm_gnn.ops.dtypes import DTYPES
from tvm_gnn.ops.messages import MESSAGES
from tvm_gnn.testing.operands import problem
from tvm_gnn.testing.schedules import TARGETS, space_of

WIDTHS = (1, 7, 33, 64)
COMBINATIONS = list(itertools.product(MESSAGES, ("max", "min"), ("int32", "int64"), ("csr", "edge_ids")))


@pytest.mark.parametrize("feat", WIDTHS)
def test_the_selected_edges_are_those_of_the_reference(matrix: Any, feat: int) -> None:
    rng = random.Random(feat)
    cases = []
    for i, (message, reduce, index_dtype, edge_order) in enumerate(rng.sample(COMBINATIONS, len(COMBINATIONS) // 3)):
        edge_feat = (feat,) if message != "copy_u" and rng.random() < 0.3 else None
        what = problem(f"{message}_{reduce}(arg=True)", feat, rng.choice(DTYPES), index_dtype, edge_order, edge_feat)
        target = list(TARGETS)[i % len(TARGETS)]
        legal = list(space_of(what, target))
        unrolled = [choice for choice in legal if choice["unroll"] == (1, 2, 4)[i // 3 % 3]]
        cases.append(matrix.Case(what, target, rng.choice(unrolled or legal)))
    matrix.check(cases)
