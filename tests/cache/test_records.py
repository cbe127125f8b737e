"""Records and their log: round trips, rules, damage, killed writers, many writers, full disks."""

from __future__ import annotations

import errno
import json
import math
import os
import signal
import subprocess
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tvm_gnn.cache import Record, RecordLog, TaskKey
from tvm_gnn.cache import records as records_module
from tvm_gnn.errors import RecordError

GRAPH = {"name": "g", "exact": "cafe", "bucket": "b", "features": {}, "num_dst": 1, "num_src": 1, "num_edges": 1}
FAILED = {"timings_s": [], "status": "crash", "reason": "signal 11"}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)

WRITER = """
import sys
from tvm_gnn.cache import Record, RecordLog
line, path, writer = sys.argv[1:]
log = RecordLog(path)
for trial in range(50):
    fields = Record.from_json(line.encode())
    log.append(Record(task=fields.task, graph=fields.graph, decisions={"writer": int(writer)}, timings_s=[1.0],
                      trace="x" * 10_000, trial=trial))
"""

KILLED_WRITER = """
import os, signal, sys
from tvm_gnn.cache import Record, RecordLog
whole = os.write
def half(descriptor, data):
    whole(descriptor, data[: int(len(data) * float(sys.argv[3]))])
    os.kill(os.getpid(), signal.SIGKILL)
os.write = half
RecordLog(sys.argv[2]).append(Record.from_json(sys.argv[1].encode()))
"""

RecordBuilder = Callable[..., Record]
Spawn = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def log(tmp_path: Path) -> RecordLog:
    return RecordLog(tmp_path / "new" / "folders" / "log.jsonl")


# One record


def test_round_trip(make_record: RecordBuilder) -> None:
    for record in (make_record(), make_record(**FAILED, trace=None, seed=None, trial=None)):
        line = record.to_json()
        assert b"\n" not in line
        assert Record.from_json(line) == record


def test_defaults_are_a_current_time_and_the_current_schema(make_record: RecordBuilder) -> None:
    whole = make_record()
    record = Record(task=whole.task, graph=whole.graph, decisions={}, timings_s=[1.0])
    assert record.schema == 1
    assert record.created.endswith("+00:00")
    assert record.task_digest == TaskKey(whole.task).digest


def test_numbers_of_numpy_become_plain(make_record: RecordBuilder) -> None:
    record = make_record(
        timings_s=[np.float64(0.5), np.float32(0.25)], decisions={"tile": np.int64(8)}, trial=np.int32(2)
    )
    assert record.timings_s == [0.5, 0.25]
    assert {type(value) for value in [*record.timings_s, record.decisions["tile"], record.trial]} == {float, int}
    assert Record.from_json(record.to_json()) == record


def test_a_record_does_not_change_with_what_it_was_made_from(make_record: RecordBuilder) -> None:
    trace = [["Split"]]
    record = make_record(trace=trace)
    trace[0].append("more")
    assert record.trace == [["Split"]]


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"timings_s": []}, "either timings_s or a reason"),
        ({"reason": "slow"}, "either timings_s or a reason"),
        ({**FAILED, "reason": ""}, "non-empty"),
        ({**FAILED, "status": "ok"}, "'ok' with timings_s only"),
        ({"status": "wrong"}, "'ok' with timings_s only"),
        ({"status": "fine"}, "must be one of ok, wrong, crash, timeout, build_error, interrupted"),
        ({"status": ["ok"]}, "must be one of"),
        ({"timings_s": [1.0, math.nan]}, "finite"),
        ({"timings_s": [math.inf]}, "finite"),
        ({"timings_s": [0.0]}, "record.timings_s: must be between 1e-09 and 100000"),
        ({"timings_s": [-1.0]}, "must be between"),
        ({"timings_s": [1.0, 1e308]}, "must be between"),
        ({"timings_s": [5e-324]}, "must be between"),
        ({"timings_s": [10**18]}, "must be between"),
        ({"timings_s": [True]}, "a number"),
        ({"timings_s": ["1"]}, "a number"),
        ({"timings_s": [[1.0]]}, "a number"),
        ({"default_s": 0}, "record.default_s: must be between"),
        ({"default_s": -1}, "must be between"),
        ({"default_s": 1e308}, "must be between"),
        ({"default_s": 1e-308}, "must be between"),
        ({"default_s": math.inf}, "finite"),
        ({"default_s": True}, "a number"),
        ({"default_s": "x"}, "a number"),
        ({"default_s": [1.0]}, "a number"),
        ({"default_s": {"a": 1}}, "a number"),
        ({"timings_s": 1.0}, "list of seconds"),
        ({"task": {"op": ""}}, "record.task"),
        ({"graph": {"name": "cora"}}, "record.graph.exact"),
        ({"graph": None}, "record.graph: must be a dict"),
        ({"graph": {**GRAPH, "features": {"nnz": "40"}}}, "record.graph.features.nnz: must be a number"),
        ({"graph": {**GRAPH, "features": {"nnz": None}}}, "a number"),
        ({"graph": {**GRAPH, "features": {"nnz": True}}}, "a number"),
        ({"graph": {**GRAPH, "features": {"nnz": [1.0]}}}, "a number"),
        ({"decisions": {"tile": 1.5}}, "record.decisions.tile"),
        ({"decisions": {"tile": None}}, "record.decisions.tile"),
        ({"environment": {"load": math.nan}}, "finite"),
        ({"environment": {1: "x"}}, "string keys"),
        ({"trace": {"a": 1}}, "record.trace"),
        ({"trace": [object()]}, "got object"),
        ({"trace": [2**70]}, "64 bits"),
        ({"created": "yesterday"}, "ISO 8601"),
        ({"created": "2026-01-01T00:00:00"}, "UTC"),
        ({"created": "2026-01-01T00:00:00+02:00"}, "UTC"),
        ({"seed": 1.5}, "record.seed"),
        ({"trial": -1}, "record.trial"),
        ({"trial": True}, "record.trial"),
        ({"schema": 2}, "Upgrade tvm_gnn"),
        ({"schema": 0}, "record.schema"),
        ({"extra": {"status": "ok"}}, "must not repeat"),
    ],
)
def test_rules(make_record: RecordBuilder, changes: dict[str, Any], rule: str) -> None:
    with pytest.raises(RecordError, match=rule):
        make_record(**changes)


def test_a_trace_that_nests_too_deep_is_refused(make_record: RecordBuilder) -> None:
    trace: list[Any] = []
    for _ in range(5000):
        trace = [trace]
    with pytest.raises(RecordError, match="levels deep"):
        make_record(trace=trace)


def test_the_default_schedules_time_is_a_field_that_old_records_lack(make_record: RecordBuilder) -> None:
    record = make_record(default_s=np.float32(0.5))
    assert (record.default_s, record.extra) == (0.5, {})
    assert Record.from_json(record.to_json()) == record
    old = orjson.loads(record.to_json())
    del old["default_s"]
    assert Record.from_json(orjson.dumps(old)) == make_record()


def test_unknown_fields_are_kept(make_record: RecordBuilder) -> None:
    data = {**orjson.loads(make_record().to_json()), "energy_j": 3.5, "extra": {"mine": 1}}
    record = Record.from_json(orjson.dumps(data))
    assert record.extra == {"energy_j": 3.5, "extra": {"mine": 1}}
    assert orjson.loads(record.to_json()) == data


def test_a_newer_schema_is_named_before_its_fields_are_missed() -> None:
    with pytest.raises(RecordError, match=r"at most 1 \(got 2, written by a newer version\)"):
        Record.from_json(b'{"schema":2}')


@given(st.binary(max_size=200))
def test_any_bytes_give_a_record_error(line: bytes) -> None:
    with pytest.raises(RecordError):
        Record.from_json(line)


@given(data=st.data())
@settings(max_examples=200, deadline=None)
def test_any_value_in_any_field_gives_a_record_or_a_record_error(
    make_record: RecordBuilder, data: st.DataObject
) -> None:
    fields = orjson.loads(make_record().to_json())
    inside = data.draw(st.sampled_from([fields, fields["graph"], fields["task"], fields["decisions"]]))
    name = data.draw(st.sampled_from(sorted(inside)))
    if data.draw(st.booleans()):
        inside[name] = data.draw(JSON)
    else:
        del inside[name]
    # json writes what orjson refuses: NaN, lone surrogates, huge integers.
    line = json.dumps(fields, ensure_ascii=data.draw(st.booleans())).encode(errors="surrogatepass")
    try:
        record = Record.from_json(line)
    except RecordError:
        return
    assert Record.from_json(record.to_json()) == record


# The log


def test_a_missing_log_is_empty(log: RecordLog) -> None:
    assert log.read() == records_module.ReadResult([], [])
    assert not log.path.parent.exists()


def test_append_and_read_in_order(log: RecordLog, make_record: RecordBuilder) -> None:
    written = [make_record(trial=trial) for trial in range(5)]
    for record in written:
        log.append(record, fsync=record.trial == 0)
    assert log.read() == records_module.ReadResult(written, [])
    assert log.path.read_bytes().count(b"\n") == 5


def test_for_task_keeps_one_task_and_graph(
    log: RecordLog, make_record: RecordBuilder, make_graph: Any, key: TaskKey
) -> None:
    other_task = make_record(task={**key.as_dict(), "feat": "other"})
    other_graph = make_record(graph=make_graph("beef"))
    for record in (make_record(), other_task, other_graph):
        log.append(record)
    with log.path.open("ab") as file:
        file.write(b"damaged\n")
    assert log.for_task(key).records == [make_record(), other_graph]
    assert log.for_task(key.digest, exact="beef").records == [other_graph]
    assert [damage.line for damage in log.for_task(key, exact="nobody").damaged] == [4]


def test_damaged_lines_are_skipped_and_reported(log: RecordLog, make_record: RecordBuilder) -> None:
    good = make_record().to_json()
    log.path.parent.mkdir(parents=True)
    log.path.write_bytes(b"\n".join([b"\xff\xfe", good, b"", b"[1]", good[:40], good, b'{"schema":9}', good[:-1]]))
    result = log.read()
    assert result.records == [make_record(), make_record()]
    assert [line for line, _ in result.damaged] == [1, 4, 5, 7, 8]
    assert "newer" in dict(result.damaged)[7]


def test_a_line_over_the_bound_is_reported_without_being_held(
    log: RecordLog, make_record: RecordBuilder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(records_module, "MAX_LINE_BYTES", 5000)
    log.append(make_record(trial=1))
    with log.path.open("ab") as file:
        file.write(b"x" * 23_000 + b"\n")
    log.append(make_record(trial=2))
    with log.path.open("ab") as file:
        file.write(b"x" * 6000)
    result = log.read()
    assert [record.trial for record in result.records] == [1, 2]
    assert [line for line, _ in result.damaged] == [2, 4]
    size = log.path.stat().st_size
    with pytest.raises(RecordError, match="must fit a line"):
        log.append(make_record(trace="x" * 5000))
    assert log.path.stat().st_size == size


@pytest.mark.parametrize("part", [0.0, 0.5, 0.999])
def test_kill_during_append_costs_that_line_only(
    log: RecordLog, make_record: RecordBuilder, spawn: Spawn, part: float
) -> None:
    log.append(make_record(trial=0))
    child = spawn(KILLED_WRITER, make_record(trial=1).to_json().decode(), log.path, part)
    child.communicate(timeout=30)
    assert child.returncode == -signal.SIGKILL
    log.append(make_record(trial=2))
    result = log.read()
    # At 0.999 only the line's end is missing, so the record is there.
    assert [record.trial for record in result.records] == ([0, 1, 2] if part == 0.999 else [0, 2])
    assert [line for line, _ in result.damaged] == ([2] if part == 0.5 else [])


def test_many_writers_never_mix_lines(log: RecordLog, make_record: RecordBuilder, spawn: Spawn) -> None:
    line = make_record(trace=None).to_json().decode()
    children = [spawn(WRITER, line, log.path, writer) for writer in range(8)]
    for child in children:
        _, stderr = child.communicate(timeout=60)
        assert child.returncode == 0, stderr
    result = log.read()
    assert result.damaged == []
    for writer in range(8):
        trials = [record.trial for record in result.records if record.decisions["writer"] == writer]
        assert trials == list(range(50))


def test_without_locks_lines_still_stay_whole(
    log: RecordLog, make_record: RecordBuilder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tvm_gnn.cache.locks._acquire", lambda *_: False)
    log.append(make_record(trial=0))
    with log.path.open("ab") as file:
        file.write(b'{"half')
    log.append(make_record(trial=1))
    assert [record.trial for record in log.read().records] == [0, 1]


def make_device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def make_file_above(path: Path) -> None:
    path.parent.rmdir()
    path.parent.touch()


@pytest.mark.parametrize("make", [os.mkfifo, make_device, os.mkdir, make_file_above], ids=lambda make: make.__name__)
def test_what_is_no_file_is_refused_at_once(log: RecordLog, make_record: RecordBuilder, make: Any) -> None:
    log.path.parent.mkdir(parents=True)
    make(log.path)
    for use in (log.read, log.check_writable, lambda: log.append(make_record())):
        with pytest.raises(RecordError, match=rf"^{log.path}: must be a (read|writ)able file"):
            use()


def test_checking_that_a_log_can_be_written_changes_nothing(log: RecordLog, make_record: RecordBuilder) -> None:
    log.check_writable()
    assert log.path.read_bytes() == b""
    log.append(make_record())
    log.check_writable()
    assert log.read() == records_module.ReadResult([make_record()], [])


def test_a_full_disk_is_a_record_error(
    log: RecordLog, make_record: RecordBuilder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "write", fail)
    with pytest.raises(RecordError, match="No space left"):
        log.append(make_record())


def test_a_short_write_leaves_the_log_as_it_was(
    log: RecordLog, make_record: RecordBuilder, monkeypatch: pytest.MonkeyPatch
) -> None:
    log.append(make_record())
    before = log.path.read_bytes()
    whole_write = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, data: whole_write(descriptor, data[:30]))
    with pytest.raises(RecordError, match="No space left"):
        log.append(make_record())
    monkeypatch.undo()
    assert log.path.read_bytes() == before


def test_a_failed_fsync_leaves_the_log_as_it_was(
    log: RecordLog, make_record: RecordBuilder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    log.append(make_record())
    before = log.path.read_bytes()
    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(RecordError, match=str(log.path)):
        log.append(make_record(), fsync=True)
    assert log.path.read_bytes() == before


def test_a_read_only_place_is_a_record_error_that_names_it(
    log: RecordLog, make_record: RecordBuilder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> int:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(RecordError, match=rf"{log.path}.*Read-only file system.*TVM_GNN_LOGS"):
        log.append(make_record())


def test_reading_holds_one_line_at_a_time(log: RecordLog, make_record: RecordBuilder) -> None:
    line = make_record(trace="x" * 20_000).to_json() + b"\n"
    log.path.parent.mkdir(parents=True)
    log.path.write_bytes(line * 200)
    tracemalloc.start()
    assert sum(1 for _ in log.scan([])) == 200
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak_bytes < 40 * len(line)
