"""Options that several commands share, and the printing of results."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Collection, Sequence
from typing import Any

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


def print_columns(rows: Sequence[Sequence[str]], numbers: Collection[int] = ()) -> None:
    """Rows of text as aligned columns, never cut: paths are there to be copied. Columns in `numbers` align right."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        cells = [
            cell.rjust(width) if column in numbers else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        print("  ".join(cells).rstrip())


def print_json(value: Any) -> None:
    """One JSON object on standard output."""
    json.dump(value, sys.stdout, indent=2, default=str)
    sys.stdout.write("\n")


def _seed(text: str) -> int:
    if not text.isdecimal() or len(text) > 18:
        raise argparse.ArgumentTypeError(f"must be an integer of at most 18 digits, not negative (got {text!r})")
    return int(text)
