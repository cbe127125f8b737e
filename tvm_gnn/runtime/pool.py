"""The OpenMP runtime that kernels share with the rest of the process, so that two thread pools never fight."""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

# All of these export GOMP_parallel: GNU's runtime, and LLVM's and Intel's through their compatibility layer.
_RUNTIMES = ("libgomp", "libomp", "libiomp5")

_lock = threading.Lock()
_found: tuple[bool, ctypes.CDLL | None] = (False, None)
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


def runtime_name() -> str:
    """File name of the OpenMP runtime in use, or ``none (serial)``."""
    library = _runtime()
    return Path(library._name).name if library is not None and not _forked else "none (serial)"


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


def _runtime() -> ctypes.CDLL | None:
    global _found
    with _lock:
        if not _found[0]:
            _found = (True, _find())
        return _found[1]


def _find() -> ctypes.CDLL | None:
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
