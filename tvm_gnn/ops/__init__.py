"""What is computed: operators, their shape rules, their cost and their float64 reference."""

from .registry import OPS, Op, parse_op
from .spmm import SpMM, spmm

__all__ = ["OPS", "Op", "SpMM", "parse_op", "spmm"]
