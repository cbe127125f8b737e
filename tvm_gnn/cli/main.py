"""Entry point: parses the command line, runs one command, turns errors into one line and an exit code."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import NoReturn

from ..errors import DependencyError, InputError, InputTypeError, TvmGnnError
from ..version import VERSION
from . import bench, cache, doctor, tune

COMMANDS = (tune, bench, cache, doctor)

GOOD, NEGATIVE, USAGE, MISSING = 0, 1, 2, 3
INTERRUPTED = 130
EXIT_CODES = (
    "exit codes: 0 good, 1 a negative finding, 2 wrong usage or bad input, 3 a missing dependency or device, "
    "4 inconclusive, 5 refused"
)


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """One line instead of a usage block: the last line of a log should say what is wrong."""
        self.exit(USAGE, f"{self.prog}: {message} (see {self.prog} --help)\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns its exit code."""
    parser = _parser()
    options = parser.parse_args(arguments)
    try:
        code: int = options.run(options)
    except (InputError, InputTypeError) as error:
        return _fail(error, USAGE)
    except DependencyError as error:
        return _fail(error, MISSING)
    except TvmGnnError as error:
        return _fail(error, NEGATIVE)
    except KeyboardInterrupt:
        print("tvm-gnn: interrupted; finished trials are recorded", file=sys.stderr)
        return INTERRUPTED
    except MemoryError as error:
        return _fail(TvmGnnError(f"out of memory: {error}"), NEGATIVE)
    except BrokenPipeError:
        sys.stderr.close()  # the reader of our output has left; Python would complain about it while exiting
        return NEGATIVE
    except OSError as error:
        return _fail(error, NEGATIVE)
    return code


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="tvm-gnn",
        description="Tune the sparse kernels of graph neural networks per graph and per device.",
        epilog=EXIT_CODES,
    )
    parser.add_argument("--version", action="version", version=f"tvm-gnn {VERSION}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for command in COMMANDS:
        command.add_parser(commands)
    return parser


def _fail(error: BaseException, code: int) -> int:
    text = " ".join(str(error).split())
    print(f"tvm-gnn: {text}", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
