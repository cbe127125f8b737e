"""`tvm-gnn cache`: what is stored and why a lookup is served from where it is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

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
    for part in ("karate", "copy_u_sum", "1 artifacts", listed["root"]):
        assert part in text


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
