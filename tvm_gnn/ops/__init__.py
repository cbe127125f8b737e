"""What is computed: operators, their shape rules, their cost and their float64 reference."""

from .attention import GAT, GATv2, gat, gatv2
from .maxk import MaxK, MaxKBackward, maxk
from .operator import Operator
from .problem import Problem
from .registry import OPS, parse_op
from .relational import Relational, relational
from .sddmm import SDDMM, sddmm
from .segments import gather, segment_reduce
from .softmax import EdgeSoftmax, edge_softmax
from .sort_pool import SortPool, sort_pool
from .spmm import SpMM, spmm

__all__ = [
    "GAT",
    "OPS",
    "SDDMM",
    "EdgeSoftmax",
    "GATv2",
    "MaxK",
    "MaxKBackward",
    "Operator",
    "Problem",
    "Relational",
    "SortPool",
    "SpMM",
    "edge_softmax",
    "gat",
    "gather",
    "gatv2",
    "maxk",
    "parse_op",
    "relational",
    "sddmm",
    "segment_reduce",
    "sort_pool",
    "spmm",
]
