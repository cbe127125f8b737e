"""Builders of keys, graphs and records, and a way to run code in processes that may be killed."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tvm_gnn.cache as cache
from tvm_gnn.cache import ArtifactStore, Record, TaskKey

PARTS = {name: f"some-{name}" for name in cache.KEY_PARTS}


@pytest.fixture(scope="session")
def parts() -> dict[str, str]:
    return dict(PARTS)


@pytest.fixture(scope="session")
def key() -> TaskKey:
    return TaskKey(PARTS)


@pytest.fixture(scope="session")
def make_graph() -> Callable[..., dict[str, Any]]:
    def build(exact: str = "cafe", bucket: str = "b1", degree: float = 4.0) -> dict[str, Any]:
        return {
            "name": f"graph-{exact}",
            "exact": exact,
            "bucket": bucket,
            "features": {"degree_mean": degree, "nnz": 40},
            "num_dst": 10,
            "num_src": 12,
            "num_edges": 40,
        }

    return build


@pytest.fixture(scope="session")
def make_record(make_graph: Callable[..., dict[str, Any]]) -> Callable[..., Record]:
    def build(**changes: Any) -> Record:
        fields: dict[str, Any] = {
            "task": PARTS,
            "graph": make_graph(),
            "decisions": {"tile": 64, "order": "rows", "prefetch": True},
            "environment": {"cpu": "a cpu", "tvm": "0.27"},
            "timings_s": [0.25, 0.125],
            "trace": [["Split", [64, None]], []],
            "created": "2026-01-02T03:04:05.000006+00:00",
            "seed": 7,
            "trial": 3,
        }
        return Record(**{**fields, **changes})

    return build


@pytest.fixture
def store(tmp_path: Path) -> ArtifactStore:
    return ArtifactStore(tmp_path / "store")


@pytest.fixture
def library(tmp_path: Path) -> Path:
    path = tmp_path / "built.so"
    path.write_bytes(bytes(range(256)) * 400)
    return path


@pytest.fixture(scope="session")
def spawn() -> Callable[..., subprocess.Popen[str]]:
    """Starts a Python process on a text of code; further arguments become `sys.argv[1:]`."""
    root = Path(cache.__file__).parents[2]

    def start(code: str, *arguments: object) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-c", code, *map(str, arguments)],
            env={**os.environ, "PYTHONPATH": str(root)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    return start
