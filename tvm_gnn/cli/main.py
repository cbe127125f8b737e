"""Entry point: runs one command, turns errors into one line and an exit code."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from ..errors import DependencyError, InputError, InputTypeError, TvmGnnError
from . import output
from .exit_codes import INTERRUPTED, MISSING, NEGATIVE, USAGE
from .interruption import handling, leave_at_once


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns its exit code."""
    code = _guarded(arguments)
    output.settle()
    return code


def _guarded(arguments: Sequence[str] | None) -> int:
    try:
        return _command(arguments)
    except (InputError, InputTypeError) as error:
        return _fail(error, USAGE)
    except DependencyError as error:
        return _fail(error, MISSING)
    except TvmGnnError as error:
        return _fail(error, NEGATIVE)
    except KeyboardInterrupt as interrupt:
        return _fail(str(interrupt) or "interrupted", INTERRUPTED)
    except MemoryError as error:
        return _fail(f"out of memory: {error}", NEGATIVE)
    except BrokenPipeError:
        return NEGATIVE  # the reader of our output has left and wants no explanation
    except OSError as error:
        return _fail(error, NEGATIVE)


def _command(arguments: Sequence[str] | None) -> int:
    output.prepare()
    with handling(leave_at_once):
        from .parser import parse  # imports nearly everything, so this module is there early to answer Ctrl-C
    try:
        options = parse(arguments)
    except SystemExit as leaving:  # argparse has said all there is to say
        code = int(leaving.code or 0)
    else:
        code = options.run(options)
    output.flush()
    return code


def _fail(error: BaseException | str, code: int) -> int:
    output.complain(f"tvm-gnn: {error}")
    return code


if __name__ == "__main__":
    sys.exit(main())
