"""Graphs: construction and validation, statistics, signatures, datasets."""

from . import datasets
from .batch import Batch
from .graph import Graph
from .signature import Signature
from .stats import GraphStats

__all__ = ["Batch", "Graph", "GraphStats", "Signature", "datasets"]
