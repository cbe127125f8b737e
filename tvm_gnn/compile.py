"""The one flow from a graph and an operator to a kernel: tune it, or look up, build if need be, and load it."""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Sequence
from functools import partial
from typing import Any, overload

import numpy as np

from . import config, untuned
from .arguments import integer
from .cache import Artifact, RecordLog, find
from .errors import ArtifactError, InputError, InputTypeError
from .graph import Graph
from .graph.signature import comparable_distance
from .ops import Operator, parse_op
from .ops.dims import RowShape
from .ops.dtypes import dtype_name, largest_number
from .runtime.kernel import BoundLibrary, Kernel, Provenance
from .runtime.library import Library
from .toolchain.target import detect
from .tuning.budget import parse_budget
from .tuning.report import Observer, Silent, TuneReport
from .tuning.task import Task
from .untuned import artifact_store, open_artifact


@overload
def tune(
    graph: Graph,
    op: str | Operator,
    feat: int | tuple[int, int],
    *,
    target: str = ...,
    budget: str | float | None = ...,
    trials: int | None = ...,
    seed: int = ...,
    dtype: Any = ...,
    edge_feat: RowShape | None = ...,
    edge_order: str = ...,
    observer: Observer | None = ...,
) -> TuneReport: ...
@overload
def tune(
    graph: Graph,
    op: Sequence[tuple[str | Operator, int | tuple[int, int]]],
    *,
    target: str = ...,
    budget: str | float | None = ...,
    trials: int | None = ...,
    seed: int = ...,
    dtype: Any = ...,
    edge_feat: RowShape | None = ...,
    edge_order: str = ...,
    observer: Observer | None = ...,
) -> list[TuneReport]: ...
def tune(
    graph: Graph,
    op: str | Operator | Sequence[tuple[str | Operator, int | tuple[int, int]]],
    feat: int | tuple[int, int] | None = None,
    *,
    target: str = "cpu",
    budget: str | float | None = None,
    trials: int | None = None,
    seed: int = 0,
    dtype: Any = "float32",
    edge_feat: RowShape | None = None,
    edge_order: str = "caller",
    observer: Observer | None = None,
) -> TuneReport | list[TuneReport]:
    """Search the fastest schedule of an operator on a graph and keep it for `load`.

    Parameters
    ----------
    graph : Graph
    op : operator, its name (``"u_mul_e_sum"``), or a list of (op, feat) that share the budget
    feat : int or (int, int)
        Feature width F, or heads and width per head; not with a list.
    edge_feat : shape, optional
        Shape of an edge's values: ``()`` for one each, ``(H, 1)`` for one per head, `feat` for one per feature.
        Default: one each, one per head where `feat` has heads, and `feat` for copy_e.
    budget : str or float, optional
        Wall-clock time for everything, such as ``"60s"``; default 60 s when `trials` is not given either.
    trials : int, optional
        Number of finished trials, counting those that earlier runs recorded.
    seed : int
    dtype : str, or a dtype of numpy or torch
        Of features, edge values and results: ``float32``, ``float64``, ``float16`` or ``bfloat16``. The half types are
        computed and summed in float32 and rounded once.
    edge_order : {"caller", "csr"}
        Order in which calls will pass edge values.
    observer : Observer, optional
        Told of every trial.

    Returns
    -------
    TuneReport, or a list of them for a list of operators

    Raises
    ------
    InputError, InputTypeError
        An argument breaks its rule, ``CC`` names no compiler, or the cache or the records cannot be written.
    TuneError
        Not even the default schedule gave right results.
    DependencyError
        TVM, xgboost or a compiler is missing.
    """
    if budget is None and trials is None:
        budget = "60s"
    seed = integer("seed", seed)
    several = isinstance(op, Sequence) and not isinstance(op, str)
    if several and feat is not None:
        raise InputError(f"feat: is part of each (op, feat) of the list (got feat={feat} too).")
    pairs = _pairs(op) if several else [(op, feat)]
    tasks = [
        make_task(graph, one, width, target=target, dtype=dtype, edge_feat=edge_feat, edge_order=edge_order)
        for one, width in pairs
    ]
    for task in tasks:
        if task.is_empty:
            raise InputError(
                f"graph: has nothing to tune for feat={task.feat} (got {graph!r}): every output element is an empty "
                "sum. load() serves it as it is."
            )
    from .tuning.tuner import Tuner  # the search; inference loads none of it

    models = config.current().cache_dir / "models"
    total_s = parse_budget(budget, trials).seconds
    share_s = None if total_s is None else total_s / len(tasks)
    reports = [
        Tuner(
            task, parse_budget(share_s, trials), record_log(), artifact_store(), models, observer or Silent(), seed
        ).run()
        for task in tasks
    ]
    return reports if several else reports[0]


def load(
    graph: Graph,
    op: str | Operator,
    feat: int | tuple[int, int] | None = None,
    *,
    target: str = "cpu",
    threads: int | None = None,
    dtype: Any = "float32",
    edge_feat: RowShape | None = None,
    edge_order: str = "caller",
    fill: float = 0.0,
    deterministic: bool | None = None,
) -> Kernel:
    """The best kernel known for an operator on a graph. Never tunes.

    An artifact tuned for this graph is used, else one for a graph of the same bucket, else the nearest. Without any,
    the cost model that comes with the package picks the schedule, if it has seen such tasks and is sure of a gain, else
    it is the default; that is built once (about a second) and kept. ``kernel.source`` says which it was. All are
    equally right on any graph; only the speed may differ.

    Parameters
    ----------
    graph : Graph
    op : operator or its name
    feat : int or (int, int)
        Feature width F >= 0, or heads and width per head.
    dtype : str, or a dtype of numpy or torch
        As for `tune`; under torch's autocast the one that autocast casts to.
    edge_feat : shape, optional
        As for `tune`.
    threads : int, optional
        Most threads to use; default: what affinity, cgroup quota and environment allow. Artifacts are for the number
        of threads that they were tuned with: with another number this one's own artifacts or the default are used.
        ``TVM_GNN_NUM_THREADS`` sets the number for `tune`.
    edge_order : {"caller", "csr"}
        Order in which calls pass edge values; ``"csr"`` after `Graph.to_csr_order` saves the permutation per call.
    fill : float
        What rows without an edge hold, of operators that reduce the edges of every destination.
    deterministic : bool, optional
        Serve the default schedule whatever has been tuned, so that every process and number of threads computes the
        same bits; default: what ``torch.use_deterministic_algorithms`` says, if torch is imported. A tuned schedule
        gives the same bits in every call too, but another one may add in another order.

    Returns
    -------
    Kernel
        ``y = kernel(x[, w])``, or what else the operator takes and gives.

    Raises
    ------
    InputError, InputTypeError
        An argument breaks its rule, or ``CC`` names no compiler.
    BuildError
        There is no artifact, and the default cannot be built.
    DependencyError
        There is no artifact, and TVM or a compiler to build the default is missing.
    """
    task = make_task(
        graph, op, feat, target=target, threads=threads, dtype=dtype, edge_feat=edge_feat, edge_order=edge_order
    )
    options = {"fill": _checked_fill(task, fill), "deterministic": _is_deterministic(deterministic)}
    if task.is_empty:
        return _kernel(task, None, Provenance("default"), options)
    found = None if options["deterministic"] else _find(task)
    if found is not None:
        artifact, level, library = found
        provenance = Provenance(level, dict(artifact.decisions), str(artifact.path), dict(artifact.measured))
        return _kernel(task, library, provenance, options)
    chosen = None if options["deterministic"] else untuned.predicted(task)
    library, provenance = chosen or untuned.default(task)
    return _kernel(task, library, provenance, options)


def make_task(
    graph: Any,
    op: Any,
    feat: Any,
    *,
    target: str = "cpu",
    threads: int | None = None,
    dtype: Any = "float32",
    edge_feat: RowShape | None = None,
    edge_order: str = "caller",
) -> Task:
    """The checked arguments of `tune` and `load` as a task."""
    if not isinstance(graph, Graph):
        raise InputTypeError(f"graph: must be a tvm_gnn.Graph (got {type(graph).__name__}). See Graph.from_edge_index.")
    if feat is None:
        raise InputTypeError("feat: the feature width is needed (got none).")
    return Task(graph, parse_op(op), feat, dtype_name(dtype), edge_order, detect(target, threads), edge_feat)


def record_log() -> RecordLog:
    """The user's tuning records."""
    return RecordLog(config.current().log_dir / "trials.jsonl")


def _checked_fill(task: Task, fill: Any) -> float:
    if isinstance(fill, bool) or not isinstance(fill, int | float | np.number):
        raise InputTypeError(f"fill: must be a number (got {fill!r}).")
    if fill == 0:
        return 0.0
    if task.op.reduced is None:
        raise InputError(
            f"fill: must be 0 for {task.op.name}, which does not reduce the edges of a destination to one row (got "
            f"{fill})."
        )
    value = float(fill)
    if math.isfinite(value) and abs(value) > largest_number(task.dtype):
        raise InputError(f"fill: must be in the range of {task.dtype} (got {fill}).")
    return value


def _is_deterministic(deterministic: Any) -> bool:
    if deterministic is None:
        torch = sys.modules.get("torch")
        return torch is not None and bool(torch.are_deterministic_algorithms_enabled())
    if not isinstance(deterministic, bool | np.bool_):
        raise InputTypeError(f"deterministic: must be True, False or None (got {deterministic!r}).")
    return bool(deterministic)


def _kernel(task: Task, library: Library | None, provenance: Provenance, options: dict[str, Any]) -> Kernel:
    bound = None
    if library is not None:
        bound = BoundLibrary(library, task.template.ARGUMENTS, task.launch(provenance.decisions))
    again = partial(
        load,
        task.graph,
        task.op.name,
        task.feat,
        threads=task.target.threads,
        dtype=task.dtype,
        edge_feat=task.edge_feat,
        edge_order=task.edge_order,
        **options,
    )
    return Kernel(task.graph, task.problem, bound, task.target.threads, provenance, again, options["fill"])


def _find(task: Task) -> tuple[Artifact, str, Library] | None:
    """A tuned artifact that loads, and its level; what is damaged is passed over."""
    store = artifact_store()
    artifact, level = store.lookup(task.key, task.graph.digest), "exact"
    if artifact is None:
        signature = task.graph.signature
        found = find(store, task.key, signature.exact, signature.bucket, signature.features, comparable_distance)
        if found is None:
            return None
        artifact, level = found
    try:
        task.space.check(artifact.decisions)
        return artifact, level, open_artifact(artifact)
    except (ArtifactError, InputError, KeyError) as error:
        warnings.warn(f"artifact {artifact.path} is not served: {error}", RuntimeWarning, stacklevel=3)
        return None


def _pairs(ops: Any) -> list[tuple[Any, Any]]:
    pairs = []
    for each in ops:
        if not isinstance(each, tuple) or len(each) != 2:
            raise InputTypeError(f"op: a list must hold (op, feat) pairs (got {each!r}).")
        pairs.append((each[0], each[1]))
    if not pairs:
        raise InputError("op: a list of operators must not be empty.")
    return pairs
