"""The artifact store: built kernels by task and graph, published whole, verified before they are served.

Layout: ``root/v1/<task digest>/<entry name>/<version>/{manifest.json, kernel.so, …}`` and beside the versions a file
``current`` with the name of the one to read.
"""

from __future__ import annotations

import os
import re
import secrets
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from ..errors import ArtifactError, InputError
from .artifact import Artifact, file_name, safe_name
from .fields import Decisions, JsonObject, utc_now
from .key import TaskKey
from .locks import kernel_lock
from .publish import CURRENT_NAME, check_place, install, prune, workspace, write_file, write_version
from .verify import load_version, read_text

_DIGEST = re.compile(r"[0-9a-f]{32}")
_MAX_POINTER_BYTES = 256
# Readers look again when the entry was replaced under them; a writer would have to win this often in a row.
_READ_ATTEMPTS = 8
# About a kernel's library: a full disk often takes a small file still.
_TRIAL_BYTES = 2**16


class Problem(NamedTuple):
    """An entry that could not be served: its folder and why."""

    path: Path
    reason: str


class ArtifactStore:
    """Artifacts under a folder that many processes share, with a kernel lock between writers and none for readers.

    Nothing is created before the first `publish` or `check_writable`; a missing root is an empty store.

    Parameters
    ----------
    root : path
        The store's folder.
    """

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self.root = Path(root)
        self._versions_root = self.root / "v1"
        self._problems: dict[Path, str] = {}

    @property
    def problems(self) -> list[Problem]:
        """Entries met since the store was opened that are damaged and were not served, one each."""
        return [Problem(path, reason) for path, reason in self._problems.items()]

    def publish(
        self,
        key: TaskKey,
        entry_name: str,
        files: Mapping[str, str | os.PathLike[str]],
        *,
        graph: JsonObject | None = None,
        decisions: Decisions | None = None,
        measured: JsonObject | None = None,
        created: str | None = None,
        extra: JsonObject | None = None,
    ) -> Artifact:
        """Copy the files into the store as the entry's new version, visible to readers in one step.

        Parameters
        ----------
        key : TaskKey
        entry_name : str
            The graph's exact signature, or ``"default"``.
        files : mapping of str to path
            File name in the entry → file to copy.
        graph, decisions, measured, created, extra
            As in `Artifact`.

        Raises
        ------
        InputError
            A name or field breaks its rule.
        ArtifactError
            The store cannot be written or a file cannot be read; the entry is then as it was before.
        """
        sources = {file_name(name, "files", InputError): Path(source) for name, source in files.items()}
        entry = self._entry(key, entry_name)
        version = f"{time.time_ns():016x}-{secrets.token_hex(4)}"
        artifact = Artifact(
            key=key,
            entry_name=entry_name,
            path=entry / version,
            files={name: entry / version / name for name in sources},
            graph=graph,
            decisions=decisions or {},
            measured=measured or {},
            created=utc_now() if created is None else created,
            extra=extra or {},
        )
        with self._writing(), workspace(self._versions_root) as folder:
            published = write_version(folder / version, artifact, sources)
            write_file(folder / CURRENT_NAME, version.encode())
            self._install(folder, entry, version)
        self._problems.pop(entry, None)
        return published

    def check_writable(self, key: TaskKey, entry_name: str) -> None:
        """Raise `ArtifactError` where `publish` would for want of a place that can be written; leaves no files."""
        entry = self._entry(key, entry_name)
        with self._writing(), workspace(self._versions_root) as folder:
            write_file(folder / "trial", bytes(_TRIAL_BYTES))
            check_place(entry)

    def lookup(self, key: TaskKey, exact: str) -> Artifact | None:
        """The entry of this name, fully verified; None when there is none or it is damaged (see `problems`).

        Cost: a few system calls and one reading of the files, whatever the size of the store.
        """
        return self._load(self._entry(key, exact))

    def entries(self, key: TaskKey | None = None, *, checksums: bool = True) -> list[Artifact]:
        """All entries, or those of one task, by name; damaged ones are left out and reported in `problems`.

        With `checksums` False the files' bytes are not read: pass what is to be loaded to `verify`.

        Raises
        ------
        ArtifactError
            The store's folder exists and cannot be read. That of a task is reported in `problems`.
        """
        tasks = [key.digest] if key else self._tasks()
        found = (self._load(entry, checksums=checksums) for task in tasks for entry in self._entries_of(task))
        return [artifact for artifact in found if artifact]

    def verify(self, artifact: Artifact) -> None:
        """Do every check again.

        Raises
        ------
        ArtifactError
            Files or folders are missing, changed, of a foreign owner or writable by everyone, or the artifact is not
            what its manifest says.
        """
        if load_version(artifact.path) != artifact:
            raise ArtifactError(f"{artifact.path}: must be what its manifest says (got another description of it).")

    def remove(self, artifact: Artifact) -> None:
        """Remove an entry, or only the given version when another is current by now; gone already is no error.

        Raises
        ------
        ArtifactError
            The artifact is not of this store, or the store cannot be written.
        """
        entry = self._entry(artifact.key, artifact.entry_name)
        if artifact.path.parent != entry:
            raise ArtifactError(f"{artifact.path}: must be in the store {self.root}.")
        if not artifact.path.exists():
            return
        with self._writing(), workspace(self._versions_root) as folder, self._locked():
            whole = _current_or_none(entry) in (None, artifact.path.name)
            with suppress(FileNotFoundError):
                # Renamed first, so that readers see all of it or nothing.
                os.rename(entry if whole else artifact.path, folder / "removed")
            with suppress(OSError):
                entry.parent.rmdir()
            self._problems.pop(entry, None)

    def total_bytes(self) -> int:
        """Bytes of all files of the store, those of replaced versions too."""
        total = 0
        for folder, _, names in os.walk(self._versions_root):
            for name in names:
                with suppress(OSError):
                    total += os.lstat(os.path.join(folder, name)).st_size
        return total

    def _entry(self, key: TaskKey, entry_name: str) -> Path:
        return self._versions_root / key.digest / safe_name(entry_name, "entry_name", InputError)

    def _tasks(self) -> list[str]:
        try:
            names = _names(self._versions_root)
        except OSError as cause:
            raise ArtifactError(
                f"{self.root}: must be a readable folder (got: {cause.strerror or cause}). "
                "Change its mode or set TVM_GNN_CACHE to another folder."
            ) from cause
        return [name for name in names if _DIGEST.fullmatch(name)]

    def _entries_of(self, task: str) -> list[Path]:
        folder = self._versions_root / task
        try:
            return [folder / name for name in _names(folder)]
        except NotADirectoryError:
            return []
        except OSError as cause:
            self._problems[folder] = _unreadable(cause)
            return []

    def _load(self, entry: Path, *, checksums: bool = True) -> Artifact | None:
        try:
            artifact = _load_current(entry, checksums)
        except ArtifactError as cause:
            self._problems[entry] = str(cause)
            return None
        except OSError as cause:
            self._problems[entry] = _unreadable(cause)
            return None
        if checksums:  # a lookup may have found what a listing does not look for
            self._problems.pop(entry, None)
        return artifact

    def _install(self, folder: Path, entry: Path, version: str) -> None:
        with self._locked() as held:
            previous = _current_or_none(entry)
            install(folder / version, folder / CURRENT_NAME, entry, version)
            if previous:
                with suppress(OSError):
                    # From now on it is retired; its age counts from here.
                    os.utime(entry / previous, follow_symlinks=False)
            # Everything above is safe beside another writer, removing is not.
            if held:
                prune(entry, keep={version, previous or version})

    @contextmanager
    def _locked(self) -> Iterator[bool]:
        descriptor = os.open(self._versions_root, os.O_RDONLY)
        try:
            with kernel_lock(descriptor) as held:
                yield held
        finally:
            os.close(descriptor)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as cause:
            reason = cause.strerror or str(cause)
            raise ArtifactError(
                f"{self.root}: must be a writable folder with free space (got: {reason}). "
                "Free space or set TVM_GNN_CACHE to another folder."
            ) from cause


def _load_current(entry: Path, checksums: bool) -> Artifact | None:
    version = _current(entry)
    for _ in range(_READ_ATTEMPTS):
        if version is None:
            return None
        try:
            return load_version(entry / version, checksums=checksums)
        except ArtifactError:
            read, version = version, _current(entry)
            if version == read:
                raise
    raise ArtifactError(f"{entry}: must hold still for a moment (got {_READ_ATTEMPTS} replacements). Try again.")


def _current(entry: Path) -> str | None:
    """Name of the version to read; None when there is no entry."""
    try:
        text = read_text(entry / CURRENT_NAME, _MAX_POINTER_BYTES)
    except (FileNotFoundError, NotADirectoryError):
        return None
    return safe_name(text, f"{entry / CURRENT_NAME}", ArtifactError)


def _current_or_none(entry: Path) -> str | None:
    try:
        return _current(entry)
    except (ArtifactError, OSError):
        return None


def _unreadable(cause: OSError) -> str:
    return f"{cause.filename}: must be readable (got: {cause.strerror or cause})."


def _names(folder: Path) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except FileNotFoundError:
        return []
