"""The correctness gate of the half types: one missing edge of a hub shows although results have few digits."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tvm_gnn.graph import Graph
from tvm_gnn.ops import parse_op
from tvm_gnn.ops.dtypes import numpy_dtype, rounded
from tvm_gnn.ops.operand import Structure
from tvm_gnn.ops.tolerance import first_mismatch
from tvm_gnn.testing.schedules import TARGETS
from tvm_gnn.tuning.task import Task
from tvm_gnn.tuning.workload import Workload, write


@pytest.mark.parametrize(("dtype", "leaves"), [("float16", 20_000), ("bfloat16", 1_000)])
@pytest.mark.parametrize("op", ["copy_u_sum", "u_mul_e_sum"])
def test_a_missing_edge_of_a_hub_shows(tmp_path: Path, op: str, dtype: str, leaves: int) -> None:
    graph = Graph.from_coo(np.arange(leaves), np.zeros(leaves, int), num_src=leaves, num_dst=1)
    task = Task(graph, parse_op(op), 8, dtype, "csr", TARGETS["avx512"])
    write(task, tmp_path)
    workload = Workload(tmp_path)
    inputs = workload.inputs("csr")
    (expected,) = workload.expected("csr")
    assert {each.dtype for each in inputs} == {numpy_dtype(dtype)}
    assert expected.rounded.dtype == numpy_dtype(dtype)
    assert np.isfinite(expected.rounded.astype(float)).all()
    assert first_mismatch(expected.rounded, expected.reference, expected.scale, dtype) is None
    for lost in range(0, leaves, leaves // 7):
        kept = np.delete(np.arange(leaves), lost)
        structure = Structure(np.array([0, leaves - 1]), graph.indices[kept], None, leaves)
        edges = [each[kept] if name == "w" else each for name, each in zip(names(task), inputs, strict=True)]
        (wrong,) = task.op.reference(task.problem.dims, structure, *edges)
        assert first_mismatch(rounded(wrong, dtype), expected.reference, expected.scale, dtype) is not None


def names(task: Task) -> list[str]:
    return [each.name for each in task.problem.inputs]
