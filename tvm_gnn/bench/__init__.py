"""Comparison with other kernels: contenders, timing in turn, correctness before speed, ratios with intervals."""

from .bandwidth import Bandwidth, measured_bandwidth
from .case import Case
from .compare import Comparison, compare
from .contenders import CONTENDERS, MATRIX_OPS, Contender, select
from .entrant import Array, Entrant, check, taken_as
from .machine import Machine, this_machine
from .protocol import LayerSamples, Timing, time_alone, time_in_layer
from .roofline import Roofline, roofline
from .summary import CaseSummary, Overview, overview, summarise

__all__ = [
    "CONTENDERS",
    "MATRIX_OPS",
    "Array",
    "Bandwidth",
    "Case",
    "CaseSummary",
    "Comparison",
    "Contender",
    "Entrant",
    "LayerSamples",
    "Machine",
    "Overview",
    "Roofline",
    "Timing",
    "check",
    "compare",
    "measured_bandwidth",
    "overview",
    "roofline",
    "select",
    "summarise",
    "taken_as",
    "this_machine",
    "time_alone",
    "time_in_layer",
]
