"""`tvm-gnn doctor`: good on this machine, and a broken part is an exit code and a remedy."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tvm_gnn.cli.doctor as doctor
from tvm_gnn.diagnosis import Finding

Run = Callable[..., Any]


def test_this_machine_is_in_order(run: Run) -> None:
    outcome = run("doctor", "--json")
    assert outcome.err == ""
    assert outcome.code == 0, outcome.out
    report = outcome.json
    assert report["ok"] is True
    names = [finding["name"] for finding in report["findings"]]
    assert {"python", "tvm packages", "tvm at work", "cost model", "compiler", "cpu", "threads", "cache"} <= set(names)
    assert len(names) == len(set(names))
    for finding in report["findings"]:
        assert set(finding) == {"name", "found", "status", "remedy"}
        assert finding["status"] in ("ok", "note")
        assert finding["found"]


def test_text_and_exit_code_follow_the_findings(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    findings = [Finding("wheel", "round"), Finding("tyre", "flat", "note", "pump it up")]
    monkeypatch.setattr(doctor, "diagnose", lambda: findings)
    good = run("doctor")
    assert good.code == 0
    lines = good.out.splitlines()
    assert lines[0].split() == ["ok", "wheel:", "round"]
    assert lines[1].split() == ["note", "tyre:", "flat"]
    assert lines[2].split() == ["→", "pump", "it", "up"]
    findings.append(Finding("axle", "broken", "problem", "weld it"))
    bad = run("doctor", "--json")
    assert bad.code == 1
    assert bad.json["ok"] is False
    assert bad.json["findings"][-1] == {"name": "axle", "found": "broken", "status": "problem", "remedy": "weld it"}
    assert run("doctor").code == 1


def test_missing_compiler_is_a_problem(run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    outcome = run("doctor", "--json")
    assert outcome.code == 1
    problems = [finding for finding in outcome.json["findings"] if finding["status"] == "problem"]
    assert [problem["name"] for problem in problems] == ["compiler"]
    assert "Install gcc or clang" in problems[0]["found"]
