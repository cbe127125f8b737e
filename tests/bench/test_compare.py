"""A comparison times only what is right, and says why it left somebody out."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tvm_gnn.bench import Case, Contender, Entrant, Timing, compare
from tvm_gnn.errors import InputError, TuneError

TIMING = Timing(rounds=2, drain_s=0, warm_s=0, block_s=0)
Make = Callable[..., Contender]


def ours(case: Case, name: str = "tvm_gnn") -> Entrant:
    answer = case.reference.astype(np.float32)
    return Entrant(name, lambda x: answer)


def spoiled(y: Any) -> Any:
    y[1, 2] += 0.01
    return y


def refuses(case: Case, threads: int) -> Any:
    raise RuntimeError("no kernel for this processor\nstack trace follows")


def test_wrong_failing_missing_and_unable_peers_are_not_timed(case: Case, fake_contender: Make) -> None:
    def never(case: Case, threads: int) -> Any:
        raise AssertionError("must not be prepared")

    peers = [
        fake_contender("right"),
        fake_contender("wrong", spoiled),
        fake_contender("misshapen", lambda y: y[:-1]),
        fake_contender("failing", build=refuses),
        fake_contender("absent", missing=lambda: "absent is not installed", build=never),
        fake_contender("unable", ops=frozenset({"copy_u_sum"}), build=never),
    ]
    comparison = compare(case, ours(case), peers, threads=1, timing=TIMING)
    assert comparison.alone is not None
    assert set(comparison.alone) == {"tvm_gnn", "right"}
    assert [len(samples) for samples in comparison.alone.values()] == [2, 2]
    left_out = dict(comparison.left_out)
    assert left_out.pop("wrong").startswith("wrong result: 1 of 45 elements differ, first at row 1, feature 2")
    assert left_out == {
        "misshapen": "wrong result: shape (8, 5), expected (9, 5)",
        "failing": "failed: RuntimeError: no kernel for this processor",
        "absent": "absent is not installed",
        "unable": "does not compute u_mul_e_sum",
    }
    assert comparison.versions == {"right": "right 1.0"}


def test_wrong_kernel_of_ours_is_not_timed(case: Case, fake_contender: Make) -> None:
    wrong = Entrant("tvm_gnn", lambda x: spoiled(case.reference.astype(np.float32)))
    with pytest.raises(TuneError, match="tvm_gnn: must agree with the reference before it is timed"):
        compare(case, wrong, [fake_contender("right")], threads=1, timing=TIMING)


def test_peers_are_given_the_thread_count(case: Case, fake_contender: Make) -> None:
    given = []

    def build(case: Case, threads: int) -> Any:
        given.append(threads)
        return lambda x: case.reference.astype(np.float32)

    compare(case, ours(case), [fake_contender("a", build=build), fake_contender("b", build=build)], 3, timing=TIMING)
    assert given == [3, 3]


def test_features_taken_in_beforehand(case: Case, fake_contender: Make) -> None:
    bound = []

    def bind(kernel: Any, x: Any) -> Any:
        bound.append(x)
        return lambda: kernel(x)

    compare(case, ours(case), [fake_contender("binds", bind=bind)], threads=1, timing=TIMING)
    assert len(bound) == 1
    assert np.array_equal(bound[0], case.x)


def test_groups_have_their_own_best_peer(case: Case, fake_contender: Make) -> None:
    peers = [fake_contender("plain"), fake_contender("expert", group="strongest")]
    comparison = compare(case, ours(case), peers, threads=1, source="exact", timing=TIMING)
    report = json.loads(json.dumps(comparison.as_dict()))
    assert set(report) == {"versions", "alone_all", "alone_default", "alone_strongest"}
    assert report["alone_default"]["best_peer"] == "plain"
    assert report["alone_strongest"]["best_peer"] == "expert"
    assert set(report["alone_all"]["peers"]) == {"plain", "expert"}
    assert report["alone_all"]["source"] == "exact"
    assert comparison.summary("layer") is None


def test_layer_is_timed_on_request(case: Case, fake_contender: Make) -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    comparison = compare(case, ours(case), [fake_contender("peer")], threads=1, in_layer=True, timing=TIMING)
    assert comparison.layer is not None
    assert set(comparison.layer.layers) == {"tvm_gnn", "peer"}
    assert len(comparison.layer.dense) == 2
    summary = comparison.summary("layer", "default")
    assert summary is not None
    assert (summary.protocol, summary.best_peer) == ("layer", "peer")


def test_layer_only(case: Case, fake_contender: Make) -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    peers = [fake_contender("peer")]
    comparison = compare(case, ours(case), peers, threads=1, alone=False, in_layer=True, timing=TIMING)
    assert comparison.summary("alone") is None
    assert comparison.summary("layer") is not None
    assert set(comparison.as_dict()) == {"versions", "layer_all", "layer_default"}


def test_a_peer_with_our_name_is_refused(case: Case, fake_contender: Make) -> None:
    with pytest.raises(InputError, match=r"ours: must have a name that no contender has \(got 'dgl'\)"):
        compare(case, ours(case, "dgl"), [fake_contender("dgl")], threads=1, timing=TIMING)
