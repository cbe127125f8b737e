"""The command line's grammar."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any, NoReturn

from ..version import VERSION
from . import bench, cache, doctor, exit_codes, output, tune

COMMANDS = (tune, bench, cache, doctor)


class _Parser(argparse.ArgumentParser):
    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Leftovers are complained of by the command that they were given to: its help is the one to read."""
        options, leftovers = super().parse_known_args(args, namespace)
        if leftovers:
            self.error(f"unrecognized arguments: {' '.join(leftovers)}")
        return options, leftovers

    def error(self, message: str) -> NoReturn:
        """One line instead of a usage block: the last line of a log should say what is wrong."""
        output.complain(f"{self.prog}: {message} (see {self.prog} --help)")
        self.exit(exit_codes.USAGE)


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The options; their ``run`` is the command. Raises SystemExit after help, version and wrong usage."""
    parser = _Parser(
        prog="tvm-gnn",
        description="Tune the sparse kernels of graph neural networks per graph and per device.",
        epilog=exit_codes.MEANING,
    )
    parser.add_argument("--version", action="version", version=f"tvm-gnn {VERSION}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for command in COMMANDS:
        command.add_parser(commands)
    return parser.parse_args(arguments)
