"""Lookup by exact, bucket, nearest and default, and the explanation of a lookup."""

from __future__ import annotations

import errno
import json
import math
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tvm_gnn.cache import Artifact, ArtifactStore, TaskKey, explain, find

Add = Callable[..., Artifact]


def distance(mine: Mapping[str, Any], theirs: Mapping[str, Any]) -> float:
    return abs(float(mine["degree_mean"]) - float(theirs["degree_mean"]))


@pytest.fixture
def add(store: ArtifactStore, key: TaskKey, library: Path, make_graph: Callable[..., dict[str, Any]]) -> Add:
    def publish(
        exact: str, bucket: str = "b1", degree: float = 4.0, created: str = "2026-01-01T00:00:00+00:00"
    ) -> Artifact:
        graph = None if exact == "default" else make_graph(exact, bucket, degree)
        return store.publish(key, exact, {"kernel.so": library}, graph=graph, created=created)

    return publish


def levels(store: ArtifactStore, key: TaskKey, degree: float = 4.0) -> tuple[str, str] | None:
    found = find(store, key, "mine", "b1", {"degree_mean": degree}, distance)
    return None if found is None else (found[0].entry_name, found[1])


def test_the_levels_in_their_order(store: ArtifactStore, key: TaskKey, add: Add) -> None:
    assert levels(store, key) is None
    add("default")
    assert levels(store, key) == ("default", "default")
    add("far", bucket="b2", degree=9.0)
    assert levels(store, key) == ("far", "nearest")
    add("near", bucket="b3", degree=5.0)
    assert levels(store, key) == ("near", "nearest")
    add("alike", bucket="b1", degree=400.0)
    assert levels(store, key) == ("alike", "bucket")
    add("mine", bucket="b1")
    assert levels(store, key) == ("mine", "exact")


def test_only_entries_of_this_key_count(store: ArtifactStore, key: TaskKey, add: Add) -> None:
    add("mine")
    add("default")
    assert levels(store, TaskKey({**key.as_dict(), "cpu": "another"})) is None


def test_within_a_bucket_the_nearest_wins_then_the_newest(store: ArtifactStore, key: TaskKey, add: Add) -> None:
    add("away", degree=7.0, created="2026-03-01T00:00:00+00:00")
    add("older", degree=5.0, created="2026-01-01T00:00:00+00:00")
    add("newer", degree=3.0, created="2026-02-01T00:00:00+00:00")
    assert levels(store, key, degree=4.0) == ("newer", "bucket")
    assert levels(store, key, degree=4.9) == ("older", "bucket")


def test_a_damaged_candidate_is_passed_over_and_reported(store: ArtifactStore, key: TaskKey, add: Add) -> None:
    for name, bucket in (("mine", "b1"), ("alike", "b1"), ("near", "b2")):
        library = add(name, bucket=bucket).files["kernel.so"]
        library.write_bytes(b"x" * library.stat().st_size)
    add("default")
    with pytest.warns(RuntimeWarning, match=r"damaged \(.*checksum.*\), served from default.*Tune again") as warned:
        assert levels(store, key) == ("default", "default")
    assert len(warned) == 3
    assert sorted(problem.path.name for problem in store.problems) == ["alike", "mine", "near"]


def test_a_task_that_cannot_be_listed_is_reported_once_and_passed_over(
    store: ArtifactStore, key: TaskKey, add: Add, monkeypatch: pytest.MonkeyPatch
) -> None:
    artifact = add("mine")
    (artifact.path / "manifest.json").write_text("{}")
    task = artifact.path.parent.parent

    def refuse(folder: Path) -> list[str]:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(folder))

    monkeypatch.setattr(os, "listdir", refuse)
    with pytest.warns(RuntimeWarning, match=rf"^artifact {task}: damaged .*Permission denied") as warned:
        assert levels(store, key) is None
    assert len(warned) == 1
    assert task in [problem.path for problem in store.problems]


def test_damage_of_other_tasks_is_not_warned_of(store: ArtifactStore, key: TaskKey, add: Add) -> None:
    (add("mine").path / "manifest.json").write_text("{}")
    assert store.entries() == []
    assert levels(store, TaskKey({**key.as_dict(), "cpu": "another"})) is None


@pytest.mark.parametrize("value", [math.nan, math.inf, KeyError("x"), TypeError("x")])
def test_what_cannot_be_compared_is_not_the_nearest_but_may_be_of_the_bucket(
    store: ArtifactStore, key: TaskKey, add: Add, value: float | Exception
) -> None:
    def broken(*_: object) -> float:
        if isinstance(value, Exception):
            raise value
        return value

    add("near", bucket="b2")
    assert find(store, key, "mine", "b1", {}, broken) is None
    add("alike", bucket="b1")
    found = find(store, key, "mine", "b1", {}, broken)
    assert found is not None
    assert (found[0].entry_name, found[1]) == ("alike", "bucket")


def test_what_cannot_be_compared_comes_last_in_its_bucket(store: ArtifactStore, key: TaskKey, add: Add) -> None:
    for name, degree, day in (("a", 1.0, "03"), ("odd", 0.0, "04"), ("b", 2.0, "01"), ("near", 0.5, "02")):
        add(name, degree=degree, created=f"2026-01-{day}T00:00:00+00:00")

    def nan_for_odd(_: object, theirs: Mapping[str, Any]) -> float:
        return float(theirs["degree_mean"]) or math.nan

    found = find(store, key, "mine", "b1", {}, nan_for_odd)
    assert found is not None
    assert found[0].entry_name == "near"


def test_explain_an_empty_store(store: ArtifactStore, key: TaskKey) -> None:
    told = explain(store, key, "mine", "b1")
    assert (told.level, told.served, told.neighbours, told.problems) == ("none", None, [], [])
    assert (told.distance, told.comparable_within) == (None, math.inf)
    assert told.lines() == [
        "served from: a predicted or the default schedule, which the first load builds (nothing comparable is tuned)"
    ]
    assert not store.root.exists()


def test_explain_names_the_parts_that_differ(store: ArtifactStore, key: TaskKey, add: Add) -> None:
    mine = add("mine")
    asked = TaskKey({**key.as_dict(), "cpu": "new-cpu", "threads": "64"})
    told = explain(store, asked, "mine", "b1")
    assert told.level == "none"
    (neighbour,) = told.neighbours
    assert neighbour.path == mine.path
    assert neighbour.same_graph
    assert neighbour.differing == {"cpu": ("new-cpu", "some-cpu"), "threads": ("64", "some-threads")}
    assert "cpu is 'new-cpu' here, 'some-cpu' there; threads is" in told.lines()[1]
    assert "graph" not in told.lines()[1].split(": ", 2)[2]


def test_explain_says_when_only_the_graph_differs_and_how_far_it_is(
    store: ArtifactStore, key: TaskKey, add: Add
) -> None:
    served = add("near", bucket="b2", degree=5.0)
    add("far", bucket="b2", degree=50.0)
    told = explain(store, key, "mine", "b1", {"degree_mean": 4.0}, distance)
    assert (told.level, told.served, told.distance) == ("nearest", served.path, 1.0)
    assert [(neighbour.entry_name, neighbour.distance) for neighbour in told.neighbours] == [("far", 46.0)]
    assert told.lines() == [
        f"served from: nearest, distance 1.00 ({served.path})",
        "close: graph-far [far]: only the graph differs (another bucket), distance 46.00",
    ]


def test_explain_says_how_far_is_too_far(
    store: ArtifactStore, key: TaskKey, library: Path, add: Add, make_graph: Callable[..., dict[str, Any]]
) -> None:
    add("far", bucket="b2", degree=6.5)
    arguments = (store, key, "mine", "b1", {"degree_mean": 4.0}, distance, 2.0)
    told = explain(*arguments)
    too_far = "close: graph-far [far]: only the graph differs (another bucket), distance 2.50, too far for nearest"
    assert (told.level, told.served, told.distance) == ("none", None, None)
    assert told.lines()[1:] == [f"{too_far} (at most 2)"]
    near = add("near", bucket="b2", degree=6.0)
    assert explain(*arguments).lines() == [
        f"served from: nearest, distance 2.00 of at most 2 ({near.path})",
        f"{too_far} (at most 2)",
    ]
    other = TaskKey({**key.as_dict(), "cpu": "another"})
    store.publish(other, "odd", {"kernel.so": library}, graph=make_graph("odd", "b2", 9.0))
    alike = add("alike", bucket="b1", degree=400.0)
    told = explain(*arguments)
    assert told.lines()[0] == f"served from: bucket, distance 396.00 ({alike.path})"
    assert told.lines()[-1].endswith("'another' there; the graph differs (another bucket), distance 5.00")
    mine = add("mine")
    told = explain(*arguments)
    assert told.lines()[0] == f"served from: exact ({mine.path})"
    assert told.lines()[1].endswith("only the graph differs (same bucket), distance 396.00")


def test_explain_takes_the_default_schedule_for_what_serves_not_for_what_is_close(
    store: ArtifactStore, key: TaskKey, add: Add
) -> None:
    default = add("default")
    told = explain(store, key, "mine", "b1", {"degree_mean": 4.0}, distance)
    assert (told.level, told.served, told.distance, told.neighbours) == ("default", default.path, None, [])
    assert told.lines() == [
        f"served from: the default schedule, built already (nothing comparable is tuned) ({default.path})"
    ]
    add("near", bucket="b2", degree=5.0)
    assert explain(store, key, "mine", "b1", {"degree_mean": 4.0}, distance).neighbours == []


@pytest.mark.parametrize("value", [math.nan, math.inf, KeyError("x")])
def test_explain_gives_no_distance_to_what_cannot_be_compared(
    store: ArtifactStore, key: TaskKey, add: Add, value: float | Exception
) -> None:
    def broken(*_: object) -> float:
        if isinstance(value, Exception):
            raise value
        return value

    add("far", bucket="b2")
    told = explain(store, key, "mine", "b1", {}, broken, 2.0)
    assert (told.level, told.neighbours[0].distance) == ("none", None)
    assert told.lines()[1].endswith("only the graph differs (another bucket)")
    add("alike", bucket="b1")
    told = explain(store, key, "mine", "b1", {}, broken, 2.0)
    assert (told.level, told.distance) == ("bucket", None)
    assert told.lines()[0] == f"served from: bucket ({told.served})"


def test_explain_puts_the_closest_first_and_keeps_to_the_limit(
    store: ArtifactStore, key: TaskKey, library: Path, add: Add, make_graph: Callable[..., dict[str, Any]]
) -> None:
    other = TaskKey({**key.as_dict(), "cpu": "another"})
    store.publish(other, "mine", {"kernel.so": library}, graph=make_graph("mine", "b1"))
    for name, bucket, degree in (("b", "b2", 9.0), ("a", "b2", 8.0), ("served", "b1", 4.0), ("alike", "b1", 99.0)):
        add(name, bucket, degree)
    told = explain(store, key, "mine", "b1", {"degree_mean": 4.0}, distance)
    assert [neighbour.entry_name for neighbour in told.neighbours] == ["alike", "a", "b", "mine"]
    assert len(explain(store, key, "mine", "b1", limit=2).neighbours) == 2


def test_explain_tells_damage_and_is_json(store: ArtifactStore, key: TaskKey, add: Add) -> None:
    (add("mine").path / "manifest.json").write_text("{}")
    add("near", bucket="b2")
    told = explain(store, TaskKey({**key.as_dict(), "extra": "x"}), "mine", "b1")
    data = json.loads(json.dumps(told.as_dict()))
    assert data == told.as_dict()
    assert list(data) == ["level", "served", "key", "exact", "bucket", "neighbours", "problems"]
    assert data["level"] == "none"
    assert data["neighbours"][0]["differing"] == {"extra": ["x", None]}
    assert data["problems"][0]["path"].endswith("mine")
    assert told.lines()[-1].startswith("damaged: ")


def test_explain_tells_of_a_library_that_differs_by_one_byte(store: ArtifactStore, key: TaskKey, add: Add) -> None:
    library = add("mine").files["kernel.so"]
    content = bytearray(library.read_bytes())
    content[5000] ^= 1
    library.write_bytes(content)
    told = explain(store, key, "mine", "b1")  # without a warning: it is part of the explanation
    assert (told.level, told.neighbours) == ("none", [])
    assert told.lines()[1].startswith(f"damaged: {library.parents[1]} is not served: {library}: must have the checksum")
