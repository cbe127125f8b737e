"""Kernels touch no byte outside their arguments: every argument lies against a page that must not be accessed."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tvm_gnn.ops.spmm import SPMM_OPS
from tvm_gnn.templates.launch import launch_parameters
from tvm_gnn.testing.operands import problem
from tvm_gnn.tuning.task import code_spec

# Runs in a process of its own, which a stray access kills; the last line printed says in which case.
RUN = """
import json, sys
from pathlib import Path
import numpy as np
from tvm_gnn.graph import Graph
from tvm_gnn.ops import Problem
from tvm_gnn.ops.reference import spmm_reference
from tvm_gnn.runtime.kernel import BoundLibrary, KernelFrame
from tvm_gnn.runtime.library import Library
from tvm_gnn.templates.spmm_csr import ARGUMENTS
from tvm_gnn.testing.buffers import GuardPage
from tvm_gnn.testing.odd_graphs import ODD_GRAPHS, variant

class Guarded(Graph):
    def row_partition(self, parts):
        bounds = GuardPage(super().row_partition(parts).copy(), side)
        keep.append(bounds)
        return bounds.array

for case in json.loads(sys.argv[1]):
    library = Library(Path(case["library"]))
    problem = Problem.from_dict(case)
    for name in ("one_edge", "star_in", "trailing_empty_rows", "wide", "unsorted_edge_list", "long_row"):
        for side in ("before", "after"):
            print(case, name, side, flush=True)
            graph = variant(ODD_GRAPHS[name](), problem.index_dtype, problem.edge_order)
            rng = np.random.default_rng(0)
            x = rng.integers(-4, 5, (graph.num_src, problem.width)).astype(np.float32)
            w = np.exp2(rng.integers(0, 3, (graph.num_edges, problem.edge_width))).astype(np.float32)
            known = (graph.indptr, graph.indices, graph.edge_ids)
            want = spmm_reference(problem.op, *known, x, w).astype(np.float32)
            y = np.full(want.shape, np.nan, np.float32)
            given = {"indptr": graph.indptr, "indices": graph.indices, "edge_ids": graph.edge_ids}
            given |= {"x": x, "w": w, "y": y}
            keep = [GuardPage(array, side) for array in given.values() if array is not None]
            at = dict(zip([n for n, array in given.items() if array is not None], keep))
            ids = at["edge_ids"].array if "edge_ids" in at else None
            guarded = Guarded(at["indptr"].array, at["indices"].array, num_src=graph.num_src, edge_ids=ids)
            operands = [at[each.name].array for each in (*problem.inputs, *problem.outputs)]
            for launch in case["launches"]:
                frame = KernelFrame(BoundLibrary(library, ARGUMENTS, launch), guarded, problem)
                at["y"].array.fill(np.nan)
                frame.run([array.ctypes.data for array in operands], threads=2)
                assert (at["y"].array == want).all()
print("done")
"""


@pytest.mark.parametrize("feat", [1, 7, 33])
def test_no_access_outside_the_arguments(libraries: Any, sampled_schedules: Any, run_python: Any, feat: int) -> None:
    cases = []
    for i, choice in enumerate(sampled_schedules(feat, 8)):
        # Half of them prefetch, which reads `indices` ahead of the row.
        choice = {**choice, "prefetch": 16 * (i % 2)}
        op = list(SPMM_OPS)[i % len(SPMM_OPS)]
        edge_order = "edge_ids" if SPMM_OPS[op].uses_edge and i < 4 else "csr"
        what = problem(op, feat, index_dtype=("int32", "int64")[i // 4 % 2], edge_order=edge_order)
        spec = code_spec(what, choice)
        launches = [
            launch_parameters({**choice, **changes}, threads=2)
            for changes in ({"parts": 1, "dynamic": False}, {"parts": 64, "dynamic": True})
        ]
        cases.append({**spec, "library": str(libraries.paths([spec])[0]), "launches": launches})
    assert run_python(RUN, json.dumps(cases)).endswith("done\n")


def test_a_stray_access_would_be_seen(run_python: Any) -> None:
    code = (
        "import ctypes, sys, numpy as np\n"
        "from tvm_gnn.testing.buffers import GuardPage\n"
        "array = GuardPage(np.arange(5, dtype=np.int32), sys.argv[1]).array\n"
        "assert array.tolist() == [0, 1, 2, 3, 4]\n"
        "ctypes.c_int32.from_address(array.ctypes.data + int(sys.argv[2])).value\n"
    )
    run_python(code, "before", 0)
    run_python(code, "after", 16)
    for side, offset_bytes in (("before", -4), ("after", 20)):
        with pytest.raises(AssertionError, match="exit code -11"):
            run_python(code, side, offset_bytes)
