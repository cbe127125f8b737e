"""`tvm_gnn.load`: which kernel serves, what it costs a process, and what it does when the cache is damaged."""

from __future__ import annotations

import copy
import json
import pickle
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tvm_gnn
from tvm_gnn.cache import KERNEL_FILE
from tvm_gnn.compile import make_task
from tvm_gnn.errors import InputError, InputTypeError, TvmGnnError
from tvm_gnn.graph import Graph
from tvm_gnn.ops.reference import spmm_reference
from tvm_gnn.ops.spmm import SPMM_OPS
from tvm_gnn.testing.odd_graphs import ODD_GRAPHS
from tvm_gnn.testing.operands import edge_values_shape, used
from tvm_gnn.untuned import artifact_store, code_key

FEAT = 9
HEAVY = {"tvm", "tvm_ffi", "torch", "xgboost"}

LOAD = """
import json, sys, warnings
import numpy as np
import tvm_gnn
graph = tvm_gnn.datasets.load("karate")
if "never build" in sys.argv:
    from tvm_gnn.tuning import builder
    def refuse(*_):
        raise AssertionError("built although it is in the cache")
    builder.Builder.__init__ = builder.build_once = refuse
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    kernel = tvm_gnn.load(graph, "copy_u_sum", 5)
    x = np.arange(34 * 5, dtype=np.float32).reshape(34, 5)
    y = kernel(x)
dense = np.zeros((34, 34))
np.add.at(dense, (np.repeat(np.arange(34), graph.in_degrees), graph.indices), 1)
print(json.dumps({
    "right": bool((y == dense @ x).all()),
    "source": kernel.source,
    "artifact": kernel.provenance.artifact,
    "heavy": sorted({"tvm", "tvm_ffi", "torch", "xgboost"} & set(sys.modules)),
    "warnings": [f"{w.category.__name__}: {w.message}" for w in caught],
}))
"""


def integers(graph: Graph) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    return (
        rng.integers(-5, 6, (graph.num_src, FEAT)).astype(np.float32),
        rng.integers(1, 4, graph.num_edges).astype(np.float32),
    )


def is_right(kernel: Any) -> bool:
    graph = kernel.graph
    op = kernel.problem.op
    x, w = integers(graph)
    want = spmm_reference(op, graph.indptr, graph.indices, graph.edge_ids, x, w)
    got = kernel(*used(op, x, w))
    return bool((got == want.astype(np.float32)).all())


def publish(libraries: Any, graph: Graph, op: str) -> Any:
    """A tuned artifact for this graph, as a search leaves it."""
    task = make_task(graph, op, FEAT)
    choice = {**task.space.default, "unroll": 2, "parts": 1, "dynamic": False}
    (path,) = libraries.paths([task.code_spec(choice)])
    return artifact_store().publish(
        task.key,
        graph.signature.exact,
        {KERNEL_FILE: path},
        graph=task.graph_fields,
        decisions=choice,
        measured={"best_ms": 1.0, "default_ms": 2.0, "speedup": 2.0},
    )


def test_the_first_process_builds_the_second_only_loads(run_python: Any) -> None:
    first = json.loads(run_python(LOAD))
    second = json.loads(run_python(LOAD, "never build"))
    for answer in (first, second):
        assert answer["right"]
        assert answer["source"] == "default"
        assert answer["heavy"] == []
        assert answer["warnings"] == []
    assert first["artifact"] == second["artifact"]
    assert Path(first["artifact"]).is_dir()


@pytest.mark.usefixtures("quick_builds")
def test_exact_then_bucket_then_nearest_then_default(libraries: Any) -> None:
    own = ODD_GRAPHS["unsorted_edge_list"]()
    assert own.edge_ids is not None
    rng = np.random.default_rng(80)
    src, dst = rng.integers(0, 60, (2, 400))
    alike = Graph.from_coo(src, dst, num_src=60, num_dst=60)
    assert alike.signature.exact != own.signature.exact
    assert alike.signature.bucket == own.signature.bucket
    src, dst = rng.integers(0, 110, (2, 750))
    near = Graph.from_coo(src, dst, num_src=110, num_dst=110)
    assert near.signature.bucket != own.signature.bucket
    found = [tvm_gnn.load(own, "u_mul_e_sum", FEAT)]
    artifacts = []
    for neighbour in (near, alike, own):
        artifacts.append(publish(libraries, neighbour, "u_mul_e_sum"))
        found.append(tvm_gnn.load(own, "u_mul_e_sum", FEAT))
    assert [kernel.source for kernel in found] == ["default", "nearest", "bucket", "exact"]
    assert [kernel.provenance.artifact for kernel in found[1:]] == [str(artifact.path) for artifact in artifacts]
    assert found[3].provenance.measured["speedup"] == 2.0
    assert found[3].provenance.decisions["unroll"] == 2
    assert found[0].provenance.measured == {}
    assert all(is_right(kernel) for kernel in found)


@pytest.mark.usefixtures("quick_builds")
@pytest.mark.parametrize("decisions", [{}, {"parts": 0}, {"unroll": 3}])
def test_a_schedule_that_is_not_of_the_space_is_not_served(libraries: Any, decisions: dict[str, int]) -> None:
    graph = ODD_GRAPHS["self_loops"]()
    task = make_task(graph, "copy_u_sum", FEAT)
    (path,) = libraries.paths([task.code_spec(task.space.default)])
    artifact_store().publish(
        task.key,
        graph.signature.exact,
        {KERNEL_FILE: path},
        graph=task.graph_fields,
        decisions={**task.space.default, **decisions} if decisions else {},
    )
    with pytest.warns(RuntimeWarning, match=r"is not served: "):
        kernel = tvm_gnn.load(graph, "copy_u_sum", FEAT)
    assert kernel.source == "default"
    assert is_right(kernel)


@pytest.mark.usefixtures("quick_builds")
def test_kernels_are_copied_and_pickled(libraries: Any) -> None:
    graph = ODD_GRAPHS["unsorted_edge_list"]()
    publish(libraries, graph, "u_mul_e_sum")
    kernel = tvm_gnn.load(graph, "u_mul_e_sum", FEAT)
    assert copy.copy(kernel) is kernel
    assert copy.deepcopy([kernel]) == [kernel]
    # A model that holds kernels is pickled by torch.save and by workers of its user's; the package reads no pickle.
    again = pickle.loads(pickle.dumps(kernel))
    assert (again.source, again.problem, again.threads) == ("exact", kernel.problem, kernel.threads)
    assert is_right(again)


@pytest.mark.usefixtures("quick_builds")
def test_two_graphs_of_one_shape_never_answer_for_each_other(libraries: Any) -> None:
    ring = Graph.from_coo(np.arange(8), (np.arange(8) + 1) % 8)
    star = Graph.from_coo(np.arange(8), np.zeros(8, int), num_src=8, num_dst=8)
    publish(libraries, ring, "copy_u_sum")
    kernels = [tvm_gnn.load(graph, "copy_u_sum", FEAT) for graph in (ring, star)]
    assert kernels[0].source == "exact"
    assert kernels[1].source != "exact"
    assert all(is_right(kernel) for kernel in kernels)


@pytest.mark.usefixtures("quick_builds")
@pytest.mark.parametrize("damage", ["flip", "truncate", "empty", "gone", "not a library", "manifest"])
def test_a_damaged_tuned_artifact_is_not_served(libraries: Any, damage: str) -> None:
    graph = ODD_GRAPHS["self_loops"]()
    artifact = publish(libraries, graph, "copy_u_sum")
    hurt(artifact.files[KERNEL_FILE], artifact.path / "manifest.json", damage)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a word is allowed, an error is not
        kernel = tvm_gnn.load(graph, "copy_u_sum", FEAT)
    assert kernel.source == "default"
    assert is_right(kernel)


@pytest.mark.usefixtures("quick_builds")
@pytest.mark.parametrize("damage", ["flip", "truncate", "empty", "gone", "not a library", "manifest"])
def test_a_damaged_default_is_built_again(damage: str) -> None:
    graph = ODD_GRAPHS["self_loops"]()
    first = tvm_gnn.load(graph, "copy_u_sum", FEAT)
    folder = Path(str(first.provenance.artifact))
    hurt(folder / KERNEL_FILE, folder / "manifest.json", damage)
    again = tvm_gnn.load(graph, "copy_u_sum", FEAT)
    assert again.provenance.artifact != first.provenance.artifact
    assert is_right(again)
    assert is_right(first)  # what is loaded stays loaded
    store, task = artifact_store(), make_task(graph, "copy_u_sum", FEAT)
    assert store.lookup(code_key(task, task.space.default), "default") is not None
    # TVM reads the files of all loaded libraries when it reports an error, and dies of one that is cut short.
    (folder / KERNEL_FILE).unlink(missing_ok=True)


def hurt(library: Path, manifest: Path, damage: str) -> None:
    content = bytearray(library.read_bytes())
    content[len(content) // 2] ^= 1
    # A new file: writing into one that is mapped would hurt this process instead of the cache.
    if damage == "manifest":
        manifest.write_text(manifest.read_text().replace("copy_u_sum", "copy_u_max", 1))
        return
    library.unlink()
    damaged = {"flip": bytes(content), "truncate": bytes(content[:1000]), "empty": b"", "not a library": b"#!/bin/sh\n"}
    if damage in damaged:
        library.write_bytes(damaged[damage])


@pytest.mark.usefixtures("quick_builds")
def test_an_artifact_that_is_whole_but_no_kernel_is_not_served(tmp_path: Path) -> None:
    graph = ODD_GRAPHS["self_loops"]()
    task = make_task(graph, "copy_u_sum", FEAT)
    fake = tmp_path / "fake.so"
    fake.write_bytes(b"\x7fELF and nothing more")
    artifact_store().publish(
        task.key,
        graph.signature.exact,
        {KERNEL_FILE: fake},
        graph=task.graph_fields,
        decisions=task.space.default,
    )
    with pytest.warns(RuntimeWarning, match=r"artifact .* is not served: library: cannot be loaded as a kernel"):
        kernel = tvm_gnn.load(graph, "copy_u_sum", FEAT)
    assert kernel.source == "default"
    assert is_right(kernel)


@pytest.mark.usefixtures("quick_builds")
def test_a_cache_that_cannot_be_written_serves_with_one_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A file where the folder should be: not writable for root either.
    blocked = tmp_path / "a file"
    blocked.write_text("")
    monkeypatch.setenv("TVM_GNN_CACHE", str(blocked / "cache"))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        kernel = tvm_gnn.load(ODD_GRAPHS["self_loops"](), "copy_u_sum", FEAT)
    assert [warning.category for warning in caught] == [RuntimeWarning]
    assert "the default kernel is not kept" in str(caught[0].message)
    assert kernel.provenance.artifact is None
    assert is_right(kernel)


@pytest.mark.usefixtures("quick_builds")
def test_loading_again_publishes_nothing_new(isolated_cache: Path) -> None:
    graph = ODD_GRAPHS["self_loops"]()
    tvm_gnn.load(graph, "copy_u_sum", FEAT)
    before = sorted(isolated_cache.rglob("*"))
    other = Graph.from_coo([0, 1, 2], [1, 2, 2])
    for each in (graph, other):  # the default kernel serves every graph
        assert is_right(tvm_gnn.load(each, "copy_u_sum", FEAT))
    assert sorted(isolated_cache.rglob("*")) == before


@pytest.mark.usefixtures("quick_builds")
@pytest.mark.parametrize("op", SPMM_OPS)
def test_a_callers_edge_order_or_csr_order(op: str) -> None:
    graph = ODD_GRAPHS["unsorted_edge_list"]()
    x, w = integers(graph)
    w = np.resize(w, edge_values_shape(SPMM_OPS[op], graph, FEAT))
    y = tvm_gnn.load(graph, op, FEAT)(*used(SPMM_OPS[op], x, w))
    in_order = tvm_gnn.load(graph, op, FEAT, edge_order="csr")
    assert y.tobytes() == in_order(*used(SPMM_OPS[op], x, graph.to_csr_order(w))).tobytes()


@pytest.mark.usefixtures("quick_builds")
def test_a_number_of_numpy_is_a_width() -> None:
    graph = ODD_GRAPHS["self_loops"]()
    assert is_right(tvm_gnn.load(graph, "copy_u_sum", np.int64(FEAT)))


@pytest.mark.parametrize(
    ("changes", "error", "text"),
    [
        ({"graph": np.eye(3)}, InputTypeError, r"graph: must be a tvm_gnn.Graph \(got ndarray\)"),
        ({"op": "u_mul_e_product"}, InputError, r"op: must be the name of an operator \(got 'u_mul_e_product'\)"),
        ({"feat": None}, InputTypeError, r"feat: the feature width is needed"),
        ({"feat": 2.0}, InputTypeError, r"feat: must be an integer or a pair of them \(got 2.0 of type float\)"),
        ({"feat": True}, InputTypeError, r"feat: must be an integer or a pair of them \(got True of type bool\)"),
        ({"feat": -1}, InputError, r"feat: must be at least 0 \(got -1\)"),
        ({"dtype": "int8"}, InputError, r"dtype: must be one of float32.* \(got 'int8'\)"),
        ({"edge_order": "coo"}, InputError, r"edge_order: must be one of caller, csr \(got 'coo'\)"),
        ({"target": "gpu9"}, InputError, r"target: must be cpu.* \(got 'gpu9'\)"),
        ({"threads": 0}, InputError, r"threads: must be at least 1 \(got 0\)"),
        ({"threads": "2"}, InputTypeError, r"threads: must be an integer"),
        ({"threads": 1.5}, InputTypeError, r"threads: must be an integer"),
    ],
)
def test_wrong_arguments(changes: dict[str, Any], error: type[TvmGnnError], text: str) -> None:
    arguments = {"graph": ODD_GRAPHS["self_loops"](), "op": "copy_u_sum", "feat": 4, **changes}
    with pytest.raises(error, match=text):
        tvm_gnn.load(**arguments)


def test_threads_are_at_most_what_the_process_may_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TVM_GNN_NUM_THREADS", "1")
    assert tvm_gnn.load(ODD_GRAPHS["zero_edges"](), "copy_u_sum", 4, threads=64).threads == 1


@pytest.mark.parametrize("dtype", [np.float64, np.dtype("float64"), "torch.float64"])
def test_dtypes_of_numpy_and_torch(dtype: Any) -> None:
    if dtype == "torch.float64":
        dtype = pytest.importorskip("torch", reason="torch is not installed").float64
    assert tvm_gnn.load(ODD_GRAPHS["self_loops"](), "copy_u_sum", 0, dtype=dtype).problem.dtype == "float64"


@pytest.mark.parametrize("dtype", [np.int8, np.dtype("complex64"), float, None])
def test_other_dtypes_are_refused(dtype: Any) -> None:
    with pytest.raises(InputError, match=r"dtype: must be one of float32"):
        tvm_gnn.load(ODD_GRAPHS["self_loops"](), "copy_u_sum", 0, dtype=dtype)
