"""Options that several commands share."""

from __future__ import annotations

import argparse
from typing import Any

from ..errors import InputError


def add_json(parser: argparse.ArgumentParser) -> None:
    """``--json``."""
    parser.add_argument("--json", action="store_true", help="print one JSON object on standard output, nothing else")


def add_op(parser: argparse.ArgumentParser, required: bool = True) -> None:
    """``--op``."""
    parser.add_argument("--op", required=required, help="operator, such as u_mul_e_sum or copy_u_mean")


def add_operands(parser: argparse.ArgumentParser) -> None:
    """``--edge-feat`` and ``--dtype``; `operands` reads them."""
    parser.add_argument(
        "--edge-feat", help="shape of an edge's values: 1, 4x1 or that of --feat (default: one, or one per head)"
    )
    parser.add_argument("--dtype", default="float32", help="of features and edge values (default: float32)")


def operands(arguments: argparse.Namespace) -> dict[str, Any]:
    """The keywords ``dtype`` and ``edge_feat`` of `tvm_gnn.tune` and `tvm_gnn.load`."""
    shape = None
    if arguments.edge_feat is not None:
        shapes = feature_shapes("edge-feat", arguments.edge_feat)
        if len(shapes) > 1:
            raise InputError(f"edge-feat: must be one shape (got {arguments.edge_feat!r}).")
        shape = shapes[0] if isinstance(shapes[0], tuple) else (shapes[0],)
    return {"dtype": arguments.dtype, "edge_feat": shape}


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


def feature_shapes(name: str, text: str) -> list[int | tuple[int, ...]]:
    """Feature widths of a comma-separated option, each ``64`` or heads and width as ``4x16``."""
    try:
        shapes = [tuple(int(part) for part in word.split("x")) for word in split(name, text)]
    except ValueError:
        raise InputError(f"{name}: must be widths such as 64 or 4x16, separated by commas (got {text!r}).") from None
    return [shape[0] if len(shape) == 1 else shape for shape in shapes]


def _seed(text: str) -> int:
    if not text.isdecimal() or len(text) > 18:
        raise argparse.ArgumentTypeError(f"must be an integer of at most 18 digits, not negative (got {text!r})")
    return int(text)
