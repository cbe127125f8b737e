"""Kernels for tasks that nobody tuned: of the predicted schedule or the default one, built once and kept."""

from __future__ import annotations

import warnings
from pathlib import Path

from . import config
from .cache import DEFAULT_ENTRY, KERNEL_FILE, Artifact, ArtifactStore, TaskKey
from .errors import ArtifactError, BuildError
from .runtime.kernel import Provenance
from .runtime.library import Library
from .templates.space import Decisions
from .toolchain.temporary import temporary_files, temporary_folder
from .tuning import prediction
from .tuning.task import Task


def artifact_store() -> ArtifactStore:
    """The user's artifact store."""
    return ArtifactStore(config.current().cache_dir)


def code_key(task: Task, decisions: Decisions) -> TaskKey:
    """Key of an untuned schedule's library: of the task and the code, the graph decides only the launch."""
    code = " ".join(f"{name}={value}" for name, value in task.code_spec(decisions)["code"].items())
    return TaskKey({**task.key.as_dict(), "schedule": code})


def predicted_key(task: Task) -> TaskKey | None:
    """Key of what the model predicts for each graph; None where there is no model for the task."""
    model = prediction.model_identity(task)
    return None if model is None else TaskKey({**task.key.as_dict(), "schedule": f"predicted by {model}"})


def open_artifact(artifact: Artifact) -> Library:
    """The kernel library of an artifact; raises ArtifactError, or KeyError where it has none."""
    try:
        return Library(artifact.files[KERNEL_FILE])
    except ArtifactError:
        # The cache may lie on a file system mounted noexec: load a private copy.
        library = artifact.files[KERNEL_FILE].read_bytes()
        with temporary_folder(ArtifactError) as folder:
            copy = folder / KERNEL_FILE
            with temporary_files(ArtifactError, folder):
                copy.write_bytes(library)
            return Library(copy)


def predicted(task: Task) -> tuple[Library, Provenance] | None:
    """The kernel of the schedule that the model expects to be fastest; None where the default is to serve.

    What was predicted for a graph is kept, so that later loads neither ask the model nor build anything.
    """
    key = predicted_key(task)
    if key is None:
        return None
    store = artifact_store()
    known = store.lookup(key, task.graph.digest)
    if known is not None:
        try:
            decisions = task.space.check(known.decisions)
            return open_artifact(known), _provenance(task, decisions, str(known.path), dict(known.measured))
        except (ArtifactError, ValueError, KeyError):
            pass  # predict it again
    found = prediction.predict(task)
    if found is None:
        return None
    decisions = found.decisions
    expected = {"expected_speedup": round(found.expected_speedup, 4)}
    library, path = built(task, decisions)
    if path is not None:
        try:
            files = {KERNEL_FILE: Path(path) / KERNEL_FILE}
            kept = store.publish(
                key, task.graph.digest, files, graph=task.graph_fields, decisions=decisions, measured=expected
            )
            path = str(kept.path)
        except ArtifactError as error:
            warnings.warn(f"what was predicted is not kept: {error}", RuntimeWarning, 4)
    return library, _provenance(task, decisions, path, expected)


def default(task: Task) -> tuple[Library, Provenance]:
    """The kernel of the default schedule."""
    library, path = built(task, task.space.default)
    return library, Provenance("default", dict(task.space.default), path)


def built(task: Task, decisions: Decisions) -> tuple[Library, str | None]:
    """The library of a schedule, built at most once per task and code, and where it is kept.

    Raises
    ------
    BuildError
        It cannot be built.
    DependencyError
        TVM or a compiler is missing.
    """
    key = code_key(task, decisions)
    what = "default" if decisions == task.space.default else "predicted"
    store = artifact_store()
    artifact = store.lookup(key, DEFAULT_ENTRY)
    if artifact is not None:
        try:
            return open_artifact(artifact), str(artifact.path)
        except (ArtifactError, KeyError):
            pass  # build it again
    from .tuning.builder import build_once

    with temporary_folder(BuildError) as folder:
        # A process of its own: inference keeps clear of `import tvm`, and of LLVM should it crash.
        library = build_once(task.code_spec(decisions), task.target, folder)
        try:
            kept = store.publish(key, DEFAULT_ENTRY, {KERNEL_FILE: library}, decisions=decisions)
        except ArtifactError as error:
            warnings.warn(f"the {what} kernel is not kept, each process builds it: {error}", RuntimeWarning, 4)
            return Library(library), None
        return open_artifact(kept), str(kept.path)


def _provenance(task: Task, decisions: Decisions, path: str | None, measured: dict[str, float]) -> Provenance:
    if decisions == task.space.default:
        return Provenance("default", dict(decisions), path)
    return Provenance("predicted", dict(decisions), path, measured)
