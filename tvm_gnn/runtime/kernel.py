"""The callable that `tvm_gnn.load` returns: a library bound to one graph."""

from __future__ import annotations

import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..errors import InputError, InputTypeError
from ..ops import Problem
from ..ops.dtypes import storage_dtype
from ..ops.operand import Operand
from . import pool
from .arrays import ArrayKind, SeenByTorch, is_compiling, kind_of, placed, placed_out
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
        ``exact`` (tuned for this graph), ``bucket`` or ``nearest`` (tuned for a similar one), ``predicted`` (by the
        model that comes with the package) or ``default`` (neither).
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


@dataclass(frozen=True)
class BoundLibrary:
    """A library and how it is called for one schedule.

    Attributes
    ----------
    library : Library
    arguments : tuple of str
        Names of its arguments, in order (`templates.Template.ARGUMENTS`).
    launch : dict
        Launch parameters of the schedule: ``parts``, ``tasks`` and the scalars among the arguments.
    """

    library: Library
    arguments: tuple[str, ...]
    launch: Mapping[str, int]


class _Slot(NamedTuple):
    """An operand of calls on one graph: the array's shape and dtype, and other shapes that mean the same."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    forms: frozenset[tuple[int, ...]]


class Kernel:
    """The outputs of an operator on the graph it was loaded for. Several threads may call it at once.

    Arguments and their shapes are those that the operator documents (`tvm_gnn.ops`); each may be given by position or
    by name. numpy arrays and CPU torch tensors are taken without a copy when they are contiguous; results are of the
    first argument's kind. ``out=`` writes into the caller's buffer (a tuple of them for several outputs) and returns
    it. Edge values have shape (num_edges, …); trailing ones may be left out or added.
    """

    def __init__(
        self,
        graph: Graph,
        problem: Problem,
        bound: BoundLibrary | None,
        threads: int,
        provenance: Provenance,
        load: partial[Kernel] | None = None,
        fill: float = 0.0,
    ) -> None:
        self.graph = graph
        self.problem = problem
        self.threads = threads
        self.provenance = provenance
        self._load = load
        self._bound = bound  # None: there is nothing to compute, every output element is an empty sum
        self._inputs = tuple(_slot(each, problem, graph) for each in problem.inputs)
        self._outputs = tuple(_slot(each, problem, graph) for each in problem.outputs)
        # Rows without an edge that are to hold something else than the 0 which the library writes.
        self._fill = fill
        self._filled = None if fill == 0 else np.flatnonzero(graph.in_degrees == 0)
        names = [slot.name for slot in self._inputs]
        self._likes = tuple(names.index(each.like) if each.like else None for each in problem.outputs)
        self._frames = _Frames()
        self._memory = [OutputMemory() if is_recycled(slot.shape, slot.dtype) else None for slot in self._outputs]
        self.description = problem.text
        # Other kernels and arrays that its gradient needs; see `autograd.companions`.
        self.companions: dict[Any, Any] = {}
        # What stands for it in programs of torch; made as soon as torch is there, for a trace must find it.
        self._token: Any = self._new_token() if "torch" in sys.modules else None

    @property
    def source(self) -> str:
        """``exact``, ``bucket``, ``nearest`` or ``default``: how close to this graph the schedule was tuned."""
        return self.provenance.source

    def __repr__(self) -> str:
        feat = self.problem.dims.feat
        return (
            f"<{self.problem.op.name} kernel, feat={feat[0] if len(feat) == 1 else feat}, {self.problem.dtype}, "
            f"source={self.source!r}, threads={self.threads}, {self.provenance.decisions}>"
        )

    def __call__(self, *arguments: Any, out: Any = None, **named: Any) -> Any:
        """Compute the outputs.

        Raises
        ------
        InputTypeError, InputError
            An argument is missing or one too many, or has another kind, dtype, device or shape than the kernel was
            loaded for; or ``out`` is given where torch records the call.
        """
        if named or len(arguments) != len(self._inputs) or arguments[-1] is None:
            arguments = self._in_order(arguments, named)
        if is_compiling(arguments[0]):
            results = self._through_torch(arguments, out)
        else:
            try:
                results = self._compute(arguments, out)
            except SeenByTorch:
                results = self._through_torch(arguments, out)
        return results[0] if len(results) == 1 else results

    def run_on(self, arguments: Sequence[Any]) -> tuple[Any, ...]:
        """The outputs of a call that nothing records."""
        return self._compute(tuple(arguments), None)

    def load_other(self, graph: Graph, op: str, feat: Any, edge_feat: Any = None) -> Kernel:
        """Another kernel, with this one's dtype and threads; rows of edges in the caller's order of `graph`."""
        if self._load is None:
            raise InputError("kernel: must be made by load() for its gradient to be computed (got one that was not).")
        # The partial call of `load` that made this kernel; what is given here takes the place of its arguments.
        same = {name: self._load.keywords[name] for name in ("dtype", "threads", "deterministic")}
        return self._load.func(graph, op, feat, edge_feat=edge_feat, **same)

    def _compute(self, arguments: tuple[Any, ...], out: Any) -> tuple[Any, ...]:
        kind = kind_of(self._inputs[0].name, arguments[0])
        inputs = [
            placed(slot.name, array, kind, slot.shape, slot.dtype, slot.forms)
            for slot, array in zip(self._inputs, arguments, strict=True)
        ]
        if out is None:
            outputs = [self._fresh(kind, index) for index in range(len(self._outputs))]
        else:
            outputs = self._given(out, kind, inputs)
        if self._bound is None:
            for (array, _), operand in zip(outputs, self.problem.outputs, strict=True):
                array[...] = operand.of_nothing
        else:
            # `inputs` also keeps a dense copy alive until the kernel is done.
            self._run([address for _, address in (*inputs, *outputs)])
        if self._filled is not None and self.problem.op.reduced is not None:
            outputs[self.problem.op.reduced][0][self._filled] = self._fill
        if out is not None:
            for array, _ in outputs:
                kind.written(array)
            return tuple(array for array, _ in outputs)
        return self._in_form([array for array, _ in outputs], arguments)

    def _through_torch(self, arguments: tuple[Any, ...], out: Any) -> tuple[Any, ...]:
        """The same by a custom operator, which autograd and tracers see."""
        if out is not None:
            raise InputTypeError("out: must not be given where torch records or traces the call (got a buffer).")
        if self._token is None:
            if is_compiling(arguments[0]):
                raise InputTypeError("kernel: must be loaded after torch is imported to be compiled (got one before).")
            self._token = self._new_token()
        from .autograd import custom_ops

        token = self._token
        if not is_compiling(arguments[0]):
            custom_ops.check_tensors([slot.name for slot in self._inputs], arguments)
            token = custom_ops.kept_alive(self, token)
        return self._in_form(custom_ops.call(self.description, token, arguments), arguments)

    def _in_form(self, outputs: list[Any], arguments: tuple[Any, ...]) -> tuple[Any, ...]:
        """The outputs, those that are like an input in the form in which it was given."""
        return tuple(
            array if like is None else array.reshape(arguments[like].shape)
            for array, like in zip(outputs, self._likes, strict=True)
        )

    def _new_token(self) -> Any:
        from .autograd import custom_ops

        return custom_ops.token_of(self)

    def __copy__(self) -> Kernel:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Kernel:
        # Nothing in a kernel can change, so a model that is deep-copied may share it.
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled as the call of `load` that made it; the artifact is looked up again where it is unpickled."""
        if self._load is None:
            raise TypeError("cannot pickle a kernel that `load` did not make")
        return self._load, ()

    def _in_order(self, given: tuple[Any, ...], named: dict[str, Any]) -> tuple[Any, ...]:
        """The arguments by position; None counts as not given."""
        op, names = self.problem.op.name, [slot.name for slot in self._inputs]
        call = f"kernel({', '.join(names)})"
        while len(given) > len(names) and given[-1] is None:
            given = given[:-1]
        if len(given) > len(names):
            last = type(given[-1]).__name__
            raise InputTypeError(f"arguments: {op} takes {call} (got {len(given)}, the last of type {last}).")
        found = dict(zip(names, given, strict=False))
        for name, array in named.items():
            if array is None:
                continue
            if name not in names:
                raise InputTypeError(f"{name}: {op} takes {call} (got {name} of type {type(array).__name__}).")
            if found.get(name) is not None:
                raise InputTypeError(f"{name}: must be given once (got it by position and by name).")
            found[name] = array
        for slot in self._inputs:
            if found.get(slot.name) is None:
                raise InputTypeError(f"{slot.name}: {op} takes {call}, {slot.name} of shape {slot.shape} (got none).")
        return tuple(found[name] for name in names)

    def _fresh(self, kind: ArrayKind, index: int) -> Placed:
        memory, slot = self._memory[index], self._outputs[index]
        if memory is None:
            return kind.empty(slot.shape, slot.dtype)
        array, address = memory.empty(slot.shape, storage_dtype(slot.dtype))
        return kind.wrap(array, slot.dtype), address

    def _given(self, out: Any, kind: ArrayKind, inputs: list[Placed]) -> list[Placed]:
        buffers = (out,) if len(self._outputs) == 1 else out
        if not isinstance(buffers, tuple) or len(buffers) != len(self._outputs):
            names = ", ".join(slot.name for slot in self._outputs)
            found = f"{len(out)} of them" if isinstance(out, tuple) else type(out).__name__
            raise InputTypeError(f"out: must be a tuple of {len(self._outputs)} buffers, ({names}) (got {found}).")
        taken = list(inputs)
        for buffer, slot in zip(buffers, self._outputs, strict=True):
            taken.append(placed_out(buffer, kind, slot.shape, slot.dtype, taken, slot.forms))
        return taken[len(inputs) :]

    def _run(self, addresses: list[int]) -> None:
        free = self._frames.free
        # A signal handler or a finaliser may call this kernel while a call is being laid out: it gets its own frame.
        frame = free.pop() if free else self._new_frame()
        try:
            host = pool.host_threads()
            frame.run(addresses, self.threads if host is None else min(self.threads, host))
        finally:
            free.append(frame)

    def _new_frame(self) -> KernelFrame:
        assert self._bound is not None
        return KernelFrame(self._bound, self.graph, self.problem)


class KernelFrame(Frame):
    """The argument block of one library on one graph, used by one thread (see `Frame`)."""

    def __init__(self, bound: BoundLibrary, graph: Graph, problem: Problem) -> None:
        no_ids = np.zeros(1, graph.index_dtype)
        ids = graph.edge_ids if problem.edge_order == "edge_ids" and graph.edge_ids is not None else no_ids
        structure = {
            "indptr": graph.indptr,
            "slice_indptr": no_ids,
            "indices": graph.indices,
            "edge_ids": ids,
            "parts": graph.row_partition(bound.launch["parts"]),
        }
        if bound.launch["slices"] > 1:
            sliced = graph.sliced(bound.launch["slices"])
            ids = sliced.edge_ids if problem.edge_order == "edge_ids" else sliced.positions
            structure |= {"slice_indptr": sliced.indptr, "indices": sliced.indices, "edge_ids": ids}
        if "sums" in bound.arguments and problem.dtype != problem.arithmetic_dtype:
            # Of every part a row, where the output's own dtype would round the sum at every addition.
            shape = (bound.launch["parts"], problem.outputs[0].width)
            structure["sums"] = np.empty(shape, problem.arithmetic_dtype)
        stand_in = np.zeros(1)
        self._arrays = (structure, stand_in)
        operands = {
            each.name: tensor((graph.row_counts[each.rows], each.width), problem.dtype_of(each), stand_in.ctypes.data)
            for each in (*problem.inputs, *problem.outputs)
        }
        arguments: list[DLTensor | int] = []
        for name in bound.arguments:
            if name in structure:
                arguments.append(_over(structure[name]))
            elif name in bound.launch:
                arguments.append(bound.launch[name])
            else:
                # What the operator does not use has no rows.
                arguments.append(operands.get(name) or tensor((0, 1), problem.dtype, stand_in.ctypes.data))
        self._operands = tuple(operands.values())
        self._tasks = bound.launch["tasks"]
        super().__init__(bound.library, arguments)

    def run(self, addresses: list[int], threads: int) -> None:
        """Compute; `addresses` are those of dense, element-aligned memory, of the inputs and then of the outputs."""
        for operand, address in zip(self._operands, addresses, strict=True):
            operand.data = address
        self(self._tasks, threads)


class _Frames(threading.local):
    """Frames that are not in use, of each Python thread its own."""

    def __init__(self) -> None:
        self.free: list[KernelFrame] = []


def _slot(operand: Operand, problem: Problem, graph: Graph) -> _Slot:
    shape = (*((graph.row_counts[operand.rows],) if operand.rows != "once" else ()), *operand.shape)
    forms = _with_or_without_ones(shape, len(problem.dims.feat) + 1) if operand.has_forms else frozenset()
    return _Slot(operand.name, shape, problem.dtype_of(operand), forms)


def _with_or_without_ones(shape: tuple[int, ...], most_dims: int) -> frozenset[tuple[int, ...]]:
    """Other shapes of the same elements: trailing ones left out or added."""
    least = shape
    while len(least) > 1 and least[-1] == 1:
        least = least[:-1]
    return frozenset(least + (1,) * ones for ones in range(most_dims + 1 - len(least))) - {shape}


def _over(array: Any) -> DLTensor:
    return tensor(array.shape, array.dtype.name, array.ctypes.data)
