"""All that is printed: lines with nothing in them that a terminal would obey, and one JSON object."""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, TextIO

from ..arguments import printable
from ..errors import TvmGnnError


class OutputError(TvmGnnError):
    """Standard output does not take what a command has to say."""


def prepare() -> None:
    """Make the standard streams safe to write to, whatever the process was started with."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            # Else the next file opened gets this number, and what a child or native code prints goes into that.
            os.open(os.devnull, os.O_RDWR)
            os.set_inheritable(number, True)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            with suppress(OSError, ValueError):
                stream.reconfigure(errors="backslashreplace")


def say(line: str = "") -> None:
    """One line on standard output."""
    _write(printable(line) + "\n")


def complain(text: str) -> None:
    """One line on standard error, if that can be written: there is nowhere left to say that it cannot."""
    if sys.stderr is not None:
        with suppress(OSError, ValueError):
            sys.stderr.write(printable(" ".join(text.split())) + "\n")
            sys.stderr.flush()


def print_columns(rows: Sequence[Sequence[str]], numbers: Collection[int] = ()) -> None:
    """Rows of text as aligned columns, never cut: paths are there to be copied. Columns in `numbers` align right."""
    rows = [[printable(cell) for cell in row] for row in rows]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        cells = [
            cell.rjust(width) if column in numbers else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        say("  ".join(cells).rstrip())


def counted(number: int, noun: str) -> str:
    """The number and its noun.

    Examples
    --------
    >>> counted(1, "trial"), counted(0, "trial")
    ('1 trial', '0 trials')
    """
    return f"{number} {noun}{'' if number == 1 else 's'}"


def print_json(value: Any) -> None:
    """One JSON object on standard output."""
    _write(json.dumps(value, indent=2, default=str) + "\n")


def tell(show: Callable[[], None], failure: BaseException | None) -> None:
    """Print by `show` what there is of a run that ended with `failure`, then raise that, the worse of two troubles."""
    try:
        show()
        flush()
    except (OutputError, BrokenPipeError) as error:
        if failure is None:
            raise
        if isinstance(error, OutputError) and not isinstance(failure, OutputError):
            complain(f"tvm-gnn: {error}")
    if failure is not None:
        raise failure


def flush() -> None:
    """Hand over what was printed; raises `OutputError`, or BrokenPipeError where the reader has left."""
    if sys.stdout is not None:
        with _stdout() as stream:
            stream.flush()


def settle() -> None:
    """Drop what cannot be written, so that Python has nothing to complain about while it exits."""
    for stream in (sys.stdout, sys.stderr):
        if stream is None:
            continue
        try:
            stream.flush()
        except (OSError, ValueError, KeyboardInterrupt):
            with suppress(OSError, ValueError):
                null = os.open(os.devnull, os.O_WRONLY)
                os.dup2(null, stream.fileno())
                os.close(null)


def _write(text: str) -> None:
    with _stdout() as stream:
        stream.write(text)


@contextmanager
def _stdout() -> Iterator[TextIO]:
    if sys.stdout is None:
        raise OutputError("standard output: must be open to print the result (it is closed).")
    try:
        yield sys.stdout
    except BrokenPipeError:
        raise
    except (OSError, ValueError) as error:
        raise OutputError(f"standard output: must be writable to print the result ({error}).") from error
