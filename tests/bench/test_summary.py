"""Ratios, intervals and overviews against numbers worked out by hand."""

from __future__ import annotations

import json
from math import comb, sqrt

import pytest

from tvm_gnn.bench import Case, LayerSamples, overview, summarise
from tvm_gnn.bench.intervals import geomean, geomean_estimate, median_estimate
from tvm_gnn.errors import InputError

# Five rounds; medians 2, 5 and 4 ms. The slow third round is slow for everybody and cancels in the ratios.
SAMPLES = {
    "ours": [0.002, 0.002, 0.020, 0.001, 0.002],
    "slow": [0.005, 0.005, 0.050, 0.005, 0.005],
    "fast": [0.004, 0.003, 0.040, 0.004, 0.005],
}


def test_summary_by_hand(case: Case) -> None:
    summary = summarise(case, SAMPLES, "ours", "exact", {"dgl": "dgl is not installed"})
    assert summary.ours_ms == pytest.approx(2)
    assert summary.peers == pytest.approx({"slow": 5, "fast": 4})
    assert summary.best_peer == "fast"
    assert summary.round_ratios == pytest.approx((2, 1.5, 2, 4, 2.5))
    assert summary.ratio == pytest.approx((2, 1.5, 4))  # under 6 rounds the interval is the range
    assert summary.sparse_ratio is None
    assert json.loads(json.dumps(summary.as_dict())) == {
        "dataset": "unnamed",
        "op": "u_mul_e_sum",
        "feat": 5,
        "protocol": "alone",
        "source": "exact",
        "ours_ms": pytest.approx(2),
        "peers": pytest.approx({"slow": 5, "fast": 4}),
        "peer_ratios": pytest.approx({"slow": 2.5, "fast": 2}),
        "best_peer": "fast",
        "ratio": pytest.approx(2),
        "ratio_interval": pytest.approx([1.5, 4]),
        "sparse_ratio": None,
        "left_out": {"dgl": "dgl is not installed"},
        "roofline": None,
    }


def test_summary_against_some_peers(case: Case) -> None:
    summary = summarise(case, SAMPLES, "ours", "default", peers=["slow", "absent"])
    assert (summary.best_peer, list(summary.peers)) == ("slow", ["slow"])
    assert summary.round_ratios == pytest.approx((2.5, 2.5, 2.5, 5, 2.5))


def test_layer_summary_takes_the_dense_part_off(case: Case) -> None:
    summary = summarise(case, LayerSamples(SAMPLES, dense=[0.001] * 5), "ours", "default")
    assert summary.protocol == "layer"
    assert summary.ratio is not None
    assert summary.ratio.value == pytest.approx(2)
    assert summary.sparse_ratio == pytest.approx((4 - 1) / (2 - 1))
    nothing_left = summarise(case, LayerSamples(SAMPLES, dense=[0.002] * 5), "ours", "default")
    assert nothing_left.sparse_ratio is None


def test_summary_without_peers(case: Case) -> None:
    summary = summarise(case, {"ours": [1.0]}, "ours", "default")
    assert (summary.best_peer, summary.ratio, summary.peers) == (None, None, {})
    assert summary.as_dict()["ratio_interval"] is None
    assert overview([summary]) is None
    assert overview([]) is None


def test_summary_refuses_an_unknown_name_and_unpaired_rounds(case: Case) -> None:
    with pytest.raises(InputError, match=r"ours: must be one of the timed runs \(got 'mine'"):
        summarise(case, SAMPLES, "mine", "default")
    with pytest.raises(InputError, match=r"same number of rounds for everybody \(got ours: 2, peer: 1\)"):
        summarise(case, {"ours": [1.0, 1.0], "peer": [1.0]}, "ours", "default")


def test_overview_by_hand(case: Case) -> None:
    eight = summarise(case, {"ours": [1.0] * 7, "peer": [8.0] * 7}, "ours", "default")
    half = summarise(case, {"ours": [2.0] * 7, "peer": [1.0] * 7}, "ours", "default")
    alone = summarise(case, {"ours": [1.0] * 7}, "ours", "default")
    total = overview([eight, half, alone])
    assert total is not None
    assert total.cases == 2
    assert total.geomean == pytest.approx((2, 2, 2))
    assert (total.worst, total.worst_case) == (0.5, half)
    assert json.loads(json.dumps(total.as_dict())) == {
        "cases": 2,
        "geomean": pytest.approx(2),
        "geomean_interval": pytest.approx([2, 2]),
        "min": 0.5,
        "min_case": {"dataset": "unnamed", "op": "u_mul_e_sum", "feat": 5, "best_peer": "peer"},
        "roofline_share": None,
    }


def test_interval_of_fifteen_rounds_is_fourth_to_twelfth() -> None:
    assert median_estimate([float(i) for i in range(15, 0, -1)]) == (8, 4, 12)


@pytest.mark.parametrize("n", range(6, 60))
@pytest.mark.parametrize("confidence", [0.9, 0.95, 0.99])
def test_interval_is_the_narrowest_that_covers(n: int, confidence: float) -> None:
    estimate = median_estimate([float(i) for i in range(1, n + 1)], confidence)
    rank = round(estimate.low)
    assert estimate.high == n + 1 - rank

    def coverage(k: int) -> float:
        return 1 - 2 * sum(comb(n, i) for i in range(k)) / float(2**n)

    assert coverage(rank) >= confidence or rank == 1
    assert rank >= n // 2 or coverage(rank + 1) < confidence


def test_few_samples_give_their_range() -> None:
    assert median_estimate([3.0, 1.0]) == (2, 1, 3)
    assert median_estimate([3.0]) == (3, 3, 3)
    with pytest.raises(InputError, match="samples: must hold at least one value"):
        median_estimate([])


def test_geomean() -> None:
    assert geomean([2.0, 8.0]) == pytest.approx(4)
    assert geomean([0.5, 3.0]) == pytest.approx(sqrt(1.5))
    with pytest.raises(InputError, match="values: must hold at least one value"):
        geomean([])


def test_bootstrap_of_the_geomean_grows_with_the_noise() -> None:
    quiet, noisy = ([[m - s, m, m, m + s, m + s, m - s, m] for m in (2.0, 3.0)] for s in (0.1, 1.0))
    narrow, wide = geomean_estimate(quiet), geomean_estimate(noisy)
    assert narrow.value == wide.value == pytest.approx(sqrt(6))
    for estimate in (narrow, wide):
        assert estimate.low < estimate.value < estimate.high
    assert wide.high - wide.low > 3 * (narrow.high - narrow.low)
    assert geomean_estimate(noisy) == wide
