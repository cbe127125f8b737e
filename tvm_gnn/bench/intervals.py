"""Statistics of interleaved timings: medians, distribution-free intervals, geometric means."""

from __future__ import annotations

from collections.abc import Sequence
from math import comb, exp, log
from statistics import median
from typing import NamedTuple

import numpy as np

from ..errors import InputError


class Estimate(NamedTuple):
    """A value with the interval it lies in, at the confidence its maker states."""

    value: float
    low: float
    high: float


def median_estimate(samples: Sequence[float], confidence: float = 0.95) -> Estimate:
    """Median with an interval between two order statistics, which assumes no distribution.

    The interval from the k-th smallest to the k-th largest of n samples holds the true median with probability
    1 - 2 P(Binomial(n, ½) < k); k is the largest one that reaches `confidence`. With too few samples for any k
    (under 6 at 95 %) the interval is the whole range and covers less.
    """
    if not samples:
        raise InputError("samples: must hold at least one value (got none).")
    ordered = sorted(samples)
    rank = max(1, _order_rank(len(ordered), 1 - confidence))
    return Estimate(median(ordered), ordered[rank - 1], ordered[-rank])


def _order_rank(n: int, outside: float) -> int:
    """Largest k with 2 P(Binomial(n, ½) < k) ≤ outside; 0 when there is none."""
    tail = 0
    for k in range(n // 2 + 1):
        tail += comb(n, k)
        if 2 * tail > outside * 2**n:
            return k
    return n // 2


def geomean(values: Sequence[float]) -> float:
    """Geometric mean of positive values."""
    if not values:
        raise InputError("values: must hold at least one value (got none).")
    return exp(sum(log(value) for value in values) / len(values))


def geomean_estimate(
    ratios_of_cases: Sequence[Sequence[float]], confidence: float = 0.95, resamples: int = 1000, seed: int = 0
) -> Estimate:
    """Geometric mean over cases of each case's median ratio, with a bootstrap interval.

    Parameters
    ----------
    ratios_of_cases : one sequence of per-round ratios for each case
    resamples : int
        Times the rounds of every case are drawn anew, with replacement.

    The interval says how far the noise of the rounds may have moved the result on these cases; it says nothing
    about other graphs.
    """
    rng = np.random.default_rng(seed)
    logs = np.zeros(resamples)
    for ratios in ratios_of_cases:
        drawn = rng.choice(np.asarray(ratios, np.float64), size=(resamples, len(ratios)))
        logs += np.log(np.median(drawn, axis=1))
    value = geomean([median(ratios) for ratios in ratios_of_cases])
    outside = (1 - confidence) / 2
    low, high = np.exp(np.quantile(logs / len(ratios_of_cases), [outside, 1 - outside]))
    return Estimate(value, float(low), float(high))
