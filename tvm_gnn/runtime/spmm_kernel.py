"""The callable that `tvm_gnn.load` returns for g-SpMM: a library bound to one graph."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import InputTypeError
from ..ops.dims import RowShape, feature_shape, width
from ..ops.spmm import SpMM
from . import pool
from .arrays import ArrayKind, kind_of, placed, placed_out
from .library import DLTensor, Frame, Library, tensor
from .outputs import OutputMemory, Placed, is_recycled

if TYPE_CHECKING:
    from ..graph import Graph


@dataclass(frozen=True)
class Provenance:
    """Where a kernel's schedule comes from.

    Attributes
    ----------
    source : str
        ``exact`` (tuned for this graph), ``bucket`` or ``nearest`` (tuned for a similar one), ``default`` (not tuned).
    decisions : dict
        The schedule.
    artifact : str or None
        Folder of the stored artifact; None when it could not be stored.
    measured : dict
        What tuning measured: ``best_ms``, ``default_ms``, ``speedup``; empty for the default.
    """

    source: str
    decisions: dict[str, Any] = field(default_factory=dict)
    artifact: str | None = None
    measured: dict[str, Any] = field(default_factory=dict)


class SpMMKernel:
    """y = kernel(x[, w]), or kernel(w): g-SpMM on the graph it was loaded for. Several threads may call it at once.

    Shapes
    ------
    x : (num_src, *feat) when the message reads sources
    w : (num_edges, *edge_feat) when it reads edge values; trailing ones may be left out or added
    y : (num_dst, *feat)

    numpy arrays and CPU torch tensors are taken without a copy when they are contiguous; the result is of x's kind.
    ``out=`` writes into the caller's buffer and returns it.
    """

    def __init__(
        self,
        graph: Graph,
        op: SpMM,
        feat: int | RowShape,
        dtype: str,
        edge_order: str,
        library: Library | None,
        launch: dict[str, int],
        threads: int,
        provenance: Provenance,
        reload: Callable[[], SpMMKernel] | None = None,
        edge_feat: RowShape | None = None,
    ) -> None:
        self.graph = graph
        self.op = op
        self.feat = feat
        self.dtype = dtype
        self.edge_order = edge_order
        self.threads = threads
        self.provenance = provenance
        self._reload = reload
        self._uses_src, self._uses_edge = op.uses_src, op.uses_edge
        self._library = library  # None: there is nothing to compute, every output element is an empty sum
        self._launch = launch
        row = feature_shape(feat)
        edge = op.default_edge_feat(row) if edge_feat is None else edge_feat
        self._width, self._edge_width = width(row), width(edge)
        self._x_shape = (graph.num_src, *row)
        self._w_shape = (graph.num_edges, *edge)
        self._w_forms = _with_or_without_ones(self._w_shape, len(row) + 1)
        self._y_shape = (graph.num_dst, *row)
        self._frames = _Frames()
        self._outputs = OutputMemory() if is_recycled(self._y_shape, dtype) else None

    @property
    def source(self) -> str:
        """``exact``, ``bucket``, ``nearest`` or ``default``: how close to this graph the schedule was tuned."""
        return self.provenance.source

    def __repr__(self) -> str:
        return (
            f"<{self.op.name} kernel, feat={self.feat}, {self.dtype}, source={self.source!r}, threads={self.threads}, "
            f"{self.provenance.decisions}>"
        )

    def __call__(self, x: Any = None, w: Any = None, *, out: Any = None) -> Any:
        """Compute y.

        Raises
        ------
        InputTypeError, InputError
            An argument has another kind, dtype, device or shape than the kernel was loaded for.
        """
        if not self._uses_src:
            x, w = self._only_edge_values(x, w)
        inputs: list[Placed] = []
        x_address = w_address = None
        if self._uses_src:
            kind = kind_of("x", x)
            inputs.append(placed("x", x, kind, self._x_shape, self.dtype))
            x_address = inputs[0][1]
        else:
            kind = kind_of("w", w)
        if self._uses_edge:
            if w is None:
                raise InputTypeError(f"w: {self.op.name} reads edge values, shape {self._w_shape} (got none).")
            inputs.append(placed("w", w, kind, self._w_shape, self.dtype, self._w_forms))
            w_address = inputs[-1][1]
        elif w is not None:
            raise InputTypeError(f"w: {self.op.name} reads no edge values (got {type(w).__name__}). Call kernel(x).")
        if out is None:
            y, y_address = self._fresh_output(kind)
        else:
            y, y_address = placed_out(out, kind, self._y_shape, self.dtype, inputs)
        if self._library is None:
            y[...] = 0
        else:
            # `inputs` also keeps a dense copy alive until the kernel is done.
            self._run(x_address, w_address, y_address)
        if out is not None:
            kind.written(out)
        return y

    def __copy__(self) -> SpMMKernel:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> SpMMKernel:
        # Nothing in a kernel can change, so a model that is deep-copied may share it.
        return self

    def __reduce__(self) -> tuple[Callable[[], SpMMKernel], tuple[()]]:
        """Pickled as the call of `load` that made it; the artifact is looked up again where it is unpickled."""
        if self._reload is None:
            raise TypeError("cannot pickle a kernel that `load` did not make")
        return self._reload, ()

    def _fresh_output(self, kind: ArrayKind) -> Placed:
        if self._outputs is None:
            return kind.empty(self._y_shape, self.dtype)
        array, address = self._outputs.empty(self._y_shape, self.dtype)
        return kind.wrap(array), address

    def _only_edge_values(self, x: Any, w: Any) -> tuple[None, Any]:
        if x is not None and w is not None:
            raise InputTypeError(f"x: {self.op.name} reads no features (got {type(x).__name__}). Call kernel(w).")
        return None, x if w is None else w

    def _run(self, x: int | None, w: int | None, y: int) -> None:
        free = self._frames.free
        # A signal handler or a finaliser may call this kernel while a call is being laid out: it gets its own frame.
        frame = free.pop() if free else self._new_frame()
        try:
            host = pool.host_threads()
            frame.run(x=x, w=w, y=y, threads=self.threads if host is None else min(self.threads, host))
        finally:
            free.append(frame)

    def _new_frame(self) -> SpMMFrame:
        assert self._library is not None
        return SpMMFrame(
            self._library,
            self.graph,
            self._width,
            self.dtype,
            self.edge_order,
            self.op,
            self._edge_width,
            self._launch,
        )


class SpMMFrame(Frame):
    """The argument block of one g-SpMM library on one graph, used by one thread (see `Frame`)."""

    def __init__(
        self,
        library: Library,
        graph: Graph,
        feat: int,
        dtype: str,
        edge_order: str,
        op: SpMM,
        edge_width: int,
        launch: dict[str, int],
    ) -> None:
        stand_in = np.zeros(1, dtype)
        no_ids = np.zeros(1, graph.index_dtype)
        edge_ids = graph.edge_ids if edge_order == "edge_ids" and graph.edge_ids is not None else no_ids
        parts = graph.row_partition(launch["parts"])
        self._arrays = (graph.indptr, graph.indices, edge_ids, stand_in, parts)
        self._w = tensor((graph.num_edges if op.uses_edge else 0, edge_width), dtype, stand_in.ctypes.data)
        self._x = tensor((graph.num_src if op.uses_src else 0, feat), dtype, stand_in.ctypes.data)
        self._y = tensor((graph.num_dst, feat), dtype)
        self._tasks = launch["tasks"]
        arguments: list[DLTensor | int] = [
            _over(graph.indptr),
            _over(graph.indices),
            _over(edge_ids),
            self._w,
            self._x,
            self._y,
            _over(parts),
            launch["prefetch_distance"],
        ]
        super().__init__(library, arguments)

    def run(self, x: int | None, w: int | None, y: int, threads: int) -> None:
        """Compute into `y`; arguments are addresses of dense, element-aligned memory of the right size."""
        if x is not None:
            self._x.data = x
        if w is not None:
            self._w.data = w
        self._y.data = y
        self(self._tasks, threads)


class _Frames(threading.local):
    """Frames that are not in use, of each Python thread its own."""

    def __init__(self) -> None:
        self.free: list[SpMMFrame] = []


def _with_or_without_ones(shape: tuple[int, ...], most_dims: int) -> frozenset[tuple[int, ...]]:
    """Other shapes of the same elements: trailing ones left out or added."""
    least = shape
    while len(least) > 1 and least[-1] == 1:
        least = least[:-1]
    return frozenset(least + (1,) * ones for ones in range(most_dims + 1 - len(least))) - {shape}


def _over(array: Any) -> DLTensor:
    return tensor(array.shape, array.dtype.name, array.ctypes.data)
