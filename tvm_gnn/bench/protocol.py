"""The two timing protocols: each contender alone in short blocks, and inside a layer relu(A(XW)), always in turn."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..errors import InputError
from .case import Case
from .entrant import Entrant, Run

Samples = dict[str, list[float]]


@dataclass(frozen=True)
class Timing:
    """How long the blocks are, and the clock they are measured with.

    Attributes
    ----------
    rounds : int
        Blocks per contender; each gives one sample.
    drain_s : float
        Sleep before a block, so that threads of other pools stop spinning.
    warm_s : float
        Calls before the clock counts, at least one.
    block_s : float
        Least duration of the timed calls, at least one.
    clock, sleep : callable
        ``clock()`` in seconds, ``sleep(seconds)``.
    """

    rounds: int = 15
    drain_s: float = 0.012
    warm_s: float = 0.002
    block_s: float = 0.004
    clock: Callable[[], float] = field(default=time.perf_counter, repr=False)
    sleep: Callable[[float], None] = field(default=time.sleep, repr=False)

    def __post_init__(self) -> None:
        if self.rounds < 1:
            raise InputError(f"rounds: must be at least 1 (got {self.rounds}).")


@dataclass(frozen=True)
class LayerSamples:
    """Seconds per call of whole layers and of what all of them share.

    Attributes
    ----------
    layers : dict
        Samples of relu(A(XW)) per contender.
    dense : list of float
        Samples of the layer without its sparse part: XW and a relu of the output's size.
    """

    layers: Samples
    dense: list[float]


def time_alone(runs: Mapping[str, Run], timing: Timing | None = None) -> Samples:
    """Seconds per call of every run, one sample per round, in turn A B C A B C: what each kernel can do.

    A sample is the mean over the calls of one block. Sample r of one run and sample r of another were taken within
    the same round, so their ratio is free of slow drift of the machine.
    """
    timing = timing or Timing()
    samples: Samples = {name: [] for name in runs}
    for _ in range(timing.rounds):
        for name, run in runs.items():
            samples[name].append(_block(run, timing))
    return samples


def time_in_layer(case: Case, entrants: Sequence[Entrant], timing: Timing | None = None) -> LayerSamples:
    """Seconds per call of relu(A(XW)) with every entrant as A, in turn: what a user of torch gets.

    XW of shape (num_src, F) by (F, F) and the relu are torch's, so an entrant with a thread pool of its own meets
    torch's in every call. Outputs are not checked here; see `check`.
    """
    dense_name = "(dense part)"  # not an identifier, so never a contender's name
    runs = {entrant.name: layer(case, entrant) for entrant in entrants}
    samples = time_alone({**runs, dense_name: dense_part(case)}, timing)
    return LayerSamples(dense=samples.pop(dense_name), layers=samples)


def layer(case: Case, entrant: Entrant) -> Run:
    """One layer relu(A(XW)) as a call without arguments that returns a torch tensor of shape (num_dst, F)."""
    import torch

    x, weight = _dense_inputs(case)

    def run() -> Any:
        with torch.no_grad():
            hidden = torch.mm(x, weight)
            y = entrant.kernel(hidden if entrant.takes == "torch" else hidden.numpy())
            return torch.relu_(y if isinstance(y, torch.Tensor) else torch.from_numpy(np.asarray(y)))

    return run


def dense_part(case: Case) -> Run:
    """What every layer of the case does beside its sparse part: XW, and a relu over (num_dst, F)."""
    import torch

    x, weight = _dense_inputs(case)
    out = torch.zeros(case.graph.num_dst, case.width)

    def run() -> Any:
        with torch.no_grad():
            torch.mm(x, weight)
            return torch.relu_(out)

    return run


def _dense_inputs(case: Case) -> tuple[Any, Any]:
    """X, and W of shape (F, F) scaled so that XW is about as large as X."""
    import torch

    weight = np.random.default_rng([case.seed, 2]).standard_normal((case.width, case.width), dtype=np.float32)
    return torch.from_numpy(case.x), torch.from_numpy(weight / np.float32(np.sqrt(case.width)))


def _block(run: Run, timing: Timing) -> float:
    timing.sleep(timing.drain_s)
    _repeat(run, timing.warm_s, timing.clock)
    elapsed_s, calls = _repeat(run, timing.block_s, timing.clock)
    return elapsed_s / calls


def _repeat(run: Run, at_least_s: float, clock: Callable[[], float]) -> tuple[float, int]:
    start = clock()
    calls = 0
    while True:
        run()
        calls += 1
        elapsed_s = clock() - start
        if elapsed_s >= at_least_s:
            return elapsed_s, calls
