"""The checks an artifact on disk passes before anything of it may be loaded: owner, mode, place, size, checksum."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import xxhash

from ..errors import ArtifactError
from .artifact import MANIFEST_NAME, Artifact, FileSeal, read_manifest

CHUNK_BYTES = 2**20
_MAX_MANIFEST_BYTES = 16 * 2**20


def load_version(folder: Path, *, checksums: bool = True) -> Artifact:
    """The artifact in a version's folder, with every check done; nothing is executed or unpickled.

    Parameters
    ----------
    folder : Path
        ``<task digest>/<entry name>/<version>``.
    checksums : bool
        False skips reading the files' bytes (their sizes, owners and modes are still checked), for listings.

    Raises
    ------
    ArtifactError
        A folder or file is missing, of a foreign owner, world-writable, a symlink, not described by the manifest, or
        differs from what the manifest says of it.
    """
    try:
        for each in (folder.parent.parent, folder.parent, folder):
            check_folder(each)
        artifact, seals = read_manifest(_read_small(folder / MANIFEST_NAME, _MAX_MANIFEST_BYTES), folder)
        unknown = sorted(set(os.listdir(folder)) - {MANIFEST_NAME, *seals})
        if unknown:
            raise ArtifactError(f"{folder}: must hold only what its manifest lists (got {unknown[0][:80]!r} too).")
        for name, seal in seals.items():
            _check_file(folder / name, seal, checksums)
    except OSError as cause:
        raise ArtifactError(
            f"{cause.filename or folder}: must be readable (got: {cause.strerror or cause})."
        ) from cause
    place = (folder.parent.parent.name, folder.parent.name)
    if place != (artifact.key.digest, artifact.entry_name):
        raise ArtifactError(f"{folder}: must be where its manifest belongs (got a manifest of another task or graph).")
    return artifact


def read_text(path: Path, max_bytes: int) -> str:
    """A small ASCII file with the owner and mode checks; raises `ArtifactError` or `OSError`."""
    try:
        return _read_small(path, max_bytes).decode("ascii")
    except UnicodeDecodeError as cause:
        raise ArtifactError(f"{path}: must be ASCII text.") from cause


def check_folder(path: Path) -> None:
    """Raise `ArtifactError` unless it is a real folder that only its trusted owner and group can write."""
    status = os.lstat(path)
    if not stat.S_ISDIR(status.st_mode):
        raise ArtifactError(f"{path}: must be a folder, not a link or a file.")
    _check_owner(path, status)


def _check_owner(path: Path, status: os.stat_result) -> None:
    # Whoever can write a library runs code in the process that loads it.
    if status.st_uid not in (0, os.geteuid()):
        raise ArtifactError(f"{path}: must be owned by this user or root (got uid {status.st_uid}). Remove it.")
    if status.st_mode & stat.S_IWOTH:
        raise ArtifactError(f"{path}: must not be writable by everyone (got mode {stat.S_IMODE(status.st_mode):o}).")


def _open_file(path: Path) -> int:
    # NOFOLLOW refuses a symlink, NONBLOCK keeps a planted FIFO from blocking; the checks are on what was opened, so a
    # swap of the name in between changes nothing.
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise ArtifactError(f"{path}: must be a regular file.")
        _check_owner(path, status)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _read_small(path: Path, max_bytes: int) -> bytes:
    descriptor = _open_file(path)
    try:
        size_bytes = os.fstat(descriptor).st_size
        if size_bytes > max_bytes:
            raise ArtifactError(f"{path}: must be at most {max_bytes} bytes (got {size_bytes}).")
        return b"".join(iter(lambda: os.read(descriptor, CHUNK_BYTES), b""))
    finally:
        os.close(descriptor)


def _check_file(path: Path, seal: FileSeal, checksums: bool) -> None:
    descriptor = _open_file(path)
    try:
        size_bytes = os.fstat(descriptor).st_size
        if size_bytes != seal.size_bytes:
            raise ArtifactError(f"{path}: must have {seal.size_bytes} bytes (got {size_bytes}).")
        if not checksums:
            return
        digest = xxhash.xxh3_128()
        for chunk in iter(lambda: os.read(descriptor, CHUNK_BYTES), b""):
            digest.update(chunk)
        if digest.hexdigest() != seal.checksum:
            raise ArtifactError(f"{path}: must have the checksum {seal.checksum} (got {digest.hexdigest()}).")
    finally:
        os.close(descriptor)
