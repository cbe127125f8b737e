"""Problems as values: what they are made of, and that nothing is lost on the way through JSON."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tvm_gnn.errors import InputError
from tvm_gnn.ops import OPS, Problem
from tvm_gnn.ops.spmm import SPMM_OPS
from tvm_gnn.testing.operands import problem

# Of what does not take every shape of features.
FEATS = {"maxk": (32, 300), "maxk_backward": (32, 300), "sort_pool": (1, 5)}


@pytest.mark.parametrize(
    ("op", "feat"), [(op, feat) for op in OPS for feat in FEATS.get(OPS[op].primitive, (5, 0, (3, 4)))]
)
def test_through_json_and_back(op: str, feat: Any) -> None:
    for what in (problem(op, feat), problem(op, feat, "float64", "int64", "edge_ids")):
        again = Problem.from_dict(json.loads(json.dumps(what.as_dict())))
        assert again == what
        assert hash(again) == hash(what)
        assert again.dims == what.dims
        assert (again.inputs, again.outputs) == (what.inputs, what.outputs)


def test_every_field_is_told_apart() -> None:
    problems = [
        problem("u_mul_e_sum", 8),
        problem("u_mul_e_max", 8),
        problem("u_mul_e_sum", (2, 4)),
        problem("u_mul_e_sum", 8, edge_feat=(8,)),
        problem("u_mul_e_sum", 8, dtype="float64"),
        problem("u_mul_e_sum", 8, index_dtype="int64"),
        problem("u_mul_e_sum", 8, edge_order="edge_ids"),
    ]
    assert len(set(problems)) == len(problems)
    assert len({json.dumps(what.as_dict()) for what in problems}) == len(problems)


def test_other_keys_are_ignored() -> None:
    what = problem("u_mul_e_sum", (2, 3))
    assert Problem.from_dict({**what.as_dict(), "code": {"lanes": 8}}) == what


def test_widths_and_sizes() -> None:
    per_head = problem("u_mul_e_sum", (3, 5), "float64")
    assert (per_head.width, per_head.edge_width, per_head.itemsize) == (15, 3, 8)
    assert problem("u_mul_e_sum", 15).edge_width == 1
    assert problem("copy_e_sum", 15).edge_width == 15
    assert problem("copy_u_sum", (3, 5)).edge_width == 1  # reads none
    x, w = per_head.inputs
    assert per_head.dtype_of(x) == per_head.dtype_of(w) == "float64"


def test_a_wrong_dtype() -> None:
    with pytest.raises(InputError, match=r"^dtype: must be one of float32, .* \(got 'int32'\)"):
        Problem(SPMM_OPS["copy_u_sum"], problem("copy_u_sum", 4).dims, "int32")
