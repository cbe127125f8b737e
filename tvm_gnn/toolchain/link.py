"""From a scheduled module to a shared library on disk: LLVM emits objects, the system compiler links them."""

from __future__ import annotations

import ctypes
import os
import shlex
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from ..config import current
from ..errors import BuildError, DependencyError, InputError
from .importing import import_tvm
from .launcher import IR
from .target import CpuTarget
from .temporary import temporary_files, temporary_folder

_COMPILERS = ("cc", "gcc", "clang", "c++", "g++", "clang++")


def build_library(module: Any, target: CpuTarget, library: Path) -> None:
    """Compile `module` (an IRModule with one function ``main``) and link it with the launcher into `library`.

    Raises
    ------
    DependencyError, InputError
        There is no compiler to link with, or ``CC`` names none.
    BuildError
        TVM or the linker refused, the disk is full, or the code needs TVM's heap workspace.
    """
    tvm = import_tvm()
    try:
        compiled = tvm.compile(module, target=target.tvm_target())
    except Exception as error:  # TVM raises many types, some of them plain RuntimeError
        raise BuildError(f"compile: {_first_line(error)}") from error
    with temporary_files(BuildError, library.parent), tempfile.TemporaryDirectory(dir=library.parent) as scratch:
        objects = [Path(scratch, "kernel.o"), Path(scratch, "launcher.o")]
        compiled.mod.write_to_file(str(objects[0]), "o")
        if b"__TVMBackendAllocWorkspace" in objects[0].read_bytes():
            # TVM puts a buffer of 1024 bytes or more on the heap: accumulators there cost more than any schedule gains.
            raise BuildError("schedule: accumulators do not fit on the stack (a tile must stay under 1024 bytes)")
        objects[1].write_bytes(_launcher_object(library.parent))
        link(objects, library)


def link(objects: list[Path], library: Path, timeout_s: float | None = None) -> None:
    """Link object files into a shared library, published by one rename so that nobody loads half a file.

    Raises
    ------
    DependencyError, InputError
        As `linker`.
    BuildError
        The compiler failed, wrote nothing, or took longer than `timeout_s`.
    """
    partial = library.with_name(f".{library.name}.{os.getpid()}")
    try:
        _run([*linker(), "-shared", "-o", str(partial), *map(str, objects)], library.parent, timeout_s)
        if not partial.is_file():
            raise BuildError(f"link: {linker()[0]} ended well and wrote no library. Set CC to a compiler that links.")
        os.replace(partial, library)
    finally:
        partial.unlink(missing_ok=True)


def try_linker(timeout_s: float) -> None:
    """Link a library of nothing and load it; raises as `link` does when that is not possible, for whatever reason."""
    with temporary_folder(BuildError) as scratch, temporary_files(BuildError, scratch):
        nothing, library = scratch / "nothing.a", scratch / "nothing.so"
        nothing.write_bytes(b"!<arch>\n")  # an archive without members: nothing to compile, and right on every machine
        link([nothing], library, timeout_s)
        try:
            ctypes.CDLL(str(library))
        except OSError as error:
            raise BuildError(f"link: {linker()[0]} makes libraries that cannot be loaded here ({error})") from error


def linker() -> list[str]:
    """The C compiler that links kernels, with its arguments: ``CC`` if set, else the first on PATH.

    Raises
    ------
    InputError
        ``CC`` is no command line, or there is no such program.
    DependencyError
        ``CC`` is not set and no compiler is on PATH.
    """
    given = current().compiler or ""
    try:
        chosen = shlex.split(given)
    except ValueError as error:
        raise InputError(
            f"CC: must be a command line (got {given!r}: {error}). Unset it or name a compiler."
        ) from error
    if chosen:
        path = shutil.which(chosen[0])
        if path is None:
            raise InputError(f"CC: must name a program on PATH (got {given!r}). Unset it or name a compiler.")
        return [path, *chosen[1:]]
    for name in _COMPILERS:
        path = shutil.which(name)
        if path is not None:
            return [path]
    raise DependencyError(
        f"compiler: one of {', '.join(_COMPILERS)} is needed to link a kernel (none on PATH). "
        "Install gcc or clang, or copy artifacts from a machine of the same kind."
    )


@cache
def _launcher_object(folder: Path) -> bytes:
    tvm = import_tvm()
    # In the caller's folder: who kills this process on the way removes what it left there, and nothing elsewhere.
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        source, emitted = Path(scratch, "launcher.ll"), Path(scratch, "launcher.o")
        triple = tvm.target.codegen.llvm_get_system_triple()
        source.write_text(f'target triple = "{triple}"\n{IR}')
        tvm.runtime.load_module(str(source)).write_to_file(str(emitted), "o")
        return emitted.read_bytes()


def _run(command: list[str], folder: Path, timeout_s: float | None) -> None:
    # Into a file: a pipe would be waited for as long as any process that the compiler leaves behind. Not from our own
    # input: that is where a worker gets its requests.
    with tempfile.TemporaryFile(dir=folder) as output:
        try:
            done = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                timeout=timeout_s,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise BuildError(f"link: {command[0]} did not end within {timeout_s} s") from error
        except OSError as error:
            raise BuildError(f"link: {command[0]} cannot be run ({error.strerror or error})") from error
        if done.returncode < 0:
            raise BuildError(f"link: {command[0]} was killed by signal {-done.returncode}")
        if done.returncode > 0:
            output.seek(0)
            said = output.read().decode(errors="replace").strip()[-500:] or "it said nothing"
            raise BuildError(f"link: {command[0]} ended with {done.returncode}: {said}")


def _first_line(error: BaseException) -> str:
    lines = [line for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[-1].strip()[:300]}" if lines else type(error).__name__
