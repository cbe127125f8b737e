"""The artifact store shared by processes: many writers, readers during replacement, killed writers."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from tvm_gnn.cache import ArtifactStore, TaskKey

Spawn = Callable[..., "subprocess.Popen[str]"]

PUBLISHER = """
import sys
from pathlib import Path
from tvm_gnn.cache import ArtifactStore, TaskKey
root, op, writer, times = sys.argv[1:]
source = Path(root).with_name(f"from-{writer}.so")
source.write_bytes(writer.encode() * 50_000)
for _ in range(int(times)):
    ArtifactStore(root).publish(TaskKey({"op": op}), "default", {"kernel.so": source}, extra={"writer": writer})
"""

READER = """
import sys, time
from tvm_gnn.cache import ArtifactStore, TaskKey
store = ArtifactStore(sys.argv[1])
seen = set()
while "last" not in seen:
    artifact = store.lookup(TaskKey({"op": "x"}), "default")
    assert artifact is not None, store.problems
    content = artifact.files["kernel.so"].read_bytes()
    assert content == artifact.extra["writer"].encode() * 50_000
    seen.add(artifact.extra["writer"])
    time.sleep(0.001)
"""

KILLED_PUBLISHER = """
import os, signal, sys
from tvm_gnn.cache import publish
def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)
setattr(publish if sys.argv[5] == "write_manifest" else os, sys.argv[5], die)
sys.argv[1:] = sys.argv[1:5]
"""


def finish(*children: subprocess.Popen[str]) -> None:
    for child in children:
        _, stderr = child.communicate(timeout=60)
        assert child.returncode == 0, stderr


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_many_writers_of_one_key_leave_one_valid_entry(store: ArtifactStore, spawn: Spawn) -> None:
    finish(*(spawn(PUBLISHER, store.root, "x", writer, 2) for writer in "abcdefgh"))
    key = TaskKey({"op": "x"})
    found = store.lookup(key, "default")
    assert found is not None
    assert found.files["kernel.so"].read_bytes() == found.extra["writer"].encode() * 50_000
    assert store.entries() == [found]
    assert store.problems == []
    assert names(store.root / "v1") == [key.digest]


def test_a_reader_always_sees_a_complete_entry(store: ArtifactStore, spawn: Spawn) -> None:
    finish(spawn(PUBLISHER, store.root, "x", "first", 1))
    readers = [spawn(READER, store.root) for _ in range(2)]
    finish(*(spawn(PUBLISHER, store.root, "x", writer, 8) for writer in "ab"))
    finish(spawn(PUBLISHER, store.root, "x", "last", 1))
    finish(*readers)


def test_a_killed_writer_costs_nothing_but_an_orphan_that_goes_later(store: ArtifactStore, spawn: Spawn) -> None:
    finish(spawn(PUBLISHER, store.root, "x", "good", 1))
    key = TaskKey({"op": "x"})
    good = store.lookup(key, "default")
    assert good is not None
    # Before the manifest, before the version has its name, and before it is made current.
    for call in ("write_manifest", "rename", "replace"):
        child = spawn(KILLED_PUBLISHER + PUBLISHER, store.root, "x", "bad", 1, call)
        child.communicate(timeout=30)
        assert child.returncode == -signal.SIGKILL
        assert store.lookup(key, "default") == good
    assert store.entries() == [good]
    assert store.problems == []
    orphans = [path for path in (store.root / "v1").iterdir() if path.name.startswith("tmp-")]
    versions = [path for path in good.path.parent.iterdir() if path.is_dir() and path != good.path]
    assert (len(orphans), len(versions)) == (3, 1)
    long_ago_s = time.time() - 3600
    for folder in orphans + versions:
        os.utime(folder, (long_ago_s, long_ago_s))
    finish(spawn(PUBLISHER, store.root, "x", "next", 1))
    assert names(store.root / "v1") == [key.digest]
    assert not versions[0].exists()
    assert good.path.exists()


def test_the_workspace_of_a_living_writer_is_left_alone(store: ArtifactStore, spawn: Spawn, library: Path) -> None:
    living = spawn(
        "import os, sys, time\n"
        "from pathlib import Path\n"
        "from tvm_gnn.cache.publish import workspace\n"
        "with workspace(Path(sys.argv[1])) as folder:\n"
        "    os.utime(folder, (0, 0))\n"
        "    print(folder, flush=True)\n"
        "    time.sleep(60)\n",
        store.root / "v1",
    )
    assert living.stdout is not None
    folder = Path(living.stdout.readline().strip())
    store.publish(TaskKey({"op": "x"}), "default", {"kernel.so": library})
    assert folder.is_dir()
    living.kill()
    living.communicate()
    store.publish(TaskKey({"op": "x"}), "default", {"kernel.so": library})
    assert not folder.exists()
