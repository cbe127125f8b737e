"""How an entry comes into the store: prepared in a workspace of its own, then renamed into place in one step.

A version is never changed once it has its name: a process may have mapped its library. An entry is replaced by a new
version beside the old one and by an atomic swap of the small file `current`, which names the version to read.
"""

from __future__ import annotations

import os
import secrets
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import xxhash

from ..errors import ArtifactError
from .artifact import MANIFEST_NAME, Artifact, FileSeal, describe, read_manifest, write_manifest
from .locks import kernel_lock
from .verify import CHUNK_BYTES

CURRENT_NAME = "current"
WORKSPACE_PREFIX = "tmp-"
# A reader may have looked an artifact up and not have loaded it yet; its files stay this long after the replacement.
RETIRED_KEPT_S = 60.0

_LIBRARY_SUFFIXES = (".so", ".dylib", ".dll")


@contextmanager
def workspace(versions_root: Path) -> Iterator[Path]:
    """A private folder on the store's file system, gone at the end whatever happened.

    Its kernel lock tells living workspaces from those whose process was killed; the latter are removed here too.
    """
    versions_root.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    versions_root.mkdir(mode=0o700, exist_ok=True)
    _remove_orphans(versions_root)
    folder = versions_root / f"{WORKSPACE_PREFIX}{os.getpid()}-{secrets.token_hex(4)}"
    folder.mkdir(mode=0o700)
    try:
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            with kernel_lock(descriptor, wait_s=0.0):
                yield folder
        finally:
            os.close(descriptor)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def write_version(folder: Path, artifact: Artifact, sources: Mapping[str, Path]) -> Artifact:
    """Write an artifact's files and, last, its manifest into a new folder, all of it on disk when this returns.

    Returns the artifact as its manifest now describes it, in plain values.
    """
    content = describe(artifact)
    folder.mkdir(mode=0o700)
    seals = {name: _copy(source, folder / name) for name, source in sources.items()}
    content["files"] = {name: {"bytes": seal.size_bytes, "xxh3_128": seal.checksum} for name, seal in seals.items()}
    manifest = write_manifest(content)
    write_file(folder / MANIFEST_NAME, manifest)
    sync_folder(folder)
    return read_manifest(manifest, artifact.path)[0]


def install(prepared: Path, pointer: Path, entry: Path, version: str) -> None:
    """Move a prepared version into its entry and make it the current one; both steps are atomic for readers."""
    target = entry / version
    try:
        for folder in (entry.parent, entry):
            _own_folder(folder, aside=prepared.parent)
        os.rename(prepared, target)
        sync_folder(entry)
        current = entry / CURRENT_NAME
        if current.is_dir() and not current.is_symlink():
            os.rename(current, pointer.parent / secrets.token_hex(4))
        os.replace(pointer, current)
        sync_folder(entry)
    except OSError:
        shutil.rmtree(target, ignore_errors=True)
        for folder in (entry, entry.parent):
            with suppress(OSError):
                folder.rmdir()
        raise


def check_place(entry: Path) -> None:
    """Raise as `install` would where a folder that the entry goes into is not ours or cannot be written."""
    for folder in (entry.parent, entry):
        with suppress(FileNotFoundError):
            status = folder.lstat()
            _check_owner(folder, status)
            if stat.S_ISDIR(status.st_mode):
                os.rmdir(tempfile.mkdtemp(dir=folder))


def prune(entry: Path, keep: set[str]) -> None:
    """Remove the versions of an entry that were replaced, or never became current, more than `RETIRED_KEPT_S` ago."""
    oldest_s = time.time() - RETIRED_KEPT_S
    with suppress(OSError):
        for version in os.scandir(entry):
            old = version.stat(follow_symlinks=False).st_mtime <= oldest_s
            if old and version.name not in keep and version.is_dir(follow_symlinks=False):
                shutil.rmtree(version.path, ignore_errors=True)


def write_file(path: Path, data: bytes) -> None:
    """A new private file with these bytes, on disk when this returns."""
    descriptor = _create(path)
    try:
        _write_all(descriptor, data)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_folder(folder: Path) -> None:
    """Put a folder's names on disk, where the file system can."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _remove_orphans(versions_root: Path) -> None:
    oldest_s = time.time() - RETIRED_KEPT_S
    for folder in versions_root.glob(f"{WORKSPACE_PREFIX}*"):
        with suppress(OSError):
            # A young one may not have its lock yet.
            if folder.lstat().st_mtime > oldest_s:
                continue
            descriptor = os.open(folder, os.O_RDONLY | os.O_NOFOLLOW)
            try:
                with kernel_lock(descriptor, wait_s=0.0) as abandoned:
                    if abandoned:
                        shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(descriptor)


def _own_folder(folder: Path, aside: Path) -> None:
    """Make sure of a real, private folder; a link or file in its place is moved to `aside`."""
    with suppress(FileNotFoundError):
        status = folder.lstat()
        _check_owner(folder, status)
        if not stat.S_ISDIR(status.st_mode):
            os.rename(folder, aside / secrets.token_hex(4))
        elif status.st_mode & stat.S_IWOTH:
            folder.chmod(0o700)
    folder.mkdir(mode=0o700, exist_ok=True)


def _check_owner(folder: Path, status: os.stat_result) -> None:
    if status.st_uid not in (0, os.geteuid()):
        raise ArtifactError(f"{folder}: must be owned by this user or root (got uid {status.st_uid}). Remove it.")


def _copy(source: Path, target: Path) -> FileSeal:
    digest = xxhash.xxh3_128()
    size_bytes = 0
    descriptor = _create(target, 0o700 if target.suffix in _LIBRARY_SUFFIXES else 0o600)
    try:
        for chunk in _chunks(source):
            digest.update(chunk)
            size_bytes += len(chunk)
            _write_all(descriptor, chunk)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    return FileSeal(size_bytes, digest.hexdigest())


def _chunks(source: Path) -> Iterator[bytes]:
    try:
        with open(source, "rb") as file:
            while chunk := file.read(CHUNK_BYTES):
                yield chunk
    except OSError as cause:
        raise ArtifactError(f"{source}: must be a readable file (got: {cause.strerror or cause}).") from cause


def _create(path: Path, mode: int = 0o600) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)


def _write_all(descriptor: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]
