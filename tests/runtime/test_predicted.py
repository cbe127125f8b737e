"""`tvm_gnn.load` of a task that nobody tuned: the model's choice where it is sure, else the default."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tvm_gnn
from tvm_gnn.cli.main import main
from tvm_gnn.compile import make_task
from tvm_gnn.errors import BuildError
from tvm_gnn.graph import Graph
from tvm_gnn.ops.reference import spmm_reference
from tvm_gnn.templates.space import Decisions
from tvm_gnn.tuning import prediction
from tvm_gnn.tuning.cost_model import CostModel
from tvm_gnn.tuning.features import scope
from tvm_gnn.tuning.shipped import model_name
from tvm_gnn.untuned import artifact_store

FEAT = 20


@pytest.fixture
def karate() -> Graph:
    return tvm_gnn.datasets.load("karate")


AGAIN = """
import json, sys
import tvm_gnn
from tvm_gnn.tuning import builder
def refuse(*_):
    raise AssertionError("built although it is in the cache")
builder.Builder.__init__ = builder.build_once = refuse
kernel = tvm_gnn.load(tvm_gnn.datasets.load("karate"), "copy_u_sum", 20)
print(json.dumps({
    "source": kernel.source,
    "decisions": dict(kernel.provenance.decisions),
    "heavy": sorted({"tvm", "tvm_ffi", "torch", "xgboost"} & set(sys.modules)),
}))
"""
Teach = Callable[[Callable[[Decisions], float]], Path]


@pytest.fixture
def teach(tmp_path: Path, karate: Graph, monkeypatch: pytest.MonkeyPatch) -> Teach:
    """Puts a model in place that has learned these speed-ups of copy_u_sum on the graph."""

    def put(speedup: Callable[[Decisions], float]) -> Path:
        task = make_task(karate, "copy_u_sum", FEAT)
        members = list(task.space)[::5]
        model = CostModel(task)
        model.add([task.space.default], [1.0])
        model.add(members, [speedup(choice) for choice in members])
        model.fit()
        path = tmp_path / "models" / model_name(task)
        model.save(path)
        monkeypatch.setenv("TVM_GNN_MODELS", str(path.parent))
        return path

    return put


def likes_pairs(choice: Decisions) -> float:
    return 2.0 if choice["unroll"] == 2 else 0.5


def likes_fours(choice: Decisions) -> float:
    return 2.0 if choice["unroll"] == 4 else 0.5


def is_right(kernel: Any) -> bool:
    graph = kernel.graph
    x = np.random.default_rng(0).integers(-5, 6, (graph.num_src, FEAT)).astype(np.float32)
    want = spmm_reference(kernel.problem.op, graph.indptr, graph.indices, graph.edge_ids, x, None)
    return bool((kernel(x) == want.astype(np.float32)).all())


def test_the_model_picks_once_and_later_loads_build_nothing(
    teach: Teach, karate: Graph, run_python: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    teach(likes_pairs)
    kernel = tvm_gnn.load(karate, "copy_u_sum", FEAT)
    assert kernel.source == "predicted"
    assert kernel.provenance.decisions["unroll"] == 2
    assert kernel.provenance.measured["expected_speedup"] > 1.5
    assert is_right(kernel)
    again = json.loads(run_python(AGAIN))
    assert again == {"source": "predicted", "decisions": dict(kernel.provenance.decisions), "heavy": []}
    assert main(["cache", "explain", "--dataset", "karate", "--op", "copy_u_sum", "--feat", str(FEAT)]) == 0
    served = f"the predicted schedule, built already (nothing comparable is tuned) ({kernel.provenance.artifact})"
    assert f"served from: {served}" in capsys.readouterr().out
    assert main(["cache", "ls"]) == 0
    assert "2 artifacts (2 of schedules that were not tuned: --defaults)" in capsys.readouterr().out
    assert main(["cache", "ls", "--defaults"]) == 0
    assert "karate (predicted)" in capsys.readouterr().out


def test_another_model_is_asked_again(teach: Teach, karate: Graph) -> None:
    teach(likes_pairs)
    assert tvm_gnn.load(karate, "copy_u_sum", FEAT).provenance.decisions["unroll"] == 2
    teach(likes_fours)
    assert tvm_gnn.load(karate, "copy_u_sum", FEAT).provenance.decisions["unroll"] == 4


def test_an_unsure_model_leaves_the_default(teach: Teach, karate: Graph, run_python: Any) -> None:
    teach(lambda choice: 1.01)
    kernel = tvm_gnn.load(karate, "copy_u_sum", FEAT)
    assert kernel.source == "default"
    assert kernel.provenance.decisions == make_task(karate, "copy_u_sum", FEAT).space.default
    assert is_right(kernel)
    assert json.loads(run_python(AGAIN))["source"] == "default"  # not asked again either


def test_disagreement_counts_against_a_schedule(karate: Graph, teach: Teach, monkeypatch: pytest.MonkeyPatch) -> None:
    teach(likes_pairs)
    task = make_task(karate, "copy_u_sum", FEAT)
    sure = prediction.predict(task)
    monkeypatch.setattr("tvm_gnn.tuning.trees.Trees.spread", lambda self, rows: np.full(len(rows), 5.0))
    unsure = prediction.predict(task)
    assert sure is not None
    assert unsure is not None
    assert (sure.decisions["unroll"], unsure.decisions) == (2, task.space.default)
    assert unsure.expected_speedup == 1.0


def test_tuned_comes_before_predicted_and_deterministic_asks_no_model(
    teach: Teach, karate: Graph, libraries: Any
) -> None:
    teach(likes_pairs)
    # The same bits in every process, whatever model comes with the package.
    assert tvm_gnn.load(karate, "copy_u_sum", FEAT, deterministic=True).source == "default"
    task = make_task(karate, "copy_u_sum", FEAT)
    choice = {**task.space.default, "unroll": 4, "vectors": 1}
    (path,) = libraries.paths([task.code_spec(choice)])
    artifact_store().publish(
        task.key, karate.signature.exact, {"kernel.so": path}, graph=task.graph_fields, decisions=choice
    )
    assert tvm_gnn.load(karate, "copy_u_sum", FEAT).source == "exact"


@pytest.mark.parametrize(
    ("op", "options"),
    [("copy_u_mean", {}), ("copy_u_sum", {"dtype": "float64"}), ("copy_u_sum", {"threads": 1})],
)
def test_what_the_model_has_not_seen_is_the_defaults(teach: Teach, karate: Graph, op: str, options: Any) -> None:
    teach(likes_pairs)
    seen, asked = make_task(karate, "copy_u_sum", FEAT), make_task(karate, op, FEAT, **options)
    if scope(seen) == scope(asked):
        pytest.skip("this machine has one thread")
    assert tvm_gnn.load(karate, op, FEAT, **options).source == "default"


@pytest.mark.parametrize("damage", ["empty", "half", "one bit", "another's"])
def test_a_damaged_model_is_no_model(teach: Teach, karate: Graph, damage: str) -> None:
    path = teach(likes_pairs)
    whole = path.read_bytes()
    path.write_bytes(
        {
            "empty": b"",
            "half": whole[: len(whole) // 2],
            "one bit": whole[:-100] + bytes([whole[-100] ^ 1]) + whole[-99:],
            "another's": whole.replace(b"prefetch", b"unknown!"),
        }[damage]
    )
    kernel = tvm_gnn.load(karate, "copy_u_sum", FEAT)
    assert kernel.source == "default"
    assert is_right(kernel)


def test_a_damaged_entry_is_predicted_again(teach: Teach, karate: Graph) -> None:
    teach(likes_pairs)
    artifact = tvm_gnn.load(karate, "copy_u_sum", FEAT).provenance.artifact
    assert artifact is not None
    (Path(artifact) / "kernel.so").write_bytes(b"not a library")
    kernel = tvm_gnn.load(karate, "copy_u_sum", FEAT)
    assert kernel.source == "predicted"
    assert is_right(kernel)


def test_what_does_not_build_is_an_error(teach: Teach, karate: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    teach(likes_pairs)

    def fail(*_: Any) -> None:
        raise BuildError("build: no")

    monkeypatch.setattr("tvm_gnn.tuning.builder.build_once", fail)
    with pytest.raises(BuildError, match="build: no"):
        tvm_gnn.load(karate, "copy_u_sum", FEAT)
