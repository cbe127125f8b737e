"""C compiled for this machine with its own compiler at first use: what a measurement needs that numpy cannot do."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from ..errors import BuildError, DependencyError

COMPILERS = ("cc", "gcc", "clang")
FLAGS = ("-O3", "-march=native", "-std=gnu11", "-shared", "-fPIC")
COMPILE_TIMEOUT_S = 60


def c_compiler() -> str | None:
    """Path of the first compiler there is."""
    return next((path for path in map(shutil.which, COMPILERS) if path), None)


def no_c_compiler() -> str:
    """Says that there is none."""
    return f"no C compiler on the path ({', '.join(COMPILERS)})"


def compiled(source: Path, flags: Sequence[str]) -> ctypes.CDLL:
    """Compile and load; nothing stays on disk, for a loaded library needs its file no more.

    Raises
    ------
    DependencyError
        There is no compiler.
    BuildError
        It fails.
    """
    compiler = c_compiler()
    if compiler is None:
        raise DependencyError(f"{source.name}: needs a C compiler (got none of {', '.join(COMPILERS)}). Install one.")
    with tempfile.TemporaryDirectory(prefix="tvm_gnn_bench_") as folder:
        target = Path(folder) / f"{source.stem}.so"
        command = [compiler, *flags, "-o", str(target), str(source)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=COMPILE_TIMEOUT_S, check=False)
        except subprocess.TimeoutExpired as error:
            raise BuildError(f"{source.name}: must compile within {COMPILE_TIMEOUT_S} s (got no end).") from error
        if done.returncode != 0:
            raise BuildError(f"{source.name}: must compile (got exit {done.returncode} of {compiler}).\n{done.stderr}")
        return ctypes.CDLL(str(target))
