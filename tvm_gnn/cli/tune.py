"""`tvm-gnn tune`: search the fastest schedule of an operator on a graph and keep it."""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ..compile import make_task, tune
from ..errors import InputError, TuneError
from ..graph import Graph, datasets
from ..tuning.budget import parse_budget
from ..tuning.report import TuneReport
from ..tuning.task import Task
from . import options, output
from .exit_codes import GOOD, NEGATIVE
from .interruption import Interruption, interruptible
from .progress import TuneProgress


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Describe the command."""
    parser = commands.add_parser(
        "tune",
        help="search the fastest schedule of an operator on a graph and keep it",
        description="Search the fastest schedule of an operator on a graph and keep it. The times are the kernel's "
        "alone, without the checks and the output's memory of a whole call, which `bench` includes.",
        epilog='With --json: the report of one width as an object; {"reports": [...]} only for several widths.',
    )
    parser.add_argument("--dataset", required=True, help="built-in name, name under TVM_GNN_DATA, file, or synthetic:…")
    options.add_op(parser)
    parser.add_argument(
        "--feat",
        required=True,
        help="feature width such as 64, or heads and width such as 4x16; several (64,4x16) share the budget",
    )
    options.add_operands(parser)
    parser.add_argument("--target", default="cpu", help="device to tune for (default: cpu)")
    parser.add_argument("--budget", help="wall-clock time for everything, such as 60s or 5m (default: 60s)")
    parser.add_argument("--trials", type=int, help="number of trials, those recorded earlier included")
    options.add_seed(parser, "the search and the measured inputs")
    options.add_json(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Run the command; returns the exit code. What some widths found is told also when another one fails."""
    budget = "60s" if arguments.budget is None and arguments.trials is None else arguments.budget
    total_s = parse_budget(budget, arguments.trials).seconds  # before a large file is read
    feats = options.feature_shapes("feat", arguments.feat)
    graph = datasets.load(arguments.dataset)
    more = {"target": arguments.target, **options.operands(arguments)}
    tasks = [make_task(graph, arguments.op, feat, **more) for feat in feats]
    for task in tasks:  # before the first of them takes its time
        if task.is_empty:
            raise InputError(
                f"graph: has nothing to tune for feat={task.feat} (got {graph!r}): every output is an empty sum."
            )
    share_s = None if total_s is None else total_s / len(feats)
    reports: list[TuneReport] = []
    failure: BaseException | None = None
    with interruptible() as interruption:
        try:
            for task in tasks:
                reports.append(_in_order(_tune(graph, task.feat, arguments, more, share_s, interruption), task))
                if interruption.asked or reports[-1].interrupted:
                    break
        except (Exception, KeyboardInterrupt) as error:
            failure = error
    if interruption.asked or isinstance(failure, KeyboardInterrupt) or any(report.interrupted for report in reports):
        failure = KeyboardInterrupt(_what_is_kept(feats, reports))
    output.tell(lambda: _show_all(reports, tasks, arguments, share_s), failure)
    return GOOD if all(report.artifact for report in reports) else NEGATIVE


def _tune(
    graph: Graph,
    feat: int | tuple[int, int],
    arguments: argparse.Namespace,
    more: dict[str, Any],
    budget_s: float | None,
    interruption: Interruption,
) -> TuneReport:
    with TuneProgress(quiet=arguments.json) as progress:
        try:
            return tune(
                graph,
                arguments.op,
                feat,
                **more,
                budget=budget_s,
                trials=arguments.trials,
                seed=arguments.seed,
                observer=interruption.watch(progress),
            )
        except TuneError as error:
            raise TuneError(f"feat {feat}: {error}") from error


def _in_order(report: TuneReport, task: Task) -> TuneReport:
    """Decisions in the order of the space: those of a record are sorted by name."""
    names = [each.name for each in task.space.decisions if each.name in report.decisions]
    return replace(report, decisions={name: report.decisions[name] for name in names})


def _show_all(
    reports: list[TuneReport], tasks: list[Task], arguments: argparse.Namespace, budget_s: float | None
) -> None:
    if not arguments.json:
        for report, task in zip(reports, tasks, strict=False):  # an interrupted run has fewer reports
            _show(report, _notes(report, task, arguments.trials, budget_s, len(tasks)))
    elif reports:
        plain = [report.as_dict() for report in reports]
        output.print_json({"reports": plain} if len(tasks) > 1 else plain[0])


def _notes(report: TuneReport, task: Task, trials: int | None, budget_s: float | None, widths: int) -> list[str]:
    """What a reader of the numbers would otherwise have to guess."""
    if report.interrupted:
        return ["interrupted: this is the best so far"]
    measured, reused = report.trials["measured"], report.trials["reused"]
    done = measured + reused
    more = ""
    if trials is not None and done >= trials:
        more = f"all {trials} trials were known already: give more trials to go on" if not measured else ""
    elif done >= sum(1 for _ in task.space):
        more = "every schedule of the space was known already" if not measured else ""
    elif budget_s is not None and (not measured or done == 1):
        what = "a trial" if reused else "a trial beside the default schedule"
        enough_s = math.ceil(widths * max(budget_s, report.tune_s))  # the widths share it
        more = f"the budget left no time for {what}: give more than {enough_s} s"
    notes = [more] if more else []
    if done > 1 and report.decisions == task.space.default:
        notes.append("the default schedule was kept: no candidate beat it when measured again in turn")
    return notes


def _what_is_kept(feats: Sequence[int | tuple[int, ...]], reports: list[TuneReport]) -> str:
    parts = ["interrupted"]
    for report in reports:
        kept = "is kept" if report.artifact else "could not be kept"
        parts.append(f"{'the best so far of ' * report.interrupted}feat {report.feat} {kept}")
    parts += [f"feat {feat} is not finished" for feat in feats[len(reports) :]]
    return "; ".join(parts) + ". Run the same command again to go on."


def _show(report: TuneReport, notes: list[str]) -> None:
    trials = report.trials
    failed = ", ".join(f"{count} {status}" for status, count in trials["failures"].items())
    threads = output.counted(report.threads, "thread")
    measured = f"{trials['measured']} in {report.tune_s:.1f} s, {trials['reused']} known before"
    rows = [
        ("graph", f"{report.dataset} ({report.signature['bucket']})"),
        ("operator", f"{report.op}, feat {report.feat}, {report.dtype}, {report.target}, {threads}"),
        ("trials", f"{measured}; failed: {failed}" if failed else measured),
        ("schedule", ", ".join(f"{name} {value}" for name, value in report.decisions.items())),
        ("time", f"{report.best_ms:.4g} ms, {report.speedup:.2f}x the default schedule ({report.default_ms:.4g} ms)"),
        ("artifact", report.artifact or "not kept"),
        ("records", report.records),
    ]
    if report.artifact:
        rows.append(("load it", f'tvm_gnn.load(graph, "{report.op}", feat={report.feat})'))
    rows += [("note", note) for note in notes]
    rows += [("warning", warning) for warning in report.warnings]
    output.print_columns(rows)
