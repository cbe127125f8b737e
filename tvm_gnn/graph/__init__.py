"""Graphs: construction and validation, statistics, signatures, datasets."""

from . import datasets
from .graph import Graph
from .signature import Signature
from .stats import GraphStats

__all__ = ["Graph", "GraphStats", "Signature", "datasets"]
