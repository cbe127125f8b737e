"""`tvm-gnn bench`: our kernels and their contenders in turn, alone and inside a layer."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

from ..bench import (
    CONTENDERS,
    MATRIX_OPS,
    Array,
    Bandwidth,
    Case,
    Comparison,
    Contender,
    Entrant,
    Timing,
    compare,
    measured_bandwidth,
    overview,
    select,
    taken_as,
    this_machine,
)
from ..compile import load, tune
from ..config import thread_limit
from ..errors import BuildError, DependencyError, InputError
from ..graph import Graph, datasets
from ..ops import Operator, parse_op
from ..ops.dims import feature_shape
from ..toolchain.importing import installed_version
from . import options, output
from .exit_codes import GOOD
from .interruption import interruptible
from .progress import TuneProgress

PROTOCOLS = ("alone", "layer", "both")
OURS = "tvm_gnn"


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Describe the command."""
    parser = commands.add_parser(
        "bench",
        help="measure our kernels against other libraries, in turn",
        description="Measure our kernels and those of other libraries in turn, on any dataset; results are checked "
        "first. Our time is that of a whole call with its checks and the output's memory, where `tune` tells the "
        "kernel's alone. A ratio is the median over the rounds of a peer's time divided by ours within a round.",
        epilog="Exit code 3 when none of the contenders named in --against is installed.",
    )
    parser.add_argument("--dataset", required=True, help="one or more datasets, separated by commas")
    options.add_op(parser)
    parser.add_argument("--feat", required=True, help="widths, each such as 64, or 4x16 with heads; commas between")
    parser.add_argument(
        "--against",
        default="all",
        help="contenders: names (torch, dgl, …) or a group: default (users run today), strongest, all that are here",
    )
    parser.add_argument(
        "--protocol",
        choices=PROTOCOLS,
        help="alone: the operator; layer: relu(A(XW)) with torch; both (default where torch is installed, else alone)",
    )
    parser.add_argument("--tune", metavar="BUDGET", help="tune every case first, such as 30s")
    parser.add_argument("--rounds", type=int, default=15, help="rounds of the timing (default: 15)")
    options.add_seed(parser, "the inputs and the search")
    options.add_json(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Run the command; returns the exit code."""
    op = parse_op(arguments.op)
    names = options.split("dataset", arguments.dataset)
    feats = options.feature_shapes("feat", arguments.feat)
    for feat in feats:
        if min(feature_shape(feat)) < 1:
            raise InputError(f"feat: must be at least 1 to be measured (got {arguments.feat}).")
    contenders = [contender for contender in select(arguments.against) if op.name in contender.ops]
    if not contenders:
        raise InputError(f"against: must name a contender that computes {op.name} (got {arguments.against!r}).")
    _check_named(arguments.against, contenders)
    timing = Timing(rounds=arguments.rounds)
    torch_there = installed_version("torch") != "none"
    in_layers = op.name in MATRIX_OPS and all(isinstance(feat, int) for feat in feats)
    if arguments.protocol in ("layer", "both") and not in_layers:
        raise InputError(f"protocol: must be alone for {op.name}, no matrix product (got {arguments.protocol}).")
    protocol = arguments.protocol or ("both" if torch_there and in_layers else "alone")
    protocols = _protocols(protocol)
    in_layer = "layer" in protocols
    if in_layer and not torch_there:
        raise DependencyError("torch: is needed for the layer protocol (not installed). Install tvm-gnn[torch].")
    threads = thread_limit()
    bandwidth = _bandwidth(threads) if "alone" in protocols else None
    comparisons: list[Comparison] = []
    failure: BaseException | None = None
    try:
        for case in _cases(arguments, op, names, feats):
            kernel = load(case.graph, op, case.feat, threads=threads, edge_order="csr")
            ours = _entrant(kernel, case)
            comparison = compare(
                case,
                ours,
                contenders,
                threads,
                source=kernel.source,
                alone="alone" in protocols,
                in_layer=in_layer,
                timing=timing,
                bandwidth=bandwidth,
            )
            comparisons.append(comparison)
            if not arguments.json:
                _show_case(comparison, protocols)
    except (Exception, KeyboardInterrupt) as error:
        failure = error  # what is measured by now took its time and is told all the same
    output.tell(lambda: _show_all(comparisons, protocol, threads, bandwidth, arguments.json), failure)
    return GOOD


def _bandwidth(threads: int) -> Bandwidth | None:
    """Of this machine; None where it cannot be measured, which only costs the report its bounds."""
    try:
        return measured_bandwidth(threads)
    except (DependencyError, BuildError) as error:
        output.complain(f"no bounds from memory traffic are told: {error}")
        return None


def _protocols(protocol: str) -> tuple[str, ...]:
    return ("alone", "layer") if protocol == "both" else (protocol,)


def _check_named(words: str, contenders: list[Contender]) -> None:
    """Raise `DependencyError` where contenders were asked for by name and not one of them can run here."""
    if {word.strip() for word in words.split(",")} & {"all", *(contender.group for contender in CONTENDERS.values())}:
        return
    missing = {contender.name: reason for contender in contenders if (reason := contender.missing())}
    if len(missing) == len(contenders):
        reasons = "; ".join(f"{name}: {reason}" for name, reason in missing.items())
        raise DependencyError(f"against: at least one of the contenders named must be installed (got {reasons}).")


def _cases(
    arguments: argparse.Namespace, op: Operator, names: list[str], feats: list[int | tuple[int, ...]]
) -> Iterator[Case]:
    for name in names:
        graph = datasets.load(name)
        if graph.num_edges == 0:
            raise InputError(f"dataset: {name} has no edges, there is nothing to measure.")
        for feat in feats:
            if arguments.tune:
                _tune(graph, arguments, feat)
            yield Case(graph, op, feat, seed=arguments.seed)  # type: ignore[arg-type]


def _tune(graph: Graph, arguments: argparse.Namespace, feat: Any) -> None:
    with interruptible() as interruption, TuneProgress(quiet=arguments.json) as progress:
        report = tune(
            graph,
            arguments.op,
            feat,
            budget=arguments.tune,
            seed=arguments.seed,
            edge_order="csr",
            observer=interruption.watch(progress),
        )
    if interruption.asked or report.interrupted:
        raise KeyboardInterrupt


def _entrant(kernel: Any, case: Case) -> Entrant:
    takes: Array = "numpy" if installed_version("torch") == "none" else "torch"
    fixed = [taken_as(takes, array) for array in case.inputs[len(case.arguments) :]]
    several = len(case.problem.outputs) > 1

    def run(*arguments: Any) -> Any:
        results = kernel(*arguments, *fixed)
        return results[0] if several else results

    return Entrant(OURS, run, takes)


def _report(comparisons: list[Comparison], protocol: str, threads: int, bandwidth: Bandwidth | None) -> dict[str, Any]:
    """The report: the first protocol's section at the top, with both protocols the layer's under ``layer``."""
    first, *others = _protocols(protocol)
    versions = {name: text for c in comparisons for name, text in c.versions.items()}
    return {
        "machine": {
            **this_machine(threads).as_dict(),
            "bandwidth": None if bandwidth is None else bandwidth.as_dict(),
            "contenders": versions,
        },
        "protocol": protocol,
        **_protocol_section(comparisons, first),
        **{other: _protocol_section(comparisons, other) for other in others},
    }


def _protocol_section(comparisons: list[Comparison], protocol: str) -> dict[str, Any]:
    """Cases against all peers; where peers of several groups ran, also against each group's (``groups``)."""
    section = _section(comparisons, protocol, None)
    groups = sorted({group for comparison in comparisons for group in comparison.groups.values()})
    if len(groups) > 1:
        section["groups"] = {group: _section(comparisons, protocol, group) for group in groups}
    return section


def _section(comparisons: list[Comparison], protocol: str, group: str | None) -> dict[str, Any]:
    found = [summary for comparison in comparisons if (summary := comparison.summary(protocol, group)) is not None]
    whole = overview(found)
    numbers = {"geomean": None, "min": None, "roofline_share": None} if whole is None else whole.as_dict()
    return {**numbers, "cases": [summary.as_dict() for summary in found]}


def _show_all(
    comparisons: list[Comparison], protocol: str, threads: int, bandwidth: Bandwidth | None, as_json: bool
) -> None:
    if not comparisons:
        return
    report = _report(comparisons, protocol, threads, bandwidth)
    if as_json:
        output.print_json(report)
    else:
        _show_overviews(report)


def _show_case(comparison: Comparison, protocols: tuple[str, ...]) -> None:
    for protocol in protocols:
        summary = comparison.summary(protocol)
        if summary is None:
            continue
        output.say()
        output.say(f"{summary.dataset}, {summary.op}, feat {summary.feat}, {protocol}, schedule: {summary.source}")
        rows = [("", "ms", "peer / ours"), (OURS, f"{summary.ours_ms:.4g}", "1.00")]
        for name, time_ms in sorted(summary.peers.items(), key=lambda item: item[1]):
            rows.append((name, f"{time_ms:.4g}", f"{summary.peer_ratios[name]:.2f}"))
        output.print_columns(rows, numbers=(1, 2))
        if summary.roofline is not None:
            bound_ms = summary.roofline.bound_ms
            output.say(f"memory traffic alone takes {bound_ms:.4g} ms: {bound_ms / summary.ours_ms:.0%} reached")
    for name, reason in comparison.left_out.items():
        output.say(f"left out: {name}: {reason}")


def _show_overviews(report: dict[str, Any]) -> None:
    both = report["protocol"] == "both"
    sections = {"alone": report, "layer": report["layer"]} if both else {report["protocol"]: report}
    output.say()
    for name, section in sections.items():
        if section["geomean"] is not None:
            worst = section["min_case"]
            rated = sum(case["ratio"] is not None for case in section["cases"])
            output.say(
                f"{name}: best peer / ours, geomean of {output.counted(rated, 'case')} {section['geomean']:.2f}x, "
                f"least {section['min']:.2f}x ({worst['dataset']} feat {worst['feat']}, {worst['best_peer']})"
            )
        if section["roofline_share"] is not None:
            output.say(f"median share of the bound from memory traffic: {section['roofline_share']:.0%}")
    machine = report["machine"]
    output.say(f"{machine['cpu']}, {output.counted(machine['threads'], 'thread')}, commit {machine['commit']}")
