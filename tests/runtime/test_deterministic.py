"""`load(deterministic=True)`: the same bits whatever has been tuned, in every process and for any number of threads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import tvm_gnn as tg
from tvm_gnn.cache import KERNEL_FILE
from tvm_gnn.compile import make_task
from tvm_gnn.errors import InputTypeError
from tvm_gnn.untuned import artifact_store

OPS = ("u_mul_e_sum", "copy_u_mean", "u_dot_v", "edge_softmax", "gat")

BITS = """
import hashlib, sys
import numpy as np
import tvm_gnn as tg
graph = tg.datasets.load("synthetic:rmat:scale=11,seed=3")
for op in sys.argv[1:]:
    kernel = tg.load(graph, op, (4, 8), deterministic=True)
    rng = np.random.default_rng(0)
    inputs = [rng.standard_normal(slot.shape, np.float32) for slot in kernel._inputs]
    first = kernel(*inputs).tobytes()
    assert all(kernel(*inputs).tobytes() == first for _ in range(20))
    print(op, kernel.threads, hashlib.sha256(first).hexdigest())
"""


def test_bits_are_those_of_every_process_and_number_of_threads(run_python: Any) -> None:
    printed = [run_python(BITS, *OPS, env={"TVM_GNN_NUM_THREADS": str(threads)}).split() for threads in (1, 2)]
    assert printed[0][1] == "1"
    assert printed[0][0::3] == printed[1][0::3] == list(OPS)
    assert printed[0][2::3] == printed[1][2::3]


@pytest.mark.usefixtures("quick_builds")
def test_what_has_been_tuned_is_not_served(tmp_path: Path) -> None:
    graph = tg.datasets.load("karate")
    default = tg.load(graph, "copy_u_sum", 8)
    assert default.provenance.artifact is not None
    task = make_task(graph, "copy_u_sum", 8)
    files = {KERNEL_FILE: Path(default.provenance.artifact) / KERNEL_FILE}
    artifact_store().publish(
        task.key, graph.signature.exact, files, graph=task.graph_fields, decisions=default.provenance.decisions
    )
    assert tg.load(graph, "copy_u_sum", 8).source == "exact"
    assert tg.load(graph, "copy_u_sum", 8, deterministic=True).source == "default"
    with pytest.raises(InputTypeError, match=r"deterministic: must be True, False or None .got 'yes'"):
        tg.load(graph, "copy_u_sum", 8, deterministic="yes")  # type: ignore[arg-type]

    torch = pytest.importorskip("torch")
    torch.use_deterministic_algorithms(True)
    try:
        assert tg.load(graph, "copy_u_sum", 8).source == "default"
        assert tg.load(graph, "copy_u_sum", 8, deterministic=False).source == "exact"
    finally:
        torch.use_deterministic_algorithms(False)
