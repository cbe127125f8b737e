"""Comparison with other kernels: contenders, timing in turn, correctness before speed, ratios with intervals."""

from .case import Case
from .compare import Comparison, compare
from .contenders import CONTENDERS, Contender, select
from .entrant import Entrant, check
from .machine import Machine, this_machine
from .protocol import LayerSamples, Timing, time_alone, time_in_layer
from .summary import CaseSummary, Overview, overview, summarise

__all__ = [
    "CONTENDERS",
    "Case",
    "CaseSummary",
    "Comparison",
    "Contender",
    "Entrant",
    "LayerSamples",
    "Machine",
    "Overview",
    "Timing",
    "check",
    "compare",
    "overview",
    "select",
    "summarise",
    "this_machine",
    "time_alone",
    "time_in_layer",
]
