"""The thread pool that kernels share with the rest of the process, so that two pools never fight over the cores."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from pathlib import Path

# All of these export GOMP_parallel: GNU's runtime, and LLVM's and Intel's through their compatibility layer.
_RUNTIMES = ("libgomp", "libomp", "libiomp5")

_forked = False
_on_fork: list[Callable[[], None]] = []


def omp_parallel_address() -> int:
    """Address of ``GOMP_parallel`` in the runtime this process uses, or 0 when kernels must run serially.

    Preferred in this order: the runtime torch has loaded; the one torch will load when it is imported; another one
    already loaded; the system's. In a forked child the answer is 0: the parent's pool threads do not exist there, and
    entering the pool would wait for them for ever.
    """
    library = _runtime()
    if library is None or _forked:
        return 0
    return ctypes.cast(library.GOMP_parallel, ctypes.c_void_p).value or 0


def tvm_parallel_address() -> int:
    """Address of TVM's own ``TVMBackendParallelLaunch`` where there is no OpenMP runtime, else 0; 0 after a fork."""
    if _forked or _runtime() is not None:
        return 0
    library = _tvm_runtime()
    return 0 if library is None else ctypes.cast(library.TVMBackendParallelLaunch, ctypes.c_void_p).value or 0


def runtime_name() -> str:
    """File name of the library whose threads kernels use, or ``none (serial)``."""
    library = None if _forked else _runtime() or _tvm_runtime()
    return "none (serial)" if library is None else Path(library._name).name


def host_threads() -> int | None:
    """Threads that the host framework is set to use (torch's setting), or None without torch."""
    torch = sys.modules.get("torch")
    try:
        return torch.get_num_threads() if torch is not None else None
    except AttributeError:  # torch is being imported
        return None


def on_fork(action: Callable[[], None]) -> None:
    """Run `action` in every forked child."""
    _on_fork.append(action)


@cache
def _tvm_runtime() -> ctypes.CDLL | None:
    spec = find_spec("tvm")
    if spec is None or spec.origin is None:
        return None
    # Its pool would bind the caller's thread to one CPU; read when the pool starts, so a user's own setting stands.
    os.environ.setdefault("TVM_BIND_THREADS", "0")
    try:
        return ctypes.CDLL(str(Path(spec.origin).parent / "lib" / "libtvm_runtime.so"), mode=ctypes.RTLD_GLOBAL)
    except OSError:
        return None


@cache
def _runtime() -> ctypes.CDLL | None:
    loaded = _loaded_runtimes()
    candidates = [path for path in loaded if f"{os.sep}torch{os.sep}" in path]
    candidates += (
        _torch_bundled() + loaded + [f"{name}.so.1" if name == "libgomp" else f"{name}.so" for name in _RUNTIMES]
    )
    for path in candidates:
        try:
            library = ctypes.CDLL(path)
            library.GOMP_parallel  # noqa: B018  raises AttributeError when the runtime lacks it
        except (OSError, AttributeError):
            continue
        return library
    return None


def _loaded_runtimes() -> list[str]:
    try:
        lines = Path("/proc/self/maps").read_text().splitlines()
    except OSError:
        return []
    paths = (line.split(maxsplit=5)[-1] for line in lines if "/" in line)
    return list(dict.fromkeys(path for path in paths if Path(path).name.startswith(_RUNTIMES)))


def _torch_bundled() -> list[str]:
    spec = find_spec("torch") if "torch" not in sys.modules else None
    if spec is None or not spec.submodule_search_locations:
        return []
    folder = Path(spec.submodule_search_locations[0])
    found = [*folder.glob("lib/libgomp*.so*"), *folder.parent.glob("torch.libs/libgomp*.so*")]
    return [str(path) for path in sorted(found)]


def _after_fork() -> None:
    global _forked
    _forked = True
    for action in _on_fork:
        action()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
