"""A comparison on one case: prepare everybody, check everybody, time in turn those that are right, summarise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import InputError, TuneError
from .bandwidth import Bandwidth
from .case import Case
from .contenders import Contender
from .entrant import Entrant, Run, check
from .protocol import LayerSamples, Samples, Timing, time_alone, time_in_layer
from .roofline import Roofline, roofline
from .summary import CaseSummary, summarise


@dataclass(frozen=True)
class Comparison:
    """What was measured on one case.

    Attributes
    ----------
    case : Case
    ours, source : str
        Our name and where our kernel came from.
    alone : Samples or None
    layer : LayerSamples or None
        None when that protocol was not asked for.
    groups : dict
        Group of every peer that was timed.
    versions : dict
        What each of them says about its version and code path.
    left_out : dict
        Peers that were not timed, each with the reason.
    roofline : Roofline or None
        None where no bandwidth was given.
    """

    case: Case
    ours: str
    source: str
    alone: Samples | None
    layer: LayerSamples | None
    groups: dict[str, str]
    versions: dict[str, str]
    left_out: dict[str, str]
    roofline: Roofline | None

    def summary(self, protocol: str = "alone", group: str | None = None) -> CaseSummary | None:
        """Summary of one protocol, against all peers or those of one group; None where it was not timed."""
        samples = self.layer if protocol == "layer" else self.alone
        if samples is None:
            return None
        peers = [name for name, of in self.groups.items() if group in (None, of)]
        return summarise(self.case, samples, self.ours, self.source, self.left_out, peers, self.roofline)

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON: a summary per protocol, against all peers and against each group."""
        report: dict[str, Any] = {"versions": dict(self.versions)}
        for protocol in ("alone", "layer"):
            for group in (None, *sorted(set(self.groups.values()))):
                summary = self.summary(protocol, group)
                if summary is not None:
                    report[f"{protocol}_{group or 'all'}"] = summary.as_dict()
        return report


def compare(
    case: Case,
    ours: Entrant,
    against: Sequence[Contender],
    threads: int,
    *,
    source: str = "default",
    alone: bool = True,
    in_layer: bool = False,
    timing: Timing | None = None,
    bandwidth: Bandwidth | None = None,
) -> Comparison:
    """Time our kernel and its peers on one case.

    Parameters
    ----------
    threads : int
        Given to every peer; our kernel must have been made for the same number.
    alone, in_layer : bool
        Protocols: time the kernel alone, and relu(A(XW)), which needs torch.
    bandwidth : Bandwidth, optional
        Of this machine, for the bounds from memory traffic.

    Raises
    ------
    TuneError
        Our own result is wrong: a time for it would mean nothing.
    InputError
        A peer has our name.
    """
    if any(contender.name == ours.name for contender in against):
        raise InputError(f"ours: must have a name that no contender has (got {ours.name!r}).")
    own_run = ours.run_on(case)
    wrong = check(case, own_run)
    if wrong:
        raise TuneError(f"{ours.name}: must agree with the reference before it is timed (got {wrong}).")
    entrants, runs, left_out = prepare_peers(case, against, threads)
    alone_samples = time_alone({ours.name: own_run, **runs}, timing) if alone else None
    layer = None
    if in_layer:
        import torch

        torch.set_num_threads(threads)
        layer = time_in_layer(case, [ours, *entrants], timing)
    timed = [contender for contender in against if contender.name in runs]
    return Comparison(
        case=case,
        ours=ours.name,
        source=source,
        alone=alone_samples,
        layer=layer,
        groups={contender.name: contender.group for contender in timed},
        versions={contender.name: contender.describe() for contender in timed},
        left_out=left_out,
        roofline=None if bandwidth is None else roofline(case, bandwidth),
    )


def prepare_peers(
    case: Case, against: Sequence[Contender], threads: int
) -> tuple[list[Entrant], dict[str, Run], dict[str, str]]:
    """Entrants and runs of the peers that give the reference's numbers, and why each of the others is left out."""
    entrants: list[Entrant] = []
    runs: dict[str, Run] = {}
    left_out: dict[str, str] = {}
    for contender in against:
        reason = contender.missing()
        if reason is None and case.op.name not in contender.ops:
            reason = f"does not compute {case.op.name}"
        if reason is None:
            try:
                entrant = contender.prepare(case, threads)
                run = entrant.run_on(case)
                wrong = check(case, run)
            except Exception as error:  # a peer's library may raise anything; that ends its part, not the comparison
                reason = f"failed: {type(error).__name__}: {_first_line(error)}"
            else:
                if wrong is None:
                    entrants.append(entrant)
                    runs[entrant.name] = run
                    continue
                reason = f"wrong result: {wrong}"
        left_out[contender.name] = reason
    return entrants, runs, left_out


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), "")
