"""Options in operator names: what parses, what is written, what is refused."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from tvm_gnn.errors import InputError, InputTypeError
from tvm_gnn.ops import OPS, Problem, SpMM, parse_op, spmm
from tvm_gnn.ops.options import options_of, options_text, with_options


@dataclass(frozen=True)
class Scored:
    """An operator with an option of every type."""

    kind: str
    slope: float = 0.2
    heads: int = 1
    attention: bool = False


def test_only_numbers_and_truth_values_with_defaults_are_options() -> None:
    assert options_of(Scored("gat")) == {"slope": 0.2, "heads": 1, "attention": False}


def test_text_has_what_differs_from_the_default_and_reads_back() -> None:
    changed = Scored("gat", slope=-1e-3, attention=True)
    assert options_text(changed) == "(slope=-0.001,attention=True)"
    assert with_options(Scored("gat"), "gat", options_text(changed)[1:-1]) == changed
    assert options_text(Scored("gat")) == ""


def test_spaces_integers_for_floats_and_defaults_are_read() -> None:
    assert with_options(Scored("gat"), "gat", " slope = 1 , heads=+4 ") == Scored("gat", slope=1.0, heads=4)
    assert with_options(Scored("gat"), "gat", "attention=False") == Scored("gat")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("alpha=1", r"op: gat has the options slope, heads, attention \(got 'alpha=1'\)"),
        ("", r"op: gat has the options slope, heads, attention \(got ''\)"),
        ("slope=1,slope=2", r"op: gat takes slope once"),
        ("slope=x", r"op: slope of gat must be a number \(got 'x'\)"),
        ("slope=", r"op: slope of gat must be a number \(got ''\)"),
        ("slope=True", r"op: slope of gat must be a number \(got 'True'\)"),
        ("heads=1.5", r"op: heads of gat must be an integer \(got '1.5'\)"),
        ("attention=1", r"op: attention of gat must be True or False \(got '1'\)"),
        ("kind=1", r"op: gat has the options"),
    ],
)
def test_what_is_not_an_option_or_its_value_is_named(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        with_options(Scored("gat"), "gat", text)


def test_operators_are_found_with_and_without_options() -> None:
    assert parse_op("copy_u_max(arg=True)") == SpMM("copy_u", "max", arg=True) == spmm("copy_u", "max", arg=True)
    assert parse_op("u_mul_e_min(arg=False)") == OPS["u_mul_e_min"]
    assert parse_op("copy_u_max(arg=True)").name == "copy_u_max(arg=True)"
    assert all("(" not in name for name in OPS)


def test_problems_keep_the_options() -> None:
    op = spmm("u_mul_e", "min", arg=True)
    problem = Problem(op, op.dims((4,), None))
    assert Problem.from_dict(problem.as_dict()) == problem


@pytest.mark.parametrize("name", ["copy_u_max(arg=True", "copy_u_best(arg=True)", "(arg=True)", "copy_u_max)"])
def test_what_is_no_name_is_refused(name: str) -> None:
    with pytest.raises(InputError, match="op: must be the name of an operator"):
        parse_op(name)


def test_arg_is_for_max_and_min_only() -> None:
    for reduce in ("sum", "mean"):
        with pytest.raises(InputError, match=rf"arg: needs a reduce .*, max or min \(got {reduce}\)"):
            spmm("copy_u", reduce, arg=True)
        with pytest.raises(InputError, match="arg: needs"):
            parse_op(f"u_mul_e_{reduce}(arg=True)")
    with pytest.raises(InputTypeError, match="arg: must be True or False"):
        spmm("copy_u", "max", arg=1)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="op: copy_u has no options"):
        parse_op("copy_u(arg=True)")
