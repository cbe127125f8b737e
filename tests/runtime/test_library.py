"""Kernel libraries: what is refused when they are opened or called, and that files may go once they are loaded."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tvm_gnn.errors import ArtifactError
from tvm_gnn.graph import Graph
from tvm_gnn.runtime.kernel import BoundLibrary, Kernel, KernelFrame, Provenance
from tvm_gnn.runtime.library import Library
from tvm_gnn.templates.spmm_csr import ARGUMENTS
from tvm_gnn.testing.odd_graphs import ODD_GRAPHS, variant
from tvm_gnn.testing.operands import problem

LAUNCH = {"parts": 4, "tasks": 2, "slices": 1, "prefetch_distance": 0}


@pytest.fixture
def built(make_kernel: Any) -> Path:
    """A copy_u_sum library of width 4 with int32 indices."""
    path: Path = make_kernel(ODD_GRAPHS["self_loops"](), "copy_u_sum", 4)._bound.library.path
    return path


def test_no_library_at_all(tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match=r"library: cannot be loaded as a kernel \(got .*missing.so"):
        Library(tmp_path / "missing.so")
    (tmp_path / "text.so").write_text("not a library")
    with pytest.raises(ArtifactError, match=r"library: cannot be loaded as a kernel \(got .*text.so"):
        Library(tmp_path / "text.so")


def test_a_library_of_something_else(tmp_path: Path) -> None:
    import _ctypes

    other = tmp_path / "other.so"
    shutil.copy(_ctypes.__file__, other)
    with pytest.raises(ArtifactError, match=r"library: cannot be loaded as a kernel .*tvm_gnn_call"):
        Library(other)


def test_the_file_may_go_while_the_library_is_loaded(built: Path, tmp_path: Path) -> None:
    graph = ODD_GRAPHS["self_loops"]()
    path = tmp_path / "kernel.so"
    shutil.copy(built, path)
    bound = BoundLibrary(Library(path), ARGUMENTS, LAUNCH)
    path.unlink()
    kernel = Kernel(graph, problem("copy_u_sum", 4), bound, 2, Provenance("default"))
    y = kernel(np.ones((graph.num_src, 4), np.float32))
    np.testing.assert_array_equal(y, np.repeat(graph.in_degrees[:, None], 4, axis=1))


@pytest.mark.parametrize(
    ("index_dtype", "feat", "dtype"), [("int64", 4, "float32"), ("int32", 5, "float32"), ("int32", 4, "float64")]
)
def test_arguments_that_do_not_fit_the_library_are_an_error(
    built: Path, index_dtype: str, feat: int, dtype: str
) -> None:
    """An artifact under the wrong key must not read memory as something it is not."""
    graph: Graph = variant(ODD_GRAPHS["self_loops"](), index_dtype, "csr")
    x, y = np.ones((graph.num_src, feat), dtype), np.zeros((graph.num_dst, feat), dtype)
    bound = BoundLibrary(Library(built), ARGUMENTS, LAUNCH)
    frame = KernelFrame(bound, graph, problem("copy_u_sum", feat, dtype, index_dtype))
    for _ in range(3):
        with pytest.raises(ArtifactError, match=r"kernel: reported error -?\d+; its arguments do not fit the library"):
            frame.run([x.ctypes.data, y.ctypes.data], 2)
    assert not y.any()


def test_libraries_keep_their_own_pool_pointer_and_threads(make_kernel: Any) -> None:
    graph = ODD_GRAPHS["long_row"]()
    x = np.ones((graph.num_src, 4), np.float32)
    sums, means = make_kernel(graph, "copy_u_sum", 4), make_kernel(graph, "copy_u_mean", 4, threads=1)
    for _ in range(50):
        np.testing.assert_array_equal(sums(x)[:, 0], graph.in_degrees)
        np.testing.assert_array_equal(means(x)[:, 0], graph.in_degrees > 0)
