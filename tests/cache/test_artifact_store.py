"""The artifact store: publish, look up, replace, list, remove, and what it leaves on disk."""

from __future__ import annotations

import dataclasses
import errno
import os
import stat
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tvm_gnn.cache import Artifact, ArtifactStore, TaskKey
from tvm_gnn.cache import publish as publish_module
from tvm_gnn.errors import ArtifactError, InputError

GraphBuilder = Callable[..., dict[str, Any]]


def everything_in(folder: Path) -> set[Path]:
    return {path for path in folder.rglob("*") if not path.is_dir()}


def test_round_trip(store: ArtifactStore, key: TaskKey, library: Path, make_graph: GraphBuilder) -> None:
    trace = library.with_name("trace")
    trace.write_text("[]")
    given: dict[str, Any] = {
        "graph": make_graph("cafe"),
        "decisions": {"tile": 64, "order": "rows", "prefetch": True},
        "measured": {"best_ms": 0.5, "default_ms": 1.0, "speedup": 2.0},
        "created": "2026-01-02T03:04:05+00:00",
        "extra": {"record": ["a", None]},
    }
    published = store.publish(key, "cafe", {"kernel.so": library, "trace.json": trace}, **given)
    found = store.lookup(key, "cafe")
    assert found == published
    assert found is not None
    assert {name: getattr(found, name) for name in given} == given
    assert (found.key, found.entry_name) == (key, "cafe")
    assert found.files == {"kernel.so": found.path / "kernel.so", "trace.json": found.path / "trace.json"}
    assert found.files["kernel.so"].read_bytes() == library.read_bytes()
    store.verify(found)
    assert ArtifactStore(store.root).lookup(key, "cafe") == found
    assert store.problems == []


def test_a_default_entry_is_of_no_graph(store: ArtifactStore, key: TaskKey, library: Path) -> None:
    artifact = store.publish(key, "default", {"kernel.so": library})
    assert store.lookup(key, "default") == artifact
    assert artifact.graph is None
    assert store.lookup(key, "cafe") is None


def test_another_key_is_a_miss(store: ArtifactStore, key: TaskKey, library: Path) -> None:
    store.publish(key, "default", {"kernel.so": library})
    assert store.lookup(TaskKey({**key.as_dict(), "cpu": "another"}), "default") is None


def test_a_missing_root_is_an_empty_store_and_stays_missing(store: ArtifactStore, key: TaskKey) -> None:
    assert store.lookup(key, "cafe") is None
    assert store.entries() == store.entries(key) == []
    assert store.total_bytes() == 0
    assert store.problems == []
    assert not store.root.exists()


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"entry_name": "../cafe"}, "entry_name"),
        ({"entry_name": ""}, "entry_name"),
        ({"entry_name": "cafe\n"}, "entry_name"),
        ({"files": {"../kernel.so": "x"}}, "plain file name"),
        ({"files": {"a/b": "x"}}, "plain file name"),
        ({"files": {"manifest.json": "x"}}, r"must not be manifest.json"),
        ({"graph": None}, "exact signature"),
        ({"entry_name": "beef"}, "exact signature"),
        ({"entry_name": "default"}, "must be None"),
        ({"decisions": {"tile": 1.5}}, "decisions.tile"),
        ({"measured": {"best_ms": float("nan")}}, "finite"),
        ({"measured": {"best_ms": "0.5"}}, "measured.best_ms: must be a number"),
        ({"measured": {"speedup": 0.0}}, "measured.speedup: must be between"),
        ({"created": "now"}, "ISO 8601"),
        ({"extra": {"x": object()}}, "extra"),
    ],
)
def test_bad_arguments_are_refused_and_leave_nothing(
    store: ArtifactStore, key: TaskKey, make_graph: GraphBuilder, changes: dict[str, Any], rule: str
) -> None:
    arguments = {"entry_name": "cafe", "files": {}, "graph": make_graph("cafe"), **changes}
    with pytest.raises(InputError, match=rule):
        store.publish(key, **arguments)
    assert everything_in(store.root) == set()


def test_lookup_refuses_a_name_that_leaves_the_store(store: ArtifactStore, key: TaskKey) -> None:
    with pytest.raises(InputError, match="plain file name"):
        store.lookup(key, "../../secret")


def test_permissions_do_not_depend_on_the_umask(store: ArtifactStore, key: TaskKey, library: Path) -> None:
    old = os.umask(0o000)
    try:
        artifact = store.publish(key, "default", {"kernel.so": library, "trace.json": library})
    finally:
        os.umask(old)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in store.root.rglob("*")}
    assert modes["kernel.so"] == 0o700
    assert modes["trace.json"] == modes["manifest.json"] == modes["current"] == 0o600
    folders = [store.root, *(path for path in store.root.rglob("*") if path.is_dir())]
    assert {stat.S_IMODE(folder.stat().st_mode) for folder in folders} == {0o700}
    assert store.lookup(key, "default") == artifact


# Replacing


def test_replacing_keeps_the_previous_version_and_what_readers_opened(
    store: ArtifactStore, key: TaskKey, library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publish_module, "RETIRED_KEPT_S", -1.0)
    first = store.publish(key, "default", {"kernel.so": library})
    content, inode = library.read_bytes(), first.files["kernel.so"].stat().st_ino
    with first.files["kernel.so"].open("rb") as opened:
        library.write_bytes(b"second")
        second = store.publish(key, "default", {"kernel.so": library})
        assert store.lookup(key, "default") == second
        assert first.files["kernel.so"].read_bytes() == content
        assert second.files["kernel.so"].stat().st_ino != inode
        third = store.publish(key, "default", {"kernel.so": library})
        assert [path.exists() for path in (first.path, second.path, third.path)] == [False, True, True]
        assert opened.read() == content
    assert store.lookup(key, "default") == third


def test_replaced_versions_stay_loadable_for_a_while(store: ArtifactStore, key: TaskKey, library: Path) -> None:
    versions = [store.publish(key, "default", {"kernel.so": library}) for _ in range(4)]
    for version in versions:
        store.verify(version)
    long_ago_s = time.time() - 2 * publish_module.RETIRED_KEPT_S
    os.utime(versions[0].path, (long_ago_s, long_ago_s))
    store.publish(key, "default", {"kernel.so": library})
    assert [version.path.exists() for version in versions] == [False, True, True, True]


def test_a_reader_follows_an_entry_replaced_and_removed_under_it(
    store: ArtifactStore, key: TaskKey, library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publish_module, "RETIRED_KEPT_S", -1.0)
    store.publish(key, "default", {"kernel.so": library})
    reader = ArtifactStore(store.root)
    pending = [lambda: store.publish(key, "default", {"kernel.so": library})] * 2
    whole_open = os.open

    def open_after_replacement(path: Any, *arguments: Any, **more: Any) -> int:
        if str(path).endswith("manifest.json"):
            while pending:
                pending.pop()()
        return whole_open(path, *arguments, **more)

    monkeypatch.setattr("tvm_gnn.cache.verify.os.open", open_after_replacement)
    found = reader.lookup(key, "default")
    assert found is not None
    assert found == store.lookup(key, "default")
    pending.append(lambda: store.remove(found))  # type: ignore[arg-type, return-value]
    assert reader.lookup(key, "default") is None
    assert reader.problems == []


# Listing and removing


def test_entries_lists_all_or_one_task(
    store: ArtifactStore, key: TaskKey, library: Path, make_graph: GraphBuilder
) -> None:
    other = TaskKey({**key.as_dict(), "feat": "other"})
    mine = [store.publish(key, name, {"kernel.so": library}, graph=make_graph(name)) for name in ("aa", "bb")]
    theirs = store.publish(other, "default", {"kernel.so": library})
    assert store.entries(key) == mine
    assert sorted(map(str, (each.path for each in store.entries()))) == sorted(str(a.path) for a in [*mine, theirs])
    mine[0].files["kernel.so"].write_bytes(b"damaged")
    assert store.entries(key) == [mine[1]]
    assert [problem.path.name for problem in store.problems] == ["aa"]


def test_total_bytes_counts_every_file(store: ArtifactStore, key: TaskKey, library: Path) -> None:
    store.publish(key, "default", {"kernel.so": library})
    assert store.total_bytes() == sum(path.stat().st_size for path in everything_in(store.root))
    assert store.total_bytes() > library.stat().st_size


def test_remove_takes_the_entry_and_its_old_versions(store: ArtifactStore, key: TaskKey, library: Path) -> None:
    store.publish(key, "default", {"kernel.so": library})
    artifact = store.publish(key, "default", {"kernel.so": library})
    store.remove(artifact)
    assert store.lookup(key, "default") is None
    assert list((store.root / "v1").iterdir()) == []
    store.remove(artifact)


def test_remove_of_a_replaced_version_leaves_its_successor(store: ArtifactStore, key: TaskKey, library: Path) -> None:
    old = store.publish(key, "default", {"kernel.so": library})
    new = store.publish(key, "default", {"kernel.so": library})
    store.remove(old)
    assert not old.path.exists()
    assert store.lookup(key, "default") == new


def test_remove_refuses_what_is_elsewhere(store: ArtifactStore, key: TaskKey, library: Path, tmp_path: Path) -> None:
    artifact = store.publish(key, "default", {"kernel.so": library})
    with pytest.raises(ArtifactError, match="must be in the store"):
        store.remove(dataclasses.replace(artifact, path=tmp_path))
    assert library.exists()


# Failures of the disk


def fail_on_create(monkeypatch: pytest.MonkeyPatch, name: str, code: int) -> None:
    """Opening a new file of this name fails; root may write read-only folders, so the error is simulated."""
    whole_open = os.open

    def refuse(path: Any, flags: int, *arguments: Any, **more: Any) -> int:
        if flags & os.O_CREAT and str(path).endswith(name):
            raise OSError(code, os.strerror(code), str(path))
        return whole_open(path, flags, *arguments, **more)

    monkeypatch.setattr(os, "open", refuse)


@pytest.mark.parametrize("name", ["kernel.so", "manifest.json", "current"])
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS])
def test_a_failed_publish_leaves_the_entry_as_it_was(
    store: ArtifactStore, key: TaskKey, library: Path, monkeypatch: pytest.MonkeyPatch, name: str, code: int
) -> None:
    old = store.publish(key, "default", {"kernel.so": library})
    before = everything_in(store.root)
    fail_on_create(monkeypatch, name, code)
    with pytest.raises(ArtifactError, match=rf"{store.root}.*{os.strerror(code)}.*TVM_GNN_CACHE"):
        store.publish(key, "default", {"kernel.so": library})
    monkeypatch.undo()
    assert everything_in(store.root) == before
    assert store.lookup(key, "default") == old


def test_a_disk_that_fills_up_leaves_nothing(
    store: ArtifactStore, key: TaskKey, library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole_write, left = os.write, [50_000]

    def write(descriptor: int, data: Any) -> int:
        written = whole_write(descriptor, data[: left[0]]) if left[0] else 0
        left[0] -= written
        if not written:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return written

    monkeypatch.setattr(os, "write", write)
    with pytest.raises(ArtifactError, match="No space left"):
        store.publish(key, "default", {"kernel.so": library})
    monkeypatch.undo()
    assert list((store.root / "v1").iterdir()) == []


@pytest.mark.parametrize("call", ["rename", "replace"])
def test_a_failed_rename_leaves_nothing(
    store: ArtifactStore, key: TaskKey, library: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, call, refuse)
    with pytest.raises(ArtifactError, match="No space left"):
        store.publish(key, "default", {"kernel.so": library})
    monkeypatch.undo()
    assert list((store.root / "v1").iterdir()) == []


def test_a_root_that_cannot_be_made_is_named(key: TaskKey, library: Path) -> None:
    store = ArtifactStore(library / "store")
    with pytest.raises(ArtifactError, match=rf"{store.root}.*Not a directory"):
        store.publish(key, "default", {"kernel.so": library})
    assert store.lookup(key, "default") is None


def test_a_missing_source_is_named(store: ArtifactStore, key: TaskKey, tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match=r"gone\.so: must be a readable file"):
        store.publish(key, "default", {"kernel.so": tmp_path / "gone.so"})
    assert list((store.root / "v1").iterdir()) == []


# Whether it can be written, and read


def test_checking_that_a_place_can_be_written_leaves_no_files(
    store: ArtifactStore, key: TaskKey, library: Path
) -> None:
    store.check_writable(key, "default")
    assert everything_in(store.root) == set()
    artifact = store.publish(key, "default", {"kernel.so": library})
    before = sorted(store.root.rglob("*"))
    store.check_writable(key, "default")
    assert sorted(store.root.rglob("*")) == before
    assert store.entries() == [artifact]


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS])
def test_a_place_that_takes_no_file_is_told_beforehand(
    store: ArtifactStore, key: TaskKey, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    fail_on_create(monkeypatch, "trial", code)
    with pytest.raises(ArtifactError, match=rf"^{store.root}: must be a writable folder.*{os.strerror(code)}"):
        store.check_writable(key, "default")
    assert list((store.root / "v1").iterdir()) == []


def test_a_root_that_cannot_be_made_is_told_beforehand(key: TaskKey, library: Path) -> None:
    with pytest.raises(ArtifactError, match="Not a directory"):
        ArtifactStore(library / "store").check_writable(key, "default")


@pytest.mark.parametrize("inside", ["..", "../.."])
def test_a_folder_of_the_entry_that_cannot_be_written_is_told_beforehand(
    store: ArtifactStore, key: TaskKey, library: Path, monkeypatch: pytest.MonkeyPatch, inside: str
) -> None:
    refused = (store.publish(key, "default", {"kernel.so": library}).path / inside).resolve()
    whole_mkdir = os.mkdir

    def refuse(path: Any, *arguments: Any) -> None:
        if Path(path).parent == refused:
            raise OSError(errno.EACCES, os.strerror(errno.EACCES))
        whole_mkdir(path, *arguments)

    monkeypatch.setattr(os, "mkdir", refuse)
    with pytest.raises(ArtifactError, match="Permission denied"):
        store.check_writable(key, "default")


def unreadable(folder: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root reads every folder")
    folder.chmod(0)


def replaced_by_a_file(folder: Path) -> None:
    folder.rename(folder.with_name("moved"))
    folder.touch()


@pytest.mark.parametrize("harm", [unreadable, replaced_by_a_file])
@pytest.mark.parametrize("place", [".", "v1"])
def test_a_store_that_cannot_be_listed_is_an_error(
    store: ArtifactStore, key: TaskKey, library: Path, harm: Callable[[Path], None], place: str
) -> None:
    store.publish(key, "default", {"kernel.so": library})
    folder = store.root / place
    mode = folder.stat().st_mode
    harm(folder)
    try:
        with pytest.raises(ArtifactError, match=rf"^{store.root}: must be a readable folder .*TVM_GNN_CACHE"):
            store.entries()
        assert store.lookup(key, "default") is None
    finally:
        folder.chmod(mode)


def test_publishing_goes_on_without_locks(
    store: ArtifactStore, key: TaskKey, library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tvm_gnn.cache.locks._acquire", lambda *_: False)
    monkeypatch.setattr(publish_module, "RETIRED_KEPT_S", -1.0)
    versions = [store.publish(key, "default", {"kernel.so": library}) for _ in range(3)]
    assert store.lookup(key, "default") == versions[-1]
    # Removing is what is not safe beside another writer.
    assert all(version.path.exists() for version in versions)


def test_lookup_is_fast(store: ArtifactStore, key: TaskKey, library: Path) -> None:
    store.publish(key, "default", {"kernel.so": library})

    def lookup_s() -> float:
        start_s = time.perf_counter()
        found: Artifact | None = store.lookup(key, "default")
        assert found is not None
        return time.perf_counter() - start_s

    # The best of many: other processes share the machine.
    assert min(lookup_s() for _ in range(50)) < 0.003
