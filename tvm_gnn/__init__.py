"""tvm_gnn: sparse kernels of graph neural networks, tuned per graph and per device with Apache TVM."""

from __future__ import annotations

from .compile import load, tune
from .errors import TvmGnnError
from .graph import Graph, datasets
from .ops import spmm
from .version import VERSION

__version__ = VERSION
__all__ = ["Graph", "TvmGnnError", "__version__", "datasets", "load", "spmm", "tune"]
