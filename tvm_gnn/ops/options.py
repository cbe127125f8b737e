"""Options of operators: fields with a default number or truth value, written into the name where they differ from it.

``copy_u_max(arg=True)`` is `copy_u_max` with one option set.
"""

from __future__ import annotations

import dataclasses
import re
from typing import Any, TypeAlias, TypeVar

from ..errors import InputError

Option: TypeAlias = bool | int | float
AnyOperator = TypeVar("AnyOperator")

_TRUTH = {"True": True, "False": False}
_INTEGER = re.compile(r"[+-]?\d{1,18}")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


def options_of(op: Any) -> dict[str, Option]:
    """The options of a dataclass operator and their defaults."""
    return {
        field.name: field.default
        for field in dataclasses.fields(op)
        if field.init and isinstance(field.default, bool | int | float)
    }


def options_text(op: Any) -> str:
    """The options that differ from their defaults, as they stand in the operator's name; empty if none does."""
    changed = [f"{name}={getattr(op, name)!r}" for name, usual in options_of(op).items() if getattr(op, name) != usual]
    return f"({','.join(changed)})" if changed else ""


def with_options(op: AnyOperator, name: str, text: str) -> AnyOperator:
    """The operator with options as in the text ``option=value,...``.

    Parameters
    ----------
    op : dataclass operator
    name : str
        What to call it in an error.
    text : str

    Raises
    ------
    InputError
        There is no such option, it is given twice, or its value is of another type.
    """
    known = options_of(op)
    given: dict[str, Option] = {}
    for part in text.split(","):
        option, _, value = (piece.strip() for piece in part.partition("="))
        if option not in known:
            has = f"has the options {', '.join(known)}" if known else "has no options"
            raise InputError(f"op: {name} {has} (got {part.strip()!r}).")
        if option in given:
            raise InputError(f"op: {name} takes {option} once (got it twice).")
        given[option] = _value(name, option, value, type(known[option]))
    return dataclasses.replace(op, **given)  # type: ignore[type-var]


def _value(name: str, option: str, text: str, kind: type[Option]) -> Option:
    if kind is bool and text in _TRUTH:
        return _TRUTH[text]
    if kind is int and _INTEGER.fullmatch(text):
        return int(text)
    if kind is float and _NUMBER.fullmatch(text):
        return float(text)
    wanted = {bool: "True or False", int: "an integer", float: "a number"}[kind]
    raise InputError(f"op: {option} of {name} must be {wanted} (got {text!r}).")
