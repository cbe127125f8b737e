"""`tvm-gnn cache`: what is stored, and why a lookup is served from where it is."""

from __future__ import annotations

import argparse
from typing import Any

from ..cache import Artifact, explain
from ..compile import artifact_store, make_task
from ..graph import datasets
from ..graph.signature import comparable_distance
from . import options


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Describe the command."""
    parser = commands.add_parser("cache", help="list stored artifacts, explain lookups")
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    listing = actions.add_parser("ls", help="list the stored artifacts")
    options.add_json(listing)
    listing.set_defaults(run=run_ls)
    explaining = actions.add_parser("explain", help="say which artifact would serve a graph, and what others lack")
    explaining.add_argument(
        "--dataset", required=True, help="built-in name, name under TVM_GNN_DATA, file, synthetic:…"
    )
    options.add_op(explaining)
    explaining.add_argument("--feat", required=True, type=int, help="feature width")
    options.add_json(explaining)
    explaining.set_defaults(run=run_explain)


def run_ls(arguments: argparse.Namespace) -> int:
    """List the store; returns the exit code."""
    store = artifact_store()
    artifacts = store.entries(checksums=False)
    problems = [{"path": str(path), "reason": reason} for path, reason in store.problems]
    if arguments.json:
        options.print_json(
            {
                "root": str(store.root),
                "bytes": store.total_bytes(),
                "artifacts": [_as_dict(artifact) for artifact in artifacts],
                "problems": problems,
            }
        )
        return 0
    rows = [("graph", "op", "feat", "ms", "speed-up", "created", "folder")]
    for artifact in artifacts:
        row = _as_dict(artifact)
        best_ms, speedup = row["measured"].get("best_ms"), row["measured"].get("speedup")
        rows.append(
            (
                row["graph"] or "any (default schedule)",
                row["key"].get("op", ""),
                row["key"].get("feat", ""),
                f"{best_ms:.4g}" if best_ms else "",
                f"{speedup:.2f}" if speedup else "",
                row["created"][:19],
                row["path"],
            )
        )
    if artifacts:
        options.print_columns(rows, numbers=(2, 3, 4))
    print(f"{len(artifacts)} artifacts, {store.total_bytes()} bytes in {store.root}")
    for problem in problems:
        print(f"damaged: {problem['path']}: {problem['reason']}")
    return 0


def run_explain(arguments: argparse.Namespace) -> int:
    """Explain a lookup; returns the exit code."""
    task = make_task(datasets.load(arguments.dataset), arguments.op, arguments.feat)
    signature = task.graph.signature
    explanation = explain(
        artifact_store(), task.key, signature.exact, signature.bucket, signature.features, comparable_distance
    )
    if arguments.json:
        options.print_json(explanation.as_dict())
        return 0
    if explanation.level == "none":
        print("served from: the default schedule (nothing is tuned for this task on any graph)")
    for line in explanation.lines()[explanation.level == "none" :]:
        print(line)
    return 0


def _as_dict(artifact: Artifact) -> dict[str, Any]:
    return {
        "graph": None if artifact.graph is None else artifact.graph["name"],
        "entry": artifact.entry_name,
        "key": artifact.key.as_dict(),
        "decisions": dict(artifact.decisions),
        "launch": dict(artifact.launch),
        "measured": dict(artifact.measured),
        "created": artifact.created,
        "path": str(artifact.path),
    }
