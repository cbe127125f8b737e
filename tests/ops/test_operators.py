"""The operators' registry, their names, errors and costs."""

from __future__ import annotations

from typing import Any

import pytest

from tvm_gnn.errors import InputError, InputTypeError, TvmGnnError
from tvm_gnn.ops import OPS, parse_op, spmm
from tvm_gnn.ops.messages import MESSAGES, REDUCES


def test_every_message_with_every_reduce_is_an_operator() -> None:
    assert set(OPS) == {f"{message}_{reduce}" for message in MESSAGES for reduce in REDUCES}
    for name, op in OPS.items():
        assert op.name == name
        assert parse_op(name) is op
        assert parse_op(op) is op
        assert spmm(op.message, op.reduce) == op
        assert op.primitive == "spmm"
        assert op.message_op.uses_src or op.message_op.uses_edge


def test_which_operators_read_edge_values() -> None:
    assert {name for name, op in OPS.items() if not op.uses_edge} == {f"copy_u_{reduce}" for reduce in REDUCES}
    assert {name for name, op in OPS.items() if not op.uses_src} == {f"copy_e_{reduce}" for reduce in REDUCES}


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
    assert OPS[name].default_edge_feat(feat) == expected


@pytest.mark.parametrize(
    ("wrong", "error", "text"),
    [
        ("u_mul_e", InputError, r"op: must be one of copy_u_sum, .* \(got 'u_mul_e'\)"),
        ("", InputError, r"op: must be one of .* \(got ''\)"),
        ("COPY_U_SUM", InputError, r"op: must be one of"),
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
    assert OPS[name].flops(num_dst=3, num_edges=10, feat=4) == expected


def test_compulsory_bytes_by_hand() -> None:
    # indptr 4 + indices 10 entries; x 5 rows and y 3 rows of 4 features; w 10 values.
    sizes = {"num_dst": 3, "num_src": 5, "num_edges": 10, "feat": 4}
    assert OPS["copy_u_sum"].compulsory_bytes(**sizes) == 14 * 4 + 8 * 4 * 4
    assert OPS["u_mul_e_mean"].compulsory_bytes(**sizes) == 14 * 4 + 10 * 4 + 8 * 4 * 4
    assert OPS["u_mul_e_sum"].compulsory_bytes(**sizes, index_bytes=8, itemsize=2) == 14 * 8 + 10 * 2 + 8 * 4 * 2
