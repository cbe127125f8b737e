"""Options that several commands share."""

from __future__ import annotations

import argparse

from ..errors import InputError


def add_json(parser: argparse.ArgumentParser) -> None:
    """``--json``."""
    parser.add_argument("--json", action="store_true", help="print one JSON object on standard output, nothing else")


def add_op(parser: argparse.ArgumentParser, required: bool = True) -> None:
    """``--op``."""
    parser.add_argument("--op", required=required, help="operator, such as u_mul_e_sum or copy_u_mean")


def add_seed(parser: argparse.ArgumentParser, what: str) -> None:
    """``--seed``."""
    parser.add_argument("--seed", type=_seed, default=0, help=f"seed of {what} (default: 0)")


def split(name: str, text: str) -> list[str]:
    """The words of a comma-separated option; raises `InputError` when there is none.

    Commas inside a ``synthetic:`` dataset separate its settings: ``cora,synthetic:grid:rows=9,cols=9`` are two names.
    """
    words: list[str] = []
    for word in text.split(","):
        if words and words[-1].startswith("synthetic:") and "=" in word and ":" not in word:
            words[-1] += f",{word}"
        elif word.strip():
            words.append(word.strip())
    if not words:
        raise InputError(f"{name}: must name at least one (got {text!r}).")
    return words


def integers(name: str, text: str) -> list[int]:
    """The integers of a comma-separated option; raises `InputError` on anything else."""
    try:
        return [int(word) for word in split(name, text)]
    except ValueError:
        raise InputError(f"{name}: must be integers separated by commas (got {text!r}).") from None


def _seed(text: str) -> int:
    if not text.isdecimal() or len(text) > 18:
        raise argparse.ArgumentTypeError(f"must be an integer of at most 18 digits, not negative (got {text!r})")
    return int(text)
