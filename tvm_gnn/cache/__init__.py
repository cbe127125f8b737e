"""Tuned results on disk: task keys, tuning records, the artifact store, its lookups and their explanation.

Nothing here loads a library, starts a search or reads the environment; the folder of each store is given by the caller.
The locks are POSIX `flock`s on the data itself, so none outlives the process that holds it.
"""

from __future__ import annotations

from .artifact import DEFAULT_ENTRY, KERNEL_FILE, Artifact
from .explain import Explanation, explain
from .key import KEY_PARTS, TaskKey
from .lookup import find
from .record import Record
from .records import ReadResult, RecordLog
from .store import ArtifactStore

__all__ = [
    "DEFAULT_ENTRY",
    "KERNEL_FILE",
    "KEY_PARTS",
    "Artifact",
    "ArtifactStore",
    "Explanation",
    "ReadResult",
    "Record",
    "RecordLog",
    "TaskKey",
    "explain",
    "find",
]
