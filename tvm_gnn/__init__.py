"""tvm_gnn: sparse kernels of graph neural networks, tuned per graph and per device with Apache TVM."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .version import VERSION

if TYPE_CHECKING:
    from .compile import load, tune
    from .errors import TvmGnnError
    from .graph import Graph, datasets
    from .ops import edge_softmax, gat, gather, gatv2, maxk, relational, sddmm, segment_reduce, sort_pool, spmm

__version__ = VERSION
__all__ = [
    "Graph",
    "TvmGnnError",
    "__version__",
    "datasets",
    "edge_softmax",
    "gat",
    "gather",
    "gatv2",
    "load",
    "maxk",
    "relational",
    "sddmm",
    "segment_reduce",
    "sort_pool",
    "spmm",
    "tune",
]

_HOMES = {
    "Graph": "graph",
    "TvmGnnError": "errors",
    "datasets": "graph",
    "edge_softmax": "ops",
    "gat": "ops",
    "gather": "ops",
    "gatv2": "ops",
    "load": "compile",
    "maxk": "ops",
    "relational": "ops",
    "sddmm": "ops",
    "segment_reduce": "ops",
    "sort_pool": "ops",
    "spmm": "ops",
    "tune": "compile",
}


def __getattr__(name: str) -> Any:
    # Late, so that the command line is there to answer Ctrl-C before anything that takes time is imported.
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    value = globals()[name] = getattr(importlib.import_module(f".{_HOMES[name]}", __name__), name)
    return value


def __dir__() -> list[str]:
    return __all__
