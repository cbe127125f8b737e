"""`tvm-gnn tune`: search the fastest schedule of an operator on a graph and keep it."""

from __future__ import annotations

import argparse

from ..compile import tune
from ..graph import datasets
from ..tuning.budget import parse_budget
from ..tuning.report import TuneReport
from . import options
from .progress import TuneProgress


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Describe the command."""
    parser = commands.add_parser("tune", help="search the fastest schedule of an operator on a graph and keep it")
    parser.add_argument("--dataset", required=True, help="built-in name, name under TVM_GNN_DATA, file, or synthetic:…")
    options.add_op(parser)
    parser.add_argument("--feat", required=True, help="feature width; several, separated by commas, share the budget")
    parser.add_argument("--target", default="cpu", help="device to tune for (default: cpu)")
    parser.add_argument("--budget", help="wall-clock time for everything, such as 60s or 5m (default: 60s)")
    parser.add_argument("--trials", type=int, help="number of trials, those recorded earlier included")
    options.add_seed(parser, "the search and the measured inputs")
    options.add_json(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Run the command; returns the exit code."""
    budget = "60s" if arguments.budget is None and arguments.trials is None else arguments.budget
    parse_budget(budget, arguments.trials)  # before a large file is read
    feats = options.integers("feat", arguments.feat)
    graph = datasets.load(arguments.dataset)
    with TuneProgress(quiet=arguments.json) as progress:
        reports = tune(
            graph,
            [(arguments.op, feat) for feat in feats],
            target=arguments.target,
            budget=budget,
            trials=arguments.trials,
            seed=arguments.seed,
            observer=progress,
        )
    if arguments.json:
        plain = [report.as_dict() for report in reports]
        options.print_json(plain[0] if len(plain) == 1 else {"reports": plain})
    else:
        for report in reports:
            _show(report)
    return 0


def _show(report: TuneReport) -> None:
    trials = report.trials
    failed = ", ".join(f"{count} {status}" for status, count in trials["failures"].items())
    measured = f"{trials['measured']} in {report.tune_s:.1f} s, {trials['reused']} known before"
    rows = [
        ("graph", f"{report.dataset} ({report.signature['bucket']})"),
        ("operator", f"{report.op}, feat {report.feat}, {report.dtype}, {report.target}, {report.threads} threads"),
        ("trials", f"{measured}; failed: {failed}" if failed else measured),
        ("schedule", ", ".join(f"{name} {value}" for name, value in report.decisions.items())),
        ("time", f"{report.best_ms:.4g} ms, {report.speedup:.2f}x the default schedule ({report.default_ms:.4g} ms)"),
        ("artifact", report.artifact or "not kept"),
        ("records", report.records),
        ("load it", f'tvm_gnn.load(graph, "{report.op}", feat={report.feat})'),
    ]
    if report.interrupted:
        rows.append(("note", "interrupted: this is the best so far"))
    rows += [("warning", warning) for warning in report.warnings]
    options.print_columns(rows)
