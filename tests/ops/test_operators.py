"""The operators' registry, their names, errors and costs."""

from __future__ import annotations

from typing import Any

import pytest

from tvm_gnn.errors import InputError, InputTypeError, TvmGnnError
from tvm_gnn.ops import OPS, parse_op, spmm
from tvm_gnn.ops.messages import MESSAGES, REDUCES
from tvm_gnn.ops.spmm import SPMM_OPS
from tvm_gnn.testing.odd_operator import ScaledEdges


def test_operators_are_found_by_their_names() -> None:
    for name, op in OPS.items():
        assert op.name == name
        assert parse_op(name) is op
        assert parse_op(op) is op


def test_every_message_with_every_reduce_is_an_operator() -> None:
    assert SPMM_OPS.items() <= OPS.items()
    assert set(SPMM_OPS) == {f"{message}_{reduce}" for message in MESSAGES for reduce in REDUCES}
    for op in SPMM_OPS.values():
        assert spmm(op.message, op.reduce) == op
        assert op.primitive == "spmm"
        assert op.message_op.uses_src or op.message_op.uses_edge


def test_which_operators_read_edge_values() -> None:
    assert {name for name, op in SPMM_OPS.items() if not op.uses_edge} == {f"copy_u_{reduce}" for reduce in REDUCES}
    assert {name for name, op in SPMM_OPS.items() if not op.uses_src} == {f"copy_e_{reduce}" for reduce in REDUCES}


@pytest.mark.parametrize(
    ("name", "feat", "expected"),
    [
        ("u_mul_e_sum", (16,), ()),
        ("u_add_e_max", (4, 16), (4, 1)),
        ("copy_e_sum", (16,), (16,)),
        ("copy_e_mean", (4, 16), (4, 16)),
    ],
)
def test_edge_values_by_default(name: str, feat: tuple[int, ...], expected: tuple[int, ...]) -> None:
    assert SPMM_OPS[name].default_edge_feat(feat) == expected


@pytest.mark.parametrize(
    ("wrong", "error", "text"),
    [
        ("u_mul_e_", InputError, r"op: must be .* \(got 'u_mul_e_'\)\. Did you mean u_mul_e or u_mul_e_"),
        ("", InputError, r"op: must be .* \(got ''\)\. tvm_gnn.ops.OPS holds them, such as copy_u_sum"),
        ("COPY_U_SUM", InputError, r"Did you mean copy_u_sum"),
        ("spmm", InputError, r"\(got .spmm.\)\. tvm_gnn.ops.OPS holds them"),
        ("copy_u_max(arg=True", InputError, r"Did you mean copy_u_max\?$"),
        (None, InputTypeError, r"op: must be an operator or its name \(got NoneType\)"),
        (("u_mul_e", "sum"), InputTypeError, r"op: must be an operator or its name \(got tuple\)"),
    ],
)
def test_unknown_operators(wrong: Any, error: type[TvmGnnError], text: str) -> None:
    with pytest.raises(error, match=text):
        parse_op(wrong)


def test_unknown_messages_and_reduces() -> None:
    with pytest.raises(InputError, match=r"message: must be one of copy_u, .* \(got 'u_mul'\)"):
        spmm("u_mul", "sum")
    with pytest.raises(InputError, match=r"reduce: must be one of sum, .* \(got 'product'\)"):
        spmm("u_mul_e", "product")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("copy_u_sum", 10 * 4),  # one add per edge and feature
        ("u_mul_e_sum", 10 * 4 * 2),  # a product too
        ("copy_u_mean", 10 * 4 + 3 * 4),  # one division per output element
        ("u_mul_e_mean", 10 * 4 * 2 + 3 * 4),
    ],
)
def test_flops_by_hand(name: str, expected: int) -> None:
    for feat in ((4,), (2, 2)):
        assert SPMM_OPS[name].flops(SPMM_OPS[name].dims(feat, None), num_dst=3, num_edges=10) == expected


# indptr has 4 entries, indices 10; x 5 rows and y 3 rows.
ROWS = {"src": 5, "dst": 3, "edge": 10, "once": 1}


@pytest.mark.parametrize(
    ("name", "feat", "edge_feat", "values"),
    [
        ("copy_u_sum", (4,), None, 8 * 4),
        ("u_mul_e_mean", (4,), None, 8 * 4 + 10),
        ("u_mul_e_mean", (2, 2), None, 8 * 4 + 10 * 2),  # one per head
        ("u_mul_e_mean", (2, 2), (2, 2), 8 * 4 + 10 * 4),
        ("copy_e_max", (4,), None, 3 * 4 + 10 * 4),  # reads no features
    ],
)
def test_compulsory_bytes_by_hand(name: str, feat: Any, edge_feat: Any, values: int) -> None:
    op = SPMM_OPS[name]
    dims = op.dims(feat, edge_feat)
    assert op.compulsory_bytes(dims, ROWS) == (14 + values) * 4
    assert op.compulsory_bytes(dims, ROWS, itemsize=2, index_bytes=8) == 14 * 8 + values * 2


def test_compulsory_bytes_of_any_operator() -> None:
    """Indices have their own size; an operand for the whole graph counts once."""
    op = ScaledEdges()
    dims = op.dims((4,), (3,))
    # factor 1, s 10 x 3; z 10 x 3, degree 3 indices.
    assert op.compulsory_bytes(dims, ROWS) == (14 + 1 + 30 + 30 + 3) * 4
    assert op.compulsory_bytes(dims, ROWS, itemsize=8, index_bytes=2) == (14 + 3) * 2 + (1 + 30 + 30) * 8


def test_which_operators_depend_on_the_order_of_edges() -> None:
    assert {name for name, op in SPMM_OPS.items() if not op.uses_edges} == {f"copy_u_{reduce}" for reduce in REDUCES}
    assert ScaledEdges().uses_edges


def test_inputs_and_outputs_in_order() -> None:
    def described(name: str, feat: Any) -> list[tuple[str, str, tuple[int, ...]]]:
        op = SPMM_OPS[name]
        dims = op.dims(feat, None)
        return [(each.name, each.rows, each.shape) for each in (*op.inputs(dims), *op.outputs(dims))]

    assert described("u_mul_e_sum", (2, 3)) == [("x", "src", (2, 3)), ("w", "edge", (2, 1)), ("y", "dst", (2, 3))]
    assert described("copy_u_sum", (6,)) == [("x", "src", (6,)), ("y", "dst", (6,))]
    assert described("copy_e_sum", (6,)) == [("w", "edge", (6,)), ("y", "dst", (6,))]
