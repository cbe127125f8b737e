"""`tvm-gnn cache`: what is stored and why a lookup is served from where it is."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tvm_gnn.cache import DEFAULT_ENTRY
from tvm_gnn.cache.artifact import MANIFEST_NAME, write_manifest
from tvm_gnn.compile import load
from tvm_gnn.graph import datasets
from tvm_gnn.untuned import artifact_store

Run = Callable[..., Any]
KARATE = ("--dataset", "karate", "--op", "copy_u_sum")


def test_empty_store(run: Run, isolated_cache: Path) -> None:
    outcome = run("cache", "ls", "--json")
    assert outcome.code == 0
    assert outcome.json == {"root": str(isolated_cache), "bytes": 0, "artifacts": [], "problems": []}
    assert run("cache", "ls").code == 0
    explained = run("cache", "explain", *KARATE, "--feat", 8, "--json").json
    assert (explained["level"], explained["served"], explained["neighbours"]) == ("none", None, [])
    assert "default schedule" in run("cache", "explain", *KARATE, "--feat", 8).out
    assert not isolated_cache.exists()


def test_listing(tuned: Any, run: Run) -> None:
    listed = run("cache", "ls", "--json").json
    (artifact,) = listed["artifacts"]
    report = tuned.outcome.json
    assert artifact["graph"] == "karate"
    assert artifact["entry"] == report["signature"]["exact"]
    assert (artifact["key"]["op"], artifact["key"]["feat"]) == ("copy_u_sum", "8")
    assert artifact["decisions"] == report["decisions"]
    assert artifact["measured"]["best_ms"] == report["best_ms"]
    assert listed["bytes"] == sum(f.stat().st_size for f in Path(listed["root"], "v1").rglob("*") if f.is_file())
    assert listed["problems"] == []
    text = run("cache", "ls").out
    for part in ("karate", "copy_u_sum", "edge order", "created, UTC", "1 artifact,", listed["root"]):
        assert part in text


def test_listing_is_sorted_by_dataset(tuned: Any, run: Run) -> None:
    store = artifact_store()
    (good,) = store.entries()
    assert good.graph is not None
    for name, entry in (("a", "f" * 32), ("z", "0" * 32)):
        graph = {**good.graph, "name": name, "exact": entry}
        store.publish(good.key, entry, good.files, graph=graph, decisions=good.decisions)
    lines = run("cache", "ls").out.splitlines()
    assert [line.split()[0] for line in lines[1:4]] == ["a", "karate", "z"]


@pytest.mark.parametrize("measured", [{"best_ms": "x", "speedup": {}}, {"best_ms": [1]}, {"speedup": True}])
def test_nonsense_in_one_manifest_does_not_hide_the_list(tuned: Any, run: Run, measured: dict[str, Any]) -> None:
    store = artifact_store()
    (good,) = store.entries()
    bad = store.publish(good.key, DEFAULT_ENTRY, good.files, decisions=good.decisions)
    manifest = bad.path / MANIFEST_NAME
    content = json.loads(manifest.read_bytes())
    del content["checksum"]
    manifest.chmod(0o600)
    manifest.write_bytes(write_manifest({**content, "measured": measured}))
    outcome = run("cache", "ls", "--defaults")
    assert outcome.code == 0, outcome.err
    assert "karate" in outcome.out
    assert str(bad.path.parent) in outcome.out


def test_damage_is_listed(tuned: Any, run: Run) -> None:
    (library,) = Path(run("cache", "ls", "--json").json["root"]).rglob("kernel.so")
    library.write_bytes(b"short")
    listed = run("cache", "ls", "--json").json
    assert listed["artifacts"] == []
    (problem,) = listed["problems"]
    assert "must have" in problem["reason"]
    assert "damaged" in run("cache", "ls").out


def test_explanation_of_a_hit(tuned: Any, run: Run) -> None:
    explained = run("cache", "explain", *tuned.task, "--json").json
    assert explained["level"] == "exact"
    assert explained["exact"] == tuned.outcome.json["signature"]["exact"]
    assert Path(explained["served"], "kernel.so").is_file()
    assert explained["key"]["op"] == "copy_u_sum"
    assert "served from: exact" in run("cache", "explain", *tuned.task).out


def test_explanation_of_a_miss_names_what_differs(tuned: Any, run: Run) -> None:
    explained = run("cache", "explain", *KARATE, "--feat", 16, "--json").json
    assert (explained["level"], explained["served"]) == ("none", None)
    (neighbour,) = explained["neighbours"]
    assert neighbour["differing"] == {"feat": ["16", "8"]}
    assert neighbour["same_graph"] is True
    assert "feat is '16' here, '8' there" in run("cache", "explain", *KARATE, "--feat", 16).out


def test_explanation_for_another_graph(tuned: Any, run: Run) -> None:
    explained = run(
        "cache", "explain", "--dataset", "synthetic:uniform:n=40,degree=4", "--op", "copy_u_sum", "--feat", 8, "--json"
    ).json
    assert explained["level"] in ("bucket", "nearest")
    assert explained["exact"] != tuned.outcome.json["signature"]["exact"]
    text = run("cache", "explain", "--dataset", "synthetic:uniform:n=40,degree=4", *KARATE[2:], "--feat", 8).out
    assert f"served from: {explained['level']}, distance " in text


def test_explanation_says_how_far_is_too_far(tuned: Any, run: Run) -> None:
    task = ("--dataset", "synthetic:star:n=4000", *KARATE[2:], "--feat", 8)
    explained = run("cache", "explain", *task, "--json").json
    (neighbour,) = explained["neighbours"]
    assert (explained["level"], explained["served"]) == ("none", None)
    assert neighbour["distance"] > 2
    text = run("cache", "explain", *task).out
    assert f"distance {neighbour['distance']:.2f}, too far for nearest (at most 2)" in text


def test_default_that_serves_is_not_called_close(tuned: Any, run: Run, quick_builds: None) -> None:
    graph = datasets.load("karate")
    kernel = load(graph, "copy_u_sum", 16)
    explained = run("cache", "explain", *KARATE, "--feat", 16, "--json").json
    assert (explained["level"], explained["served"]) == ("default", kernel.provenance.artifact)
    assert [neighbour["entry_name"] for neighbour in explained["neighbours"]] == [graph.signature.exact]
    text = run("cache", "explain", *KARATE, "--feat", 16).out
    assert (
        f"served from: the default schedule, built already (nothing comparable is tuned) ({kernel.provenance.artifact})"
        in text
    )
    assert "close: default" not in text


def test_another_operator_is_not_close(tuned: Any, run: Run) -> None:
    task = ("--dataset", "karate", "--op", "u_mul_e_sum", "--feat", 8)
    assert run("cache", "explain", *task, "--json").json["neighbours"] == []


def test_default_schedules_are_listed_on_demand(tuned: Any, run: Run, quick_builds: None) -> None:
    load(datasets.load("karate"), "copy_u_sum", 16)
    text = run("cache", "ls").out
    assert "any (not tuned)" not in text
    assert "2 artifacts (1 of schedules that were not tuned: --defaults), " in text
    everything = run("cache", "ls", "--defaults").out
    assert "any (not tuned)" in everything
    assert "2 artifacts, " in everything
    assert len(run("cache", "ls", "--json").json["artifacts"]) == 2
