"""Reports: one case against its peers, and many cases in one number, each ratio with its interval."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from ..errors import InputError
from .case import Case
from .intervals import Estimate, geomean_estimate, median_estimate
from .protocol import LayerSamples, Samples
from .roofline import Roofline


@dataclass(frozen=True)
class CaseSummary:
    """One case under one protocol. A ratio is a peer's time over ours: above 1, we are faster.

    Attributes
    ----------
    dataset, op : str
    feat : int or (int, int)
    protocol : {"alone", "layer"}
    source : str
        Where our kernel came from: ``exact``, ``bucket``, ``nearest`` or ``default``.
    ours_ms : float
        Median over the rounds, milliseconds per call.
    peers : dict
        The same for every peer.
    peer_ratios : dict
        For every peer, the median over the rounds of its time ÷ ours within a round.
    best_peer : str or None
        The peer with the smallest median; None when no peer was timed.
    ratio : Estimate or None
        Median over the rounds of best peer ÷ ours within a round, with a 95 % interval.
    round_ratios : tuple of float
        What `ratio` is the median of.
    sparse_ratio : float or None
        In a layer: (best peer - dense part) ÷ (ours - dense part), of medians; None when ours is not above the dense
        part, and when alone.
    left_out : dict
        Peers that were not timed, each with the reason: missing, unsupported, failed, or wrong.
    roofline : Roofline or None
        Bounds from memory traffic; None in a layer, and where no bandwidth was measured.
    """

    dataset: str
    op: str
    feat: int | tuple[int, int]
    protocol: str
    source: str
    ours_ms: float
    peers: dict[str, float]
    peer_ratios: dict[str, float]
    best_peer: str | None
    ratio: Estimate | None
    round_ratios: tuple[float, ...]
    sparse_ratio: float | None
    left_out: dict[str, str]
    roofline: Roofline | None = None

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON, without the single rounds."""
        return {
            "dataset": self.dataset,
            "op": self.op,
            "feat": self.feat,
            "protocol": self.protocol,
            "source": self.source,
            "ours_ms": self.ours_ms,
            "peers": dict(self.peers),
            "peer_ratios": dict(self.peer_ratios),
            "best_peer": self.best_peer,
            "ratio": None if self.ratio is None else self.ratio.value,
            "ratio_interval": None if self.ratio is None else [self.ratio.low, self.ratio.high],
            "sparse_ratio": self.sparse_ratio,
            "left_out": dict(self.left_out),
            "roofline": None if self.roofline is None else self.roofline.as_dict(self.ours_ms),
        }


@dataclass(frozen=True)
class Overview:
    """Many cases in one number.

    Attributes
    ----------
    cases : int
        Those with a ratio.
    roofline_share : float or None
        Median of the share of the roofline that we reach; None where no bounds are known.
    geomean : Estimate
        Of the cases' ratios, with a 95 % interval for the noise of the rounds.
    worst : float
        The smallest ratio.
    worst_case : CaseSummary
        Where that was.
    """

    cases: int
    geomean: Estimate
    worst: float
    worst_case: CaseSummary
    roofline_share: float | None

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        worst = self.worst_case
        return {
            "cases": self.cases,
            "geomean": self.geomean.value,
            "geomean_interval": [self.geomean.low, self.geomean.high],
            "min": self.worst,
            "min_case": {"dataset": worst.dataset, "op": worst.op, "feat": worst.feat, "best_peer": worst.best_peer},
            "roofline_share": self.roofline_share,
        }


def summarise(
    case: Case,
    samples: Samples | LayerSamples,
    ours: str,
    source: str,
    left_out: Mapping[str, str] | None = None,
    peers: Sequence[str] | None = None,
    roofline: Roofline | None = None,
) -> CaseSummary:
    """Summary of one case from the samples of a protocol.

    Parameters
    ----------
    samples : dict of list, or LayerSamples
        Seconds per call, one per round, for us and for every peer that was timed.
    ours : str
        Our name in `samples`.
    peers : sequence of str, optional
        Compare with these only, such as those of one group; names that were not timed are passed over.
    roofline : Roofline, optional
        The case's bounds.
    """
    in_layer = isinstance(samples, LayerSamples)
    times = samples.layers if isinstance(samples, LayerSamples) else samples
    if ours not in times:
        raise InputError(f"ours: must be one of the timed runs (got {ours!r}, timed {', '.join(times)}).")
    if len({len(rounds) for rounds in times.values()}) != 1:
        counts = ", ".join(f"{name}: {len(rounds)}" for name, rounds in times.items())
        raise InputError(f"samples: must have the same number of rounds for everybody (got {counts}).")
    wanted = [name for name in times if name != ours and (peers is None or name in peers)]
    medians = {name: median(times[name]) for name in wanted}
    best = min(medians, key=medians.__getitem__, default=None)
    round_ratios = {name: tuple(p / o for p, o in zip(times[name], times[ours], strict=True)) for name in wanted}
    ratios = () if best is None else round_ratios[best]
    sparse_ratio = None
    if isinstance(samples, LayerSamples) and best is not None:
        dense = median(samples.dense)
        sparse_s = median(times[ours]) - dense
        sparse_ratio = (medians[best] - dense) / sparse_s if sparse_s > 0 else None
    return CaseSummary(
        dataset=case.dataset,
        op=case.op.name,
        feat=case.feat,
        protocol="layer" if in_layer else "alone",
        source=source,
        ours_ms=1e3 * median(times[ours]),
        peers={name: 1e3 * value for name, value in medians.items()},
        peer_ratios={name: median(values) for name, values in round_ratios.items()},
        best_peer=best,
        ratio=median_estimate(ratios) if ratios else None,
        round_ratios=ratios,
        sparse_ratio=sparse_ratio,
        left_out=dict(left_out or {}),
        roofline=None if in_layer else roofline,
    )


def overview(summaries: Sequence[CaseSummary]) -> Overview | None:
    """Geometric mean and minimum over the cases that have a ratio; None when none has."""
    rated = [(summary.ratio.value, summary) for summary in summaries if summary.ratio is not None]
    if not rated:
        return None
    worst, worst_case = min(rated, key=lambda pair: pair[0])
    spread = geomean_estimate([summary.round_ratios for _, summary in rated])
    shares = [each.roofline.bound_ms / each.ours_ms for _, each in rated if each.roofline is not None]
    return Overview(
        cases=len(rated),
        geomean=spread,
        worst=worst,
        worst_case=worst_case,
        roofline_share=median(shares) if shares else None,
    )
