"""`tvm-gnn doctor`: what this machine has, what is wrong with it, and what to do about it."""

from __future__ import annotations

import argparse

from ..diagnosis import diagnose
from . import options, output


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Describe the command."""
    parser = commands.add_parser("doctor", help="check versions, compiler, threads and caches")
    options.add_json(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Run the command; 0 when tuning and loading will work, 1 when something is broken."""
    findings = diagnose()
    broken = any(finding.status == "problem" for finding in findings)
    if arguments.json:
        output.print_json({"ok": not broken, "findings": [finding.as_dict() for finding in findings]})
        return int(broken)
    for finding in findings:
        output.say(f"{finding.status:8s} {finding.name}: {finding.found}")
        if finding.remedy:
            output.say(f"         → {finding.remedy}")
    return int(broken)
