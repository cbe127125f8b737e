"""`tvm-gnn cache`: what is stored, and why a lookup is served from where it is."""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import Any

from ..cache import DEFAULT_ENTRY, Artifact, ArtifactStore, Explanation, explain
from ..compile import make_task
from ..errors import InputError
from ..graph import datasets
from ..graph.signature import COMPARABLE_WITHIN, feature_distance
from ..tuning.task import Task
from ..untuned import artifact_store, code_key, predicted_key
from . import options, output
from .exit_codes import GOOD


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Describe the command."""
    parser = commands.add_parser("cache", help="list stored artifacts, explain lookups")
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    listing = actions.add_parser("ls", help="list the stored artifacts")
    listing.add_argument("--defaults", action="store_true", help="also show untuned schedules, built by load")
    options.add_json(listing)
    listing.set_defaults(run=run_ls)
    explaining = actions.add_parser("explain", help="say which artifact would serve a graph, and what others lack")
    explaining.add_argument(
        "--dataset", required=True, help="built-in name, name under TVM_GNN_DATA, file, synthetic:…"
    )
    options.add_op(explaining)
    explaining.add_argument("--feat", required=True, help="feature width such as 64, or heads and width such as 4x16")
    options.add_operands(explaining)
    options.add_json(explaining)
    explaining.set_defaults(run=run_explain)


def run_ls(arguments: argparse.Namespace) -> int:
    """List the store; returns the exit code."""
    store = artifact_store()
    artifacts = sorted(store.entries(checksums=False), key=_by_dataset)
    problems = [{"path": str(path), "reason": reason} for path, reason in store.problems]
    if arguments.json:
        output.print_json(
            {
                "root": str(store.root),
                "bytes": store.total_bytes(),
                "artifacts": [_as_dict(artifact) for artifact in artifacts],
                "problems": problems,
            }
        )
        return GOOD
    tuned = [artifact for artifact in artifacts if artifact.is_tuned]
    shown = artifacts if arguments.defaults else tuned
    rows = [("graph", "op", "feat", "edge order", "ms", "speed-up", "created, UTC", "folder")]
    for artifact in shown:
        row = _as_dict(artifact)
        best_ms, speedup = row["measured"].get("best_ms"), row["measured"].get("speedup")
        rows.append(
            (
                _served_graph(artifact),
                row["key"].get("op", ""),
                row["key"].get("feat", ""),
                row["key"].get("edge_order", ""),
                f"{best_ms:.4g}" if best_ms else "",
                f"{speedup:.2f}" if speedup else "",
                row["created"][:19],
                row["path"],
            )
        )
    if shown:
        output.print_columns(rows, numbers=(2, 4, 5))
    rest = len(artifacts) - len(tuned)
    built = f" ({rest} of schedules that were not tuned: --defaults)" if len(shown) < len(artifacts) else ""
    output.say(f"{output.counted(len(artifacts), 'artifact')}{built}, {store.total_bytes()} bytes in {store.root}")
    for problem in problems:
        output.say(f"damaged: {problem['path']}: {problem['reason']}")
    return GOOD


def run_explain(arguments: argparse.Namespace) -> int:
    """Explain a lookup; returns the exit code."""
    feats = options.feature_shapes("feat", arguments.feat)
    if len(feats) > 1:
        raise InputError(f"feat: must be one width (got {arguments.feat!r}).")
    task = make_task(datasets.load(arguments.dataset), arguments.op, feats[0], **options.operands(arguments))
    signature, store = task.graph.signature, artifact_store()
    explanation = explain(
        store,
        task.key,
        signature.exact,
        signature.bucket,
        signature.features,
        feature_distance,
        COMPARABLE_WITHIN,
    )
    if explanation.level == "none" and not task.is_empty:
        explanation = _explain_untuned(task, explanation, store)
    if arguments.json:
        output.print_json(explanation.as_dict())
        return GOOD
    for line in explanation.lines():
        output.say(line)
    return GOOD


def _explain_untuned(task: Task, explanation: Explanation, store: ArtifactStore) -> Explanation:
    """What `load` serves without anything tuned; the level stays ``none`` until it has been built."""
    key = predicted_key(task)
    if key is not None:
        known = store.lookup(key, task.graph.digest)
        if known is None:
            return explanation
        if known.decisions != task.space.default:
            return replace(explanation, level="predicted", served=known.path)
    built = store.lookup(code_key(task, task.space.default), DEFAULT_ENTRY)
    return explanation if built is None else replace(explanation, level="default", served=built.path)


def _served_graph(artifact: Artifact) -> str:
    if artifact.graph is None:
        return "any (not tuned)"
    name = str(artifact.graph["name"])
    return name if artifact.is_tuned else f"{name} (predicted)"


def _by_dataset(artifact: Artifact) -> tuple[str, str, int, str]:
    key = artifact.key.as_dict()
    feat = key.get("feat", "")
    name = "" if artifact.graph is None else str(artifact.graph["name"])
    return name, key.get("op", ""), int(feat) if feat.isdecimal() else -1, str(artifact.path)


def _as_dict(artifact: Artifact) -> dict[str, Any]:
    return {
        "graph": None if artifact.graph is None else artifact.graph["name"],
        "entry": artifact.entry_name,
        "key": artifact.key.as_dict(),
        "decisions": dict(artifact.decisions),
        "measured": dict(artifact.measured),
        "created": artifact.created,
        "path": str(artifact.path),
    }
