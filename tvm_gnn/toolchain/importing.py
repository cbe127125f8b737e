"""The only door to `import tvm`: keeps its start-up under a second and free of torch."""

from __future__ import annotations

import sys
import types
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module, metadata
from importlib.util import find_spec
from typing import Any

from ..errors import DependencyError

PINNED = {"apache-tvm": "0.27.0.post1", "apache-tvm-ffi": "0.1.14.post1"}


def import_tvm() -> Any:
    """The `tvm` module, imported on first use (about 0.7 s).

    Raises
    ------
    DependencyError
        apache-tvm is not installed or does not load.
    """
    if "tvm" in sys.modules:
        return sys.modules["tvm"]
    # Importing meta_schedule's builders parses the tensor intrinsics of every target (20-120 s). Sparse templates use
    # none of them, so the module is replaced by an empty one.
    sys.modules.setdefault("tvm.s_tir.tensor_intrin", types.ModuleType("tvm.s_tir.tensor_intrin"))
    try:
        with _torch_hidden():
            return import_module("tvm")
    except ImportError as error:
        raise DependencyError(
            f"apache-tvm: cannot be imported ({error}). Install {pinned_requirements()}, or run `tvm-gnn doctor`."
        ) from error


def require_tvm() -> None:
    """Raise `DependencyError` when apache-tvm is not installed; cheaper than importing it."""
    if find_spec("tvm") is None:
        raise DependencyError(
            f"apache-tvm: is needed to build kernels (not installed). Install {pinned_requirements()}."
        )


def toolchain_version() -> str:
    """Versions that decide what code comes out, as one key part; does not import tvm."""
    return " ".join(f"{name}={installed_version(name)}" for name in PINNED)


def installed_version(distribution: str) -> str:
    """Version of an installed distribution, or ``none``."""
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return "none"


def pinned_requirements() -> str:
    """The pair of TVM packages that works together, as pip requirements."""
    return " ".join(f"{name}=={version}" for name, version in PINNED.items())


@contextmanager
def _torch_hidden() -> Iterator[None]:
    # tvm_ffi imports torch whenever it is installed (1-2 s) only to convert its tensors, which happens elsewhere here.
    if "torch" in sys.modules:
        yield
        return
    sys.modules["torch"] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        del sys.modules["torch"]
