"""Reading edge lists as text (SNAP, CSV, TSV): one `source destination` pair per line."""

from __future__ import annotations

import gzip
import itertools
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray

from ..errors import DatasetError

_COMMENTS = ("#", "%")
_SEPARATORS = re.compile(r"\s*,\s*|\s+")
_INTEGER = re.compile(r"[+-]?[0-9]+")
_MAX_ID = np.iinfo(np.int64).max


def read_edge_list(path: Path) -> NDArray[np.int64]:
    """Sources and destinations, shape (2, E), in the order of the file's lines.

    Lines that start with ``#`` or ``%`` and blank lines are skipped, as is one header line of words; columns are
    separated by white space or commas, those after the second are ignored. Ids are kept as they are.

    Raises
    ------
    DatasetError
        Names the file, the line and the rule it breaks.
    """
    header_lines, delimiter = _layout(path)
    try:
        with _lines(path) as lines, warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # numpy's notice of an input without data
            warnings.simplefilter("error", DeprecationWarning)  # older numpy reads 1.5 and 10**20 through a float
            edges = np.loadtxt(
                itertools.islice(lines, header_lines, None),
                dtype=np.int64,
                comments=None,
                delimiter=delimiter,
                usecols=(0, 1),
                ndmin=2,
            )
    except (ValueError, DeprecationWarning):
        edges = None
    if edges is None or (edges.size and edges.min() < 0):
        # What numpy's fast parser cannot read may be legal (mixed separators) or has a line to be named.
        edges = np.array(list(_strict_pairs(path, header_lines)), dtype=np.int64).reshape(-1, 2)
    if edges.size == 0:
        raise DatasetError(f"{path}: must hold at least one edge (got none). Write `source destination` lines.")
    pairs: NDArray[np.int64] = edges.T
    return pairs


@contextmanager
def _lines(path: Path) -> Iterator[IO[str]]:
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", encoding="utf-8-sig", errors="surrogateescape") as lines:
        yield lines


def _layout(path: Path) -> tuple[int, str | None]:
    """Lines before the first edge, and the delimiter numpy should split at (None: white space)."""
    header_lines = 0
    with _lines(path) as lines:
        for number, line in enumerate(lines, start=1):
            if "\0" in line:
                raise DatasetError(
                    f"{path}: must be text (got a zero byte on line {number}). Is it another kind of file?"
                )
            fields = _fields(line)
            if fields and (header_lines or not _is_header(fields)):
                return number - 1, "," if "," in line else None
            if fields:
                header_lines = number
    return header_lines, None


def _is_header(fields: list[str]) -> bool:
    """Two or more words; a line of decimals is a malformed edge, not a header."""
    return len(fields) > 1 and all(re.fullmatch(r"[^\W\d][\w .\-]*", field.strip("\"'")) for field in fields[:2])


def _fields(line: str) -> list[str]:
    text = line.strip()
    return [] if not text or text.startswith(_COMMENTS) else _SEPARATORS.split(text)


def _strict_pairs(path: Path, skipped: int) -> Iterator[tuple[int, int]]:
    with _lines(path) as lines:
        for number, line in enumerate(lines, start=1):
            fields = _fields(line) if number > skipped else []
            if not fields:
                continue
            if len(fields) < 2:
                raise DatasetError(f"{path}: line {number}: must hold a source and a destination (got {fields[0]!r}).")
            yield _node_id(path, number, fields[0]), _node_id(path, number, fields[1])


def _node_id(path: Path, number: int, text: str) -> int:
    if not _INTEGER.fullmatch(text):
        raise DatasetError(f"{path}: line {number}: node ids must be integers (got {text!r}). Relabel the nodes first.")
    value = int(text) if len(text) < 40 else _MAX_ID + 1
    if not 0 <= value <= _MAX_ID:
        raise DatasetError(f"{path}: line {number}: node ids must lie in [0, 2**63) (got {text}).")
    return value
