"""Damaged and planted entries: never served, always named, always replaceable."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest
import xxhash
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tvm_gnn.cache import Artifact, ArtifactStore, TaskKey
from tvm_gnn.cache.artifact import read_manifest
from tvm_gnn.errors import ArtifactError

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


def sealed(content: dict[str, Any]) -> bytes:
    """Manifest bytes with the right checksum for any content, as an attacker would write them."""
    content.pop("checksum", None)
    body = orjson.dumps(content, option=orjson.OPT_SORT_KEYS)
    return orjson.dumps({**content, "checksum": xxhash.xxh3_128_hexdigest(body)})


def edit_manifest(artifact: Artifact, edit: Callable[[dict[str, Any]], object]) -> None:
    path = artifact.path / "manifest.json"
    content = orjson.loads(path.read_bytes())
    edit(content)
    path.write_bytes(sealed(content))


def flip_bit(path: Path, position: int) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= 1
    path.write_bytes(data)


def move_seal(content: dict[str, Any], name: str) -> None:
    content["files"][name] = content["files"].pop("kernel.so")


def link_away(artifact: Artifact) -> None:
    library = artifact.files["kernel.so"]
    outside = artifact.path.parents[3] / "outside.so"
    shutil.move(library, outside)
    library.symlink_to(outside)


def replace_with_link(folder: Path) -> None:
    moved = folder.with_name("moved-away")
    folder.rename(moved)
    folder.symlink_to(moved)


def replace_with_fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def replace_with_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()
    (path / "inside").write_text("")


def absolute_name(artifact: Artifact) -> None:
    edit_manifest(artifact, lambda content: move_seal(content, str(artifact.files["kernel.so"])))


def other_task(content: dict[str, Any]) -> None:
    content["key"]["cpu"] = "another"


DAMAGES: dict[str, Callable[[Artifact], object]] = {
    "flipped bit in the library": lambda a: flip_bit(a.files["kernel.so"], 5000),
    "truncated library": lambda a: os.truncate(a.files["kernel.so"], 100),
    "longer library": lambda a: os.truncate(a.files["kernel.so"], 200_000),
    "missing library": lambda a: a.files["kernel.so"].unlink(),
    "library is a link": link_away,
    "library is a FIFO": lambda a: replace_with_fifo(a.files["kernel.so"]),
    "library is a folder": lambda a: replace_with_folder(a.files["kernel.so"]),
    "library for everyone": lambda a: a.files["kernel.so"].chmod(0o777),
    "missing manifest": lambda a: (a.path / "manifest.json").unlink(),
    "empty manifest": lambda a: (a.path / "manifest.json").write_bytes(b""),
    "truncated manifest": lambda a: os.truncate(a.path / "manifest.json", 80),
    "manifest for everyone": lambda a: (a.path / "manifest.json").chmod(0o666),
    "flipped bit in the decisions": lambda a: (a.path / "manifest.json").write_bytes(
        (a.path / "manifest.json").read_bytes().replace(b'"parts":16', b'"parts":17')
    ),
    "measured text": lambda a: edit_manifest(a, lambda content: content.update(measured={"best_ms": "fast"})),
    "measured nothing": lambda a: edit_manifest(a, lambda content: content.update(measured={"speedup": None})),
    "measured below zero": lambda a: edit_manifest(a, lambda content: content.update(measured={"best_ms": -1.0})),
    "measured beyond reason": lambda a: edit_manifest(a, lambda content: content.update(measured={"best_ms": 1e300})),
    "newer manifest": lambda a: edit_manifest(a, lambda content: content.update(schema=2)),
    "manifest of another task": lambda a: edit_manifest(a, other_task),
    "manifest of another entry": lambda a: edit_manifest(a, lambda c: c.update(entry_name="beef", graph=None)),
    "path out of the entry": lambda a: edit_manifest(a, lambda content: move_seal(content, "../kernel.so")),
    "absolute path": absolute_name,
    "planted pickle": lambda a: (a.path / "model.pkl").write_bytes(b"\x80\x04."),
    "version for everyone": lambda a: a.path.chmod(0o777),
    "version is a link": lambda a: replace_with_link(a.path),
    "missing version": lambda a: shutil.rmtree(a.path),
    "entry for everyone": lambda a: a.path.parent.chmod(0o777),
    "entry is a link": lambda a: replace_with_link(a.path.parent),
    "task for everyone": lambda a: a.path.parent.parent.chmod(0o777),
    "task is a link": lambda a: replace_with_link(a.path.parent.parent),
    "current leaves the entry": lambda a: (a.path.parent / "current").write_text("../../x"),
    "current is binary": lambda a: (a.path.parent / "current").write_bytes(b"\xff\x00"),
    "current is long": lambda a: (a.path.parent / "current").write_bytes(b"a" * 5000),
    "current is a link": lambda a: replace_with_link(a.path.parent / "current"),
    "current is a folder": lambda a: replace_with_folder(a.path.parent / "current"),
    "current for everyone": lambda a: (a.path.parent / "current").chmod(0o666),
}


@pytest.fixture
def artifact(store: ArtifactStore, key: TaskKey, library: Path) -> Artifact:
    return store.publish(key, "default", {"kernel.so": library}, decisions={"parts": 16})


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES.keys())
def test_damage_is_not_served_and_publishing_mends_it(
    store: ArtifactStore, key: TaskKey, library: Path, artifact: Artifact, damage: Callable[[Artifact], object]
) -> None:
    damage(artifact)
    assert store.lookup(key, "default") is None
    (problem,) = store.problems
    assert problem.path == artifact.path.parent
    assert problem.reason
    mended = store.publish(key, "default", {"kernel.so": library}, decisions={"parts": 16})
    assert store.problems == []
    assert store.lookup(key, "default") == mended
    assert store.entries() == [mended]
    assert not [path for path in (store.root / "v1").iterdir() if path.name.startswith("tmp-")]


IN_THE_VERSION = [name for name in DAMAGES if not name.startswith("current")]


@pytest.mark.parametrize("name", IN_THE_VERSION)
def test_verify_names_the_damage(store: ArtifactStore, artifact: Artifact, name: str) -> None:
    store.verify(artifact)
    DAMAGES[name](artifact)
    with pytest.raises(ArtifactError, match="must"):
        store.verify(artifact)


@pytest.mark.parametrize(
    ("name", "rule"),
    [
        ("entry is a link", "must be a folder, not a link"),
        ("current is long", "must be at most 256 bytes"),
        ("truncated library", "must have 102400 bytes"),
        ("path out of the entry", "must be a plain file name"),
        ("planted pickle", "model.pkl"),
    ],
)
def test_problems_name_the_rule_that_was_broken(
    store: ArtifactStore, key: TaskKey, artifact: Artifact, name: str, rule: str
) -> None:
    DAMAGES[name](artifact)
    assert store.lookup(key, "default") is None
    assert rule in store.problems[0].reason


def test_verify_refuses_an_artifact_that_points_elsewhere(store: ArtifactStore, artifact: Artifact) -> None:
    with pytest.raises(ArtifactError, match="what its manifest says"):
        store.verify(dataclasses.replace(artifact, files={"kernel.so": artifact.path / "../x.so"}))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")
@pytest.mark.parametrize("inside", ["kernel.so", "manifest.json", ".", "..", "../..", "../current"])
def test_what_another_user_owns_is_not_served(
    store: ArtifactStore, key: TaskKey, library: Path, artifact: Artifact, inside: str
) -> None:
    os.chown(artifact.path / inside, 12345, -1)
    assert store.lookup(key, "default") is None
    assert "uid 12345" in store.problems[0].reason
    if inside in ("..", "../.."):
        with pytest.raises(ArtifactError, match="uid 12345"):
            store.publish(key, "default", {"kernel.so": library})
    else:
        assert store.publish(key, "default", {"kernel.so": library}) == store.lookup(key, "default")


def test_a_foreign_uid_is_refused_whoever_runs(
    store: ArtifactStore, key: TaskKey, artifact: Artifact, monkeypatch: pytest.MonkeyPatch
) -> None:
    if os.geteuid() == 0:
        pytest.skip("root's own files are trusted by every user")
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    assert store.lookup(key, "default") is None
    assert "must be owned by this user or root" in store.problems[0].reason


def test_problems_are_one_an_entry(store: ArtifactStore, key: TaskKey, artifact: Artifact) -> None:
    flip_bit(artifact.files["kernel.so"], 0)
    for _ in range(3):
        assert store.lookup(key, "default") is None
        assert store.entries() == []
    # A listing that does not look at the bytes does not take the finding back.
    store.entries(checksums=False)
    assert len(store.problems) == 1
    assert "checksum" in store.problems[0].reason


def test_listing_without_checksums_still_checks_sizes_and_modes(
    store: ArtifactStore, key: TaskKey, artifact: Artifact
) -> None:
    flip_bit(artifact.files["kernel.so"], 0)
    assert store.entries(key, checksums=False) == [artifact]
    artifact.files["kernel.so"].chmod(0o777)
    assert store.entries(key, checksums=False) == []
    artifact.files["kernel.so"].chmod(0o700)
    os.truncate(artifact.files["kernel.so"], 100)
    assert store.entries(key, checksums=False) == []


def test_strangers_beside_the_entries_do_no_harm(store: ArtifactStore, key: TaskKey, artifact: Artifact) -> None:
    (store.root / "v1" / "README").write_text("")
    (store.root / "v1" / "not-a-digest").mkdir()
    (artifact.path.parents[1] / "half-made").mkdir()
    (artifact.path.parents[1] / "file").write_text("")
    assert store.entries() == [artifact]
    assert store.problems == []


@given(st.binary(max_size=300))
def test_any_bytes_as_a_manifest_give_an_artifact_error(data: bytes) -> None:
    with pytest.raises(ArtifactError):
        read_manifest(data, Path("folder"))


@given(data=st.data())
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_value_in_any_field_gives_an_artifact_or_an_artifact_error(
    key: TaskKey, make_graph: Callable[..., dict[str, Any]], data: st.DataObject
) -> None:
    content: dict[str, Any] = {
        "schema": 1,
        "key": key.as_dict(),
        "entry_name": "cafe",
        "graph": make_graph("cafe"),
        "decisions": {"tile": 8, "parts": 16},
        "measured": {"best_ms": 1.0},
        "created": "2026-01-02T03:04:05+00:00",
        "extra": {},
        "files": {"kernel.so": {"bytes": 3, "xxh3_128": "0" * 32}},
    }
    places = [content, *(content[name] for name in ("graph", "key", "decisions", "measured", "files"))]
    inside = data.draw(st.sampled_from([*places, content["files"]["kernel.so"]]))
    name = data.draw(st.sampled_from(sorted(inside)) | st.text(max_size=5))
    if data.draw(st.booleans()):
        inside[name] = data.draw(JSON)
    else:
        inside.pop(name, None)
    try:
        manifest = sealed(content)
    except TypeError:
        # orjson does not write it, so no checksum fits it.
        manifest = json.dumps(content).encode()
    try:
        artifact, seals = read_manifest(manifest, Path("folder"))
    except ArtifactError:
        return
    assert set(artifact.files) == set(seals)
    assert all(path.parent == Path("folder") for path in artifact.files.values())


def test_a_manifest_that_nests_too_deep_is_an_artifact_error() -> None:
    with pytest.raises(ArtifactError, match="deep"):
        read_manifest(b'{"a":' + b"[" * 900 + b"]" * 900 + b"}", Path("folder"))
