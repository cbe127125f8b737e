"""Kernels of many problems and schedules, each run on every odd graph and compared with the float64 reference.

Every library runs on every odd graph, with the launches of `tvm_gnn.testing.cases.runs`. Where sums are exact in any
order inputs are small numbers, and the first run must equal the reference rounded to the dtype; what goes through an
exponential has normal inputs and must lie within the tolerance. All other runs must have the bits of the first. Outputs
lie between guard zones and inputs in read-only memory, both at two alignments.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from tvm_gnn.graph import Graph
from tvm_gnn.ops import EdgeSoftmax, MaxK, Operator, Problem, SortPool, SpMM
from tvm_gnn.ops.attention import Attention
from tvm_gnn.ops.dtypes import itemsize_of, numpy_dtype, rounded
from tvm_gnn.ops.operand import Operand, Structure
from tvm_gnn.ops.relational import Relational
from tvm_gnn.ops.tolerance import first_mismatch
from tvm_gnn.runtime.kernel import BoundLibrary, KernelFrame
from tvm_gnn.runtime.library import Library
from tvm_gnn.templates.registry import template_of
from tvm_gnn.testing.buffers import Guarded, at_offset
from tvm_gnn.testing.cases import Case, Run, runs
from tvm_gnn.testing.odd_graphs import ODD_GRAPHS, variant
from tvm_gnn.tuning.task import code_spec

SMALL = (-7, -5, -3, -1, 2, 4, 6)
# Quotients by powers of two are exact too.
POWERS_OF_TWO = (-4, -2, -1, 0.5, 1, 2)
# For reduces that select one value: ties among them too.
SPECIAL = (np.nan, np.inf, -np.inf, -0.0, 0.0, 1.0, -1.0)


def values_of(op: Operator, operand: Operand, rows: int, rng: np.random.Generator) -> NDArray[Any]:
    """Values for an input; what selects among them also meets NaN, infinities and ties."""
    shape = (rows, operand.width)
    if operand.is_index:
        return op.probe(operand, rows, rng)
    if isinstance(op, EdgeSoftmax | Attention):
        return 2 * rng.standard_normal(shape)
    if (isinstance(op, SpMM) and op.arg) or isinstance(op, SortPool):
        return rng.choice(SPECIAL, shape)
    if operand.rows == "edge":
        return rng.choice(POWERS_OF_TWO, shape)
    small = rng.choice(SMALL, shape)
    if isinstance(op, MaxK):
        few = rng.integers(0, 4, (rows, 1)) == 0
        return np.where(few, rng.choice(SPECIAL, shape), small)
    return small


def fits(op: Operator, graph_name: str) -> bool:
    """Whether an operator can run on a graph: relations must divide its sources."""
    return not isinstance(op, Relational) or ODD_GRAPHS[graph_name]().num_src % op.relations == 0


def sums_are_exact(op: Operator) -> bool:
    """Whether `values_of` makes every sum exact; a sum of quotients is not."""
    of_means = isinstance(op, Relational) and "mean" in (op.reduce, op.cross)
    return not (isinstance(op, EdgeSoftmax | Attention) or of_means)


class Data(NamedTuple):
    """Inputs on one graph at two alignments, the reference's outputs and, unless they are exact, the error to allow."""

    graph: Graph
    inputs: list[list[NDArray[Any]]]
    exact: list[NDArray[Any]]
    scales: list[NDArray[Any] | None]


class Matrix:
    """Builds and runs cases."""

    Case = Case

    def __init__(self, libraries: Any) -> None:
        self._libraries = libraries
        self._data: dict[tuple[str, Problem], Data] = {}

    def mistakes(self, cases: list[Case]) -> list[str]:
        """What is wrong, a line per library and graph."""
        built = self._libraries.load([code_spec(case.problem, case.choice) for case in cases])
        found = [
            f"{case}: {wrong}"
            for case, library in zip(cases, built, strict=True)
            for wrong in self._mistakes_of(library, case)
        ]
        self._data.clear()
        return found

    def check(self, cases: list[Case]) -> None:
        """Fail if anything is wrong."""
        mistakes = self.mistakes(cases)
        assert not mistakes, f"{len(mistakes)} wrong, first:\n" + "\n".join(mistakes[:5])

    def data(self, problem: Problem, graph_name: str) -> Data:
        """Seeded inputs of a problem on a graph, made once."""
        if (graph_name, problem) not in self._data:
            graph = variant(ODD_GRAPHS[graph_name](), problem.index_dtype, problem.edge_order)
            rng = np.random.default_rng(problem.width)
            inputs = []
            for operand in problem.inputs:
                values = values_of(problem.op, operand, graph.row_counts[operand.rows], rng)
                inputs.append(values.astype(numpy_dtype(problem.dtype_of(operand))))
            structure = Structure(graph.indptr, graph.indices, graph.edge_ids, graph.num_src)
            reference = problem.op.reference(problem.dims, structure, *inputs)
            exact, scales = list(reference), [None] * len(reference)
            if not sums_are_exact(problem.op):
                scales = list(problem.op.error_scale(problem.dims, structure, *inputs))
            else:
                exact = [
                    each.astype(problem.dtype_of(output)) if output.is_index else rounded(each, problem.dtype)
                    for output, each in zip(problem.outputs, reference, strict=True)
                ]
            aligned = [[at_offset(each, odd * each.itemsize) for each in inputs] for odd in (0, 1)]
            self._data[graph_name, problem] = Data(graph, aligned, exact, scales)
        return self._data[graph_name, problem]

    def _mistakes_of(self, library: Library, case: Case) -> list[str]:
        found = [
            self._mistake(library, case, graph_name, each)
            for graph_name, each in runs(case).items()
            if fits(case.problem.op, graph_name)
        ]
        return [wrong for wrong in found if wrong is not None]

    def _mistake(self, library: Library, case: Case, graph_name: str, each_run: list[Run]) -> str | None:
        """What is wrong with a library on a graph; None when every launch is right."""
        problem = case.problem
        known = self.data(problem, graph_name)
        outputs = [
            [
                Guarded(exact.shape, problem.dtype_of(operand), aligned * itemsize_of(problem.dtype_of(operand)))
                for operand, exact in zip(problem.outputs, known.exact, strict=True)
            ]
            for aligned in (0, 1)
        ]
        before = [array.tobytes() for pair in known.inputs for array in pair]
        first: list[NDArray[Any]] | None = None
        for i, (launch, threads) in enumerate(each_run):
            inputs, guarded = known.inputs[i % 2], outputs[i // 2 % 2]
            frame = KernelFrame(BoundLibrary(library, template_of(problem).ARGUMENTS, launch), known.graph, problem)
            for output in guarded:
                output.reset()
            frame.run([array.ctypes.data for array in (*inputs, *(output.array for output in guarded))], threads)
            where = f"{graph_name}, {launch}, {threads} thread(s)"
            if not all(output.intact() for output in guarded):
                return f"{where}: wrote outside its output"
            if first is None:
                first = [output.array.copy() for output in guarded]
                for operand, got, exact, scale in zip(problem.outputs, first, known.exact, known.scales, strict=True):
                    wrong = _difference(got, exact, scale, problem.dtype_of(operand))
                    if wrong is not None:
                        return f"{where}: {operand.name}: {wrong}"
            elif [each.tobytes() for each in first] != [output.array.tobytes() for output in guarded]:
                return f"{where}: other bits than {each_run[0]}"
        if before != [array.tobytes() for pair in known.inputs for array in pair]:
            return f"{graph_name}: wrote to an input"
        return None


def _difference(got: NDArray[Any], want: NDArray[Any], scale: NDArray[Any] | None, dtype: str) -> str | None:
    if scale is not None:
        return first_mismatch(got, want, scale, dtype)
    same = (got == want) | ((got != got) & (want != want))
    if same.all():
        return None
    row, column = map(int, np.argwhere(~same)[0])
    place = f"first at row {row}, column {column}"
    return f"{int((~same).sum())} elements differ, {place}: got {got[row, column]}, expected {want[row, column]}"


@pytest.fixture(scope="session")
def matrix(libraries: Any) -> Matrix:
    """Runs cases on every odd graph: ``matrix.check([matrix.Case(problem, target, choice), …])``."""
    return Matrix(libraries)
