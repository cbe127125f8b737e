"""From a scheduled module to a shared library on disk: LLVM emits objects, the system compiler links them."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from ..config import current
from ..errors import BuildError, DependencyError
from .importing import import_tvm
from .launcher import IR
from .target import CpuTarget

_COMPILERS = ("cc", "gcc", "clang", "c++", "g++", "clang++")


def build_library(module: Any, target: CpuTarget, library: Path) -> None:
    """Compile `module` (an IRModule with one function ``main``) and link it with the launcher into `library`.

    Raises
    ------
    DependencyError
        There is no compiler to link with.
    BuildError
        TVM or the linker refused, or the code needs TVM's heap workspace.
    """
    tvm = import_tvm()
    try:
        compiled = tvm.compile(module, target=target.tvm_target())
    except Exception as error:  # TVM raises many types, some of them plain RuntimeError
        raise BuildError(f"compile: {_first_line(error)}") from error
    with tempfile.TemporaryDirectory(dir=library.parent) as scratch:
        objects = [Path(scratch, "kernel.o"), Path(scratch, "launcher.o")]
        compiled.mod.write_to_file(str(objects[0]), "o")
        if b"__TVMBackendAllocWorkspace" in objects[0].read_bytes():
            # TVM puts a buffer of 1024 bytes or more on the heap: accumulators there cost more than any schedule gains.
            raise BuildError("schedule: accumulators do not fit on the stack (a tile must stay under 1024 bytes)")
        objects[1].write_bytes(_launcher_object())
        link(objects, library)


def link(objects: list[Path], library: Path) -> None:
    """Link object files into a shared library, published by one rename so that nobody loads half a file."""
    partial = library.with_name(f".{library.name}.{os.getpid()}")
    command = [*linker(), "-shared", "-o", str(partial), *map(str, objects)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise BuildError(f"link: {command[0]} ended with {done.returncode}: {done.stderr.strip()[-500:]}")
    os.replace(partial, library)


def linker() -> list[str]:
    """The C compiler that links kernels, with its arguments (``CC`` first); raises `DependencyError` without one."""
    chosen = shlex.split(current().compiler or "")
    for name, *arguments in filter(None, [chosen, *([name] for name in _COMPILERS)]):
        path = shutil.which(name)
        if path:
            return [path, *arguments]
    raise DependencyError(
        f"compiler: one of {', '.join(_COMPILERS)} is needed to link a kernel (none on PATH). "
        "Install gcc or clang, or copy artifacts from a machine of the same kind."
    )


@cache
def _launcher_object() -> bytes:
    tvm = import_tvm()
    with tempfile.TemporaryDirectory() as scratch:
        source, emitted = Path(scratch, "launcher.ll"), Path(scratch, "launcher.o")
        triple = tvm.target.codegen.llvm_get_system_triple()
        source.write_text(f'target triple = "{triple}"\n{IR}')
        tvm.runtime.load_module(str(source)).write_to_file(str(emitted), "o")
        return emitted.read_bytes()


def _first_line(error: BaseException) -> str:
    lines = [line for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[-1].strip()[:300]}" if lines else type(error).__name__
