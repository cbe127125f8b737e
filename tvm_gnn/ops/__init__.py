"""What is computed: operators, their shape rules, their cost and their float64 reference."""

from .attention import GAT, GATv2, gat, gatv2
from .operator import Operator
from .problem import Problem
from .registry import OPS, parse_op
from .relational import Relational, relational
from .sddmm import SDDMM, sddmm
from .softmax import EdgeSoftmax, edge_softmax
from .spmm import SpMM, spmm

__all__ = [
    "GAT",
    "OPS",
    "SDDMM",
    "EdgeSoftmax",
    "GATv2",
    "Operator",
    "Problem",
    "Relational",
    "SpMM",
    "edge_softmax",
    "gat",
    "gatv2",
    "parse_op",
    "relational",
    "sddmm",
    "spmm",
]
