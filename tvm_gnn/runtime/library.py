"""A built kernel's shared library, called through TVM's packed C ABI with ctypes.

The ABI (tvm_ffi `c_api.h`: `TVMFFIAny`, `DLTensor`) is stable and small. Going through it directly keeps inference free
of `import tvm_ffi`, which costs 80 ms and pulls in torch wherever torch is installed, and accepts read-only arrays.
"""

from __future__ import annotations

import ctypes
import weakref
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar

from ..errors import ArtifactError, DependencyError
from ..toolchain.launcher import CALL, OMP_PARALLEL, TVM_PARALLEL
from . import pool

_TYPE_INT, _TYPE_DLTENSOR_PTR = 1, 7
_DEVICE_CPU = 1
# DLPack's code and bits.
_DTYPES = {
    "int32": (0, 32),
    "int64": (0, 64),
    "uint8": (1, 8),
    "uint16": (1, 16),
    "float32": (2, 32),
    "float64": (2, 64),
    "float16": (2, 16),
    "bfloat16": (4, 16),
}


class DLTensor(ctypes.Structure):
    """DLPack's tensor struct, row-major (strides null)."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("dtype_code", ctypes.c_uint8),
        ("dtype_bits", ctypes.c_uint8),
        ("dtype_lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class _Any(ctypes.Structure):
    _fields_ = (("type_index", ctypes.c_int32), ("padding", ctypes.c_int32), ("value", ctypes.c_int64))


def tensor(shape: tuple[int, ...], dtype: str, address: int = 0) -> DLTensor:
    """A CPU `DLTensor` over memory that the caller keeps alive."""
    code, bits = _DTYPES[dtype]
    dims = (ctypes.c_int64 * len(shape))(*shape)
    return DLTensor(address, _DEVICE_CPU, 0, len(shape), code, bits, 1, dims, None, 0)


class Library:
    """A loaded kernel library.

    Parameters
    ----------
    path : Path
        The shared library; the file may be replaced or removed while it is loaded.

    Raises
    ------
    ArtifactError
        The file cannot be loaded or is not a kernel library.
    """

    _all: ClassVar[weakref.WeakSet[Library]] = weakref.WeakSet()

    def __init__(self, path: Path) -> None:
        _load_tvm_ffi()
        try:
            self._handle = ctypes.CDLL(str(path))
            self._call: Any = getattr(self._handle, CALL)
            self._omp_parallel = ctypes.c_void_p.in_dll(self._handle, OMP_PARALLEL)
            self._tvm_parallel = ctypes.c_void_p.in_dll(self._handle, TVM_PARALLEL)
        except (OSError, AttributeError, ValueError) as error:
            raise ArtifactError(f"library: cannot be loaded as a kernel (got {path}: {error}).") from error
        self._call.argtypes = [ctypes.c_void_p, ctypes.c_int32, ctypes.c_void_p, ctypes.c_int32, ctypes.c_int32]
        self._call.restype = ctypes.c_int32
        self.path = path
        self.use_pool()
        Library._all.add(self)

    def use_pool(self) -> None:
        """Point the library at the thread pool to use from now on."""
        self._omp_parallel.value = pool.omp_parallel_address() or None
        self._tvm_parallel.value = pool.tvm_parallel_address() or None


class Frame:
    """The arguments of one call, laid out once and reused; one frame must not be used by two threads at a time.

    Parameters
    ----------
    library : Library
    arguments : list of DLTensor or int
        In the library's order. Tensors whose address changes per call are kept by the caller, who sets their ``data``.
    """

    def __init__(self, library: Library, arguments: list[DLTensor | int]) -> None:
        self._keep = (library, arguments)
        self._arguments = (_Any * len(arguments))(*(_packed(argument) for argument in arguments))
        self._result = _Any()
        self._call = library._call
        self._fixed = (ctypes.addressof(self._arguments), len(arguments), ctypes.addressof(self._result))

    def __call__(self, tasks: int, threads: int) -> None:
        """Run the kernel in `tasks` tasks on `threads` threads; raises `ArtifactError` when it reports an error."""
        arguments, count, result = self._fixed
        code = self._call(arguments, count, result, tasks, threads)
        if code != 0:
            raise ArtifactError(f"kernel: reported error {code}; its arguments do not fit the library.")


def _packed(argument: DLTensor | int) -> _Any:
    if isinstance(argument, int):
        return _Any(_TYPE_INT, 0, argument)
    return _Any(_TYPE_DLTENSOR_PTR, 0, ctypes.addressof(argument))


@cache
def _load_tvm_ffi() -> ctypes.CDLL:
    # Kernels report a wrong argument through this library's C functions; its Python package is not imported.
    spec = find_spec("tvm_ffi")
    folder = Path(spec.origin).parent / "lib" if spec is not None and spec.origin else None
    path = next(iter(sorted(folder.glob("libtvm_ffi.so*"))), None) if folder else None
    if path is None:
        raise DependencyError("apache-tvm-ffi: is needed to load kernels (not installed). Install apache-tvm-ffi.")
    return ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)


def _use_pool_everywhere() -> None:
    for library in Library._all:
        library.use_pool()


pool.on_fork(_use_pool_everywhere)
