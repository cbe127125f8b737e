"""Finding and loading MKL's single library `libmkl_rt`, on torch's thread pool where there is torch.

Which code path MKL takes shows in the processor-specific library it loads: `mkl_avx512`, `mkl_avx2`, or `mkl_def`, the
plain one. Seen on an AMD EPYC with AVX-512: MKL 2026.2 loads `mkl_def` whatever MKL_ENABLE_INSTRUCTIONS, MKL_CBWR or
MKL_DEBUG_CPU_TYPE say. MKL 2019.0, still on PyPI, obeys MKL_DEBUG_CPU_TYPE=5 and loads `mkl_avx2`, which was about 1.3
times as fast (20,000 nodes, 400,000 random edges, F = 64, two threads). To compare with that path, install
`mkl==2019.0` in the environment of the benchmark and set the variable before Python starts.
"""

from __future__ import annotations

import ctypes
import re
import sys
from ctypes.util import find_library
from functools import cache
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

from ...errors import DependencyError

INTEL_THREADS, GNU_THREADS = 0, 3
CODE_PATHS = {"mkl_avx10": "AVX10", "mkl_avx512": "AVX-512", "mkl_avx2": "AVX2", "mkl_avx": "AVX", "mkl_def": "plain"}


def missing() -> str | None:
    """Why MKL cannot be used here, or None."""
    return None if library_path() else "mkl is not installed (no libmkl_rt found)"


@cache
def library_path() -> str | None:
    """`libmkl_rt` of the `mkl` wheel, else of the environment's lib folder, else of the system."""
    try:
        files = metadata.files("mkl") or []
    except metadata.PackageNotFoundError:
        files = []
    found = [Path(str(file.locate())) for file in files if file.name.startswith("libmkl_rt.so")]
    found += sorted((Path(sys.prefix) / "lib").glob("libmkl_rt.so*"))
    existing = [path for path in found if path.exists()]
    return str(existing[0].resolve()) if existing else find_library("mkl_rt")


@cache
def load() -> ctypes.CDLL:
    """The library with its thread layer chosen, which MKL allows only before anything else is called."""
    path = library_path()
    if path is None:
        raise DependencyError("mkl: must be installed for this contender (got no libmkl_rt). Run `pip install mkl`.")
    if find_spec("torch") is not None:
        import torch  # noqa: F401  # brings the OpenMP runtime whose threads MKL then shares

        layer = GNU_THREADS
    else:
        layer = INTEL_THREADS
        runtime = Path(path).with_name("libiomp5.so")
        if runtime.exists():  # older MKL looks for it on the loader's path only
            ctypes.CDLL(str(runtime), mode=ctypes.RTLD_GLOBAL)
    library = ctypes.CDLL(path)
    library.MKL_Set_Threading_Layer(layer)
    return library


def version() -> str:
    """Version as MKL states it, such as ``2026.2``."""
    text = ctypes.create_string_buffer(200)
    load().mkl_get_version_string(text, len(text))
    found = re.search(r"Version (\d+(?:\.\d+)*)", text.value.decode())
    return found[1] if found else "of unknown version"


def code_path() -> str:
    """The path MKL took in this process, from the libraries it has loaded; known after the first computation."""
    try:
        mapped = Path("/proc/self/maps").read_text()
    except OSError:
        return "path unknown"
    loaded = [path for library, path in CODE_PATHS.items() if f"/lib{library}.so" in mapped]
    return f"{loaded[0]} path" if loaded else "path unknown"
