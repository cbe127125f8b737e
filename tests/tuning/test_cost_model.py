"""The cost model: silent until it knows something, then ranks schedules, also across graphs and restarts."""

from __future__ import annotations

import json
import math
import random
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import spearmanr  # type: ignore[import-untyped,unused-ignore]

from tvm_gnn import datasets
from tvm_gnn.errors import DependencyError
from tvm_gnn.templates.space import Decisions
from tvm_gnn.tuning import trees
from tvm_gnn.tuning.cost_model import CostModel
from tvm_gnn.tuning.features import feature_matrix, feature_names
from tvm_gnn.tuning.task import Task

Cost = Callable[[Decisions], float]


@pytest.fixture(scope="module")
def split(wide: Task) -> tuple[list[Decisions], list[Decisions]]:
    """Schedules to learn from, and others to predict."""
    members = list(wide.space)
    random.Random(0).shuffle(members)
    return members[:96], members[96:296]


def speedups(task: Task, choices: list[Decisions], cost_s: Cost) -> list[float | None]:
    default_s = cost_s(task.space.default)
    return [default_s / cost_s(choice) for choice in choices]


def trained(task: Task, choices: list[Decisions], cost_s: Cost, seed: int = 0) -> CostModel:
    model = CostModel(task, seed)
    model.add(choices, speedups(task, choices, cost_s))
    model.fit()
    return model


def rank_correlation(model: CostModel, choices: list[Decisions], cost_s: Cost) -> float:
    return float(spearmanr(model.predict(choices), [-cost_s(choice) for choice in choices]).statistic)


def test_untrained_predicts_zeros(wide: Task, split: tuple[list[Decisions], list[Decisions]]) -> None:
    model = CostModel(wide)
    assert not model.is_trained
    assert model.predict(split[1]).tolist() == [0.0] * len(split[1])
    model.add(split[0][:5], [1.0] * 5)
    model.fit()
    assert not model.is_trained
    assert model.report() == {"rank_correlation": None, "predictions": 0, "samples": 5}


def test_learns_to_rank_what_it_has_not_seen(
    wide: Task, split: tuple[list[Decisions], list[Decisions]], cost_s: Cost
) -> None:
    known, unseen = split
    model = trained(wide, known, cost_s)
    assert model.is_trained
    assert rank_correlation(model, unseen, cost_s) > 0.7
    # Labels are log2 speed-ups over the default, so the default itself is near 0.
    assert abs(model.predict([wide.space.default])[0]) < 0.7


def test_predictions_follow_seed_and_data(
    wide: Task, split: tuple[list[Decisions], list[Decisions]], cost_s: Cost
) -> None:
    known, unseen = split
    again = [trained(wide, known, cost_s, seed).predict(unseen).tolist() for seed in (1, 1, 2)]
    assert again[0] == again[1]
    assert again[0] != again[2]


def test_failed_candidates_count_as_the_slowest(
    wide: Task, split: tuple[list[Decisions], list[Decisions]], cost_s: Cost
) -> None:
    known, unseen = split
    model = CostModel(wide)
    times = speedups(wide, known, cost_s)
    model.add(known, [None if c["unroll"] == 4 else s for c, s in zip(known, times, strict=True)])
    model.fit()
    failing = [prediction for c, prediction in zip(unseen, model.predict(unseen), strict=True) if c["unroll"] == 4]
    others = [prediction for c, prediction in zip(unseen, model.predict(unseen), strict=True) if c["unroll"] != 4]
    assert np.mean(failing) < np.mean(others) - 0.5


def test_report_judges_predictions_of_unseen_candidates(
    wide: Task, split: tuple[list[Decisions], list[Decisions]], cost_s: Cost
) -> None:
    known, unseen = split
    model = trained(wide, known, cost_s)
    assert model.report() == {"rank_correlation": None, "predictions": 0, "samples": 96}
    model.add(unseen[:50], speedups(wide, unseen[:50], cost_s))
    report = model.report()
    assert (report["predictions"], report["samples"]) == (50, 146)
    assert report["rank_correlation"] > 0.7
    reversed_times = [1 / s for s in speedups(wide, unseen[50:150], cost_s) if s]
    model.add(unseen[50:150], reversed_times)
    assert model.report()["rank_correlation"] < report["rank_correlation"]


def test_learns_across_graphs(make: Callable[..., Task]) -> None:
    small, large = make(feat=32), make(feat=32, graph=datasets.load("synthetic:grid:rows=60,cols=60"))
    members = list(small.space)
    assert members == list(large.space)

    def speedup(choice: Decisions, on_large: bool) -> float:
        parts = math.log2(int(choice["parts"]))
        return float(2.0 ** (0.5 * (parts if on_large else -parts) - 0.1 * int(choice["unroll"])))

    for task, on_large in ((small, False), (large, True)):
        model = CostModel(task)
        # Both graphs are given as records would give them, so neither is the task's own.
        for source, source_is_large in ((small, False), (large, True)):
            model.add(members[::3], [speedup(c, source_is_large) for c in members[::3]], source.graph_fields)
        model.fit()
        unseen = members[1::3]
        truth = [speedup(choice, on_large) for choice in unseen]
        assert spearmanr(model.predict(unseen), truth).statistic > 0.7
        assert model.report()["predictions"] == 0


def test_saved_model_predicts_the_same(
    wide: Task, split: tuple[list[Decisions], list[Decisions]], cost_s: Cost, tmp_path: Path
) -> None:
    known, unseen = split
    model = trained(wide, known, cost_s)
    path = tmp_path / "new" / "model.trees"
    model.save(path)
    fresh = CostModel(wide)
    assert fresh.load(path)
    assert fresh.is_trained
    assert fresh.predict(unseen).tolist() == model.predict(unseen).tolist()
    assert [file.name for file in path.parent.iterdir()] == ["model.trees"]
    # Text that says what the columns are, then a zip archive of arrays; a pickle would start with its protocol.
    stamp, _, arrays = path.read_bytes().partition(b"\n")
    assert json.loads(stamp)["columns"] == feature_names(wide)
    assert arrays[:2] == b"PK"


def test_learns_on_top_of_shipped_trees(
    wide: Task, split: tuple[list[Decisions], list[Decisions]], cost_s: Cost, tmp_path: Path
) -> None:
    known, unseen = split
    shipped, own = tmp_path / "shipped.trees", tmp_path / "own.trees"
    general = trained(wide, known, cost_s)
    general.save(shipped)
    model = CostModel(wide)
    assert model.start_from(shipped)
    assert model.is_trained
    assert model.predict(unseen).tolist() == general.predict(unseen).tolist()

    def here(choice: Decisions) -> float:  # this machine has an opinion on one decision that the others lack
        return cost_s(choice) * (3.0 if choice["unroll"] == 2 else 1.0)

    model.add(unseen[:40], speedups(wide, unseen[:40], here))
    model.fit()
    alone = trained(wide, unseen[:40], here)
    assert rank_correlation(model, unseen[40:], here) > rank_correlation(general, unseen[40:], here)
    assert rank_correlation(model, unseen[40:], here) > rank_correlation(alone, unseen[40:], here)
    model.save(own)
    again = CostModel(wide)
    assert not again.load(own)  # without what lies beneath its numbers mean nothing
    assert again.start_from(shipped)
    assert again.load(own)
    assert again.predict(unseen).tolist() == model.predict(unseen).tolist()
    assert not CostModel(wide).start_from(tmp_path / "absent.trees")


def test_nothing_is_saved_untrained(wide: Task, tmp_path: Path) -> None:
    CostModel(wide).save(tmp_path / "model.trees")
    assert list(tmp_path.iterdir()) == []


def test_model_of_other_columns_is_refused(
    wide: Task,
    split: tuple[list[Decisions], list[Decisions]],
    cost_s: Cost,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = tmp_path / "model.trees"
    trained(wide, split[0], cost_s).save(path)
    monkeypatch.setattr(trees, "FEATURES_VERSION", 999)
    fresh = CostModel(wide)
    assert not fresh.load(path)
    assert not fresh.is_trained


def test_damaged_model_is_refused(
    wide: Task, split: tuple[list[Decisions], list[Decisions]], cost_s: Cost, tmp_path: Path
) -> None:
    path = tmp_path / "model.trees"
    model = trained(wide, split[0], cost_s)
    model.save(path)
    whole = path.read_bytes()
    damaged = {
        "empty": b"",
        "text": b"not a model",
        "one bit": whole[:-100] + bytes([whole[-100] ^ 1]) + whole[-99:],
        "half": whole[: len(whole) // 2],
        "no end": whole[:-1],
        "zeros": bytes(4096),
        "json": b"{}",
        "pickle": b"\x80\x04\x95\x0b\x00\x00\x00\x00\x00\x00\x00\x8c\x07builtins\x94.",
        "no trees, with their checksum": json.dumps({**trees._stamp(wide, b"", None), "scopes": []}).encode() + b"\n",
        "no scopes": json.dumps(trees._stamp(wide, whole.partition(b"\n")[2], None)).encode() + whole[-100:],
        "a foreign model": whole.replace(b"prefetch", b"unknown!"),
    }
    for name, content in damaged.items():
        path.write_bytes(content)
        fresh = CostModel(wide)
        assert not fresh.load(path), name
        assert not fresh.is_trained, name
    assert not CostModel(wide).load(tmp_path / "absent.trees")
    assert not CostModel(wide).load(tmp_path)


def test_model_that_cannot_be_written_is_an_os_error(
    wide: Task, split: tuple[list[Decisions], list[Decisions]], cost_s: Cost, tmp_path: Path
) -> None:
    model = trained(wide, split[0], cost_s)
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="file"):
        model.save(tmp_path / "file" / "model.trees")
    with pytest.raises(OSError, match=r"model\.trees"):
        model.save(Path("/proc/self/model.trees"))  # a folder that exists and takes no files


def test_missing_xgboost_is_named(wide: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "xgboost", None)
    with pytest.raises(DependencyError, match=r"xgboost: .*Install xgboost-cpu"):
        CostModel(wide)


def test_columns_have_names_and_numbers(wide: Task) -> None:
    names = feature_names(wide)
    members = list(wide.space)
    matrix = feature_matrix(wide, wide.graph_fields, members)
    assert matrix.shape == (len(members), len(names))
    assert len(set(names)) == len(names)
    assert matrix.dtype == np.float32
    assert np.isfinite(matrix).all()
    # The schedule's columns alone tell all schedules apart.
    assert len({row.tobytes() for row in matrix}) == len(members)


def test_columns_tell_graphs_apart(make: Callable[..., Task]) -> None:
    tasks = [make(feat=32, graph=datasets.load(name)) for name in ("karate", "synthetic:star:n=50")]
    rows = [feature_matrix(task, task.graph_fields, [tasks[0].space.default])[0] for task in tasks]
    assert (rows[0] != rows[1]).sum() > 5


def test_trees_predict_as_xgboost_does(
    wide: Task, split: tuple[list[Decisions], list[Decisions]], cost_s: Cost, monkeypatch: pytest.MonkeyPatch
) -> None:
    xgboost = trees.import_xgboost()
    rows = feature_matrix(wide, wide.graph_fields, split[0])
    labels = np.array([math.log2(s or 1.0) for s in speedups(wide, split[0], cost_s)], np.float32)
    boosters = []
    monkeypatch.setattr(
        trees, "_trees_of", lambda booster, own=trees._trees_of: boosters.append(booster) or own(booster)
    )
    halves = [np.arange(0, 96, 2), np.arange(1, 96, 2)]
    grown = trees.grown(rows, labels, {"max_depth": 4, "eta": 0.3}, 30, samples=halves)
    unseen = feature_matrix(wide, wide.graph_fields, split[1])
    each = [
        booster.predict(xgboost.DMatrix(unseen, base_margin=np.full(len(unseen), labels[half].mean())))
        for booster, half in zip(boosters, halves, strict=True)
    ]
    np.testing.assert_allclose(grown.predict(unseen), np.mean(each, axis=0), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(grown.spread(unseen), np.std(each, axis=0), rtol=1e-3, atol=1e-5)
    assert grown.spread(unseen).max() > 0
