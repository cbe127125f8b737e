"""A stored artifact and its manifest: what was built, for which task and graph, and the checksum of every file."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import xxhash

from ..errors import ArtifactError, InputError
from .fields import (
    Decisions,
    ErrorClass,
    JsonObject,
    decision_fields,
    dump,
    graph_fields,
    integer,
    json_object,
    measured_fields,
    nonempty_text,
    parse_object,
    utc_now,
    utc_time,
)
from .key import TaskKey

SCHEMA = 1
MANIFEST_NAME = "manifest.json"
DEFAULT_ENTRY = "default"
# The file of an entry that holds the kernel.
KERNEL_FILE = "kernel.so"

_SAFE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_CHECKSUM = re.compile(r"[0-9a-f]{32}")


class FileSeal(NamedTuple):
    """Size in bytes and XXH3-128 of a file, as its manifest says they are."""

    size_bytes: int
    checksum: str


@dataclass(frozen=True, kw_only=True)
class Artifact:
    """One version of one entry of the store; plain data, nothing is loaded.

    Attributes
    ----------
    key : TaskKey
        The task it was built for.
    entry_name : str
        The graph's exact signature, or `DEFAULT_ENTRY`.
    path : Path
        Folder of this version. It stays in place for a while after the entry is replaced, so that it can be loaded.
    files : dict of str to Path
        The stored files by name, inside `path`.
    graph : dict or None
        As in a `Record`; None for the default entry.
    decisions : dict of str to int, str or bool
        The schedule's decisions.
    measured : dict of str to float
        best_ms, default_ms, speedup and the like, or empty; positive numbers.
    created : str
        ISO 8601, UTC.
    extra : dict
        Anything the writer added.
    """

    key: TaskKey
    entry_name: str
    path: Path
    files: dict[str, Path]
    graph: JsonObject | None = None
    decisions: Decisions = field(default_factory=dict)
    measured: JsonObject = field(default_factory=dict)
    created: str = field(default_factory=utc_now)
    extra: JsonObject = field(default_factory=dict)

    @property
    def is_tuned(self) -> bool:
        """Whether a search found it; else its key names the schedule, which `load` built."""
        return self.graph is not None and "schedule" not in self.key.parts


def safe_name(value: object, what: str, error: ErrorClass) -> str:
    """A name that is one path component: it cannot leave its folder or hide in it."""
    if not isinstance(value, str) or not _SAFE_NAME.fullmatch(value):
        name = nonempty_text(value, what, error)
        raise error(f"{what}: must be a plain file name of letters, digits, '.', '_' and '-' (got {name[:80]!r}).")
    return value


def file_name(value: object, what: str, error: ErrorClass) -> str:
    """A `safe_name` that is not the manifest's own."""
    if safe_name(value, what, error) == MANIFEST_NAME:
        raise error(f"{what}: must not be {MANIFEST_NAME}, which the store writes itself.")
    return str(value)


def describe(artifact: Artifact) -> JsonObject:
    """The manifest's content for a new artifact, without its files.

    Raises
    ------
    InputError
        A field breaks its rule, or the graph is not the one that the entry is named after.
    """
    _check_entry(artifact.entry_name, artifact.graph, InputError)
    return {
        "schema": SCHEMA,
        "key": artifact.key.as_dict(),
        "entry_name": artifact.entry_name,
        "graph": None if artifact.graph is None else graph_fields(artifact.graph, "graph", InputError),
        "decisions": decision_fields(artifact.decisions, "decisions", InputError),
        "measured": measured_fields(artifact.measured, "measured", InputError),
        "created": utc_time(artifact.created, "created", InputError),
        "extra": json_object(artifact.extra, "extra", InputError),
    }


def write_manifest(content: JsonObject) -> bytes:
    """The manifest's bytes: its content and, so that a flipped bit shows, the checksum of that content."""
    body = dump(content, "manifest", InputError)
    return dump({**content, "checksum": xxhash.xxh3_128_hexdigest(body)}, "manifest", InputError)


def read_manifest(data: bytes, folder: Path) -> tuple[Artifact, dict[str, FileSeal]]:
    """The artifact that a manifest in `folder` describes and the seals of its files, which are not looked at.

    Raises
    ------
    ArtifactError
        The bytes are not a manifest of this schema with the right checksum and fields.
    """
    content = parse_object(data, "manifest", ArtifactError)
    schema = integer(content.get("schema"), "manifest.schema", ArtifactError)
    if schema != SCHEMA:
        raise ArtifactError(f"manifest.schema: must be {SCHEMA} (got {schema}). Build the artifact again.")
    checksum = content.pop("checksum", None)
    if checksum != xxhash.xxh3_128_hexdigest(dump(content, "manifest", ArtifactError)):
        raise ArtifactError("manifest.checksum: must match the manifest's content. Build the artifact again.")
    seals = _seals(content.get("files"))
    graph = content.get("graph")
    artifact = Artifact(
        key=_key(content.get("key")),
        entry_name=safe_name(content.get("entry_name"), "manifest.entry_name", ArtifactError),
        path=folder,
        files={name: folder / name for name in seals},
        graph=None if graph is None else graph_fields(graph, "manifest.graph", ArtifactError),
        decisions=decision_fields(content.get("decisions"), "manifest.decisions", ArtifactError),
        measured=measured_fields(content.get("measured"), "manifest.measured", ArtifactError),
        created=utc_time(content.get("created"), "manifest.created", ArtifactError),
        extra=json_object(content.get("extra"), "manifest.extra", ArtifactError),
    )
    _check_entry(artifact.entry_name, artifact.graph, ArtifactError)
    return artifact, seals


def _check_entry(entry_name: str, graph: JsonObject | None, error: ErrorClass) -> None:
    safe_name(entry_name, "entry_name", error)
    if entry_name == DEFAULT_ENTRY:
        if graph is not None:
            raise error(f"graph: must be None for the entry {DEFAULT_ENTRY!r}, which serves every graph.")
    elif graph is None or graph.get("exact") != entry_name:
        raise error(f"graph: must be the one with the exact signature that names the entry (got {entry_name!r}).")


def _key(value: object) -> TaskKey:
    try:
        return TaskKey(json_object(value, "manifest.key", ArtifactError))
    except InputError as cause:
        raise ArtifactError(f"manifest.key: {cause}") from cause


def _seals(value: object) -> dict[str, FileSeal]:
    seals = {}
    for name, seal in json_object(value, "manifest.files", ArtifactError).items():
        what = f"manifest.files[{name[:80]!r}]"
        file_name(name, what, ArtifactError)
        described = json_object(seal, what, ArtifactError)
        size_bytes = integer(described.get("bytes"), f"{what}.bytes", ArtifactError, minimum=0)
        checksum = nonempty_text(described.get("xxh3_128"), f"{what}.xxh3_128", ArtifactError)
        if not _CHECKSUM.fullmatch(checksum):
            raise ArtifactError(f"{what}.xxh3_128: must be 32 hex digits (got {checksum[:80]!r}).")
        seals[name] = FileSeal(size_bytes, checksum)
    return seals
