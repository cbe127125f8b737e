"""How fast all threads together read memory, by the bytes that each goes through: a curve that shows every cache."""

from __future__ import annotations

import ctypes
import math
import threading
import time
from bisect import bisect_left
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any

from .aligned import aligned_zeros
from .native import FLAGS, compiled

SOURCE = Path(__file__).with_name("bandwidth.c")
# Per thread: from half a first-level cache to where no cache of a few cores helps.
SIZES = tuple(1 << log2 for log2 in range(14, 28, 1))
_FLOAT_BYTES = 4
_BLOCK_S = 0.006
_ROUNDS = 3


@dataclass(frozen=True)
class Bandwidth:
    """Measured read bandwidth of a machine.

    Attributes
    ----------
    threads : int
    sizes : tuple of int
        Bytes that every thread reads again and again, each its own; ascending.
    bytes_per_s : tuple of float
        Of all threads together, one per size.
    """

    threads: int
    sizes: tuple[int, ...]
    bytes_per_s: tuple[float, ...]

    def at(self, bytes_per_thread: float) -> float:
        """Bytes per second where each thread goes through so many; between sizes on a straight line of logarithms."""
        if bytes_per_thread <= self.sizes[0]:
            return self.bytes_per_s[0]
        if bytes_per_thread >= self.sizes[-1]:
            return self.bytes_per_s[-1]
        above = bisect_left(self.sizes, bytes_per_thread)
        low, high = self.sizes[above - 1], self.sizes[above]
        share = math.log(bytes_per_thread / low) / math.log(high / low)
        slower, faster = math.log(self.bytes_per_s[above]), math.log(self.bytes_per_s[above - 1])
        return math.exp(share * slower + (1 - share) * faster)

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON, in GB/s."""
        return {
            "threads": self.threads,
            "bytes_per_thread": list(self.sizes),
            "gb_per_s": [round(each / 1e9, 2) for each in self.bytes_per_s],
        }


@cache
def measured_bandwidth(threads: int) -> Bandwidth:
    """Measure it, once per process: about two seconds and 128 MiB per thread.

    A size's figure is never above that of a smaller one: what a larger array reaches a smaller one can, and where it
    did not, the machine was disturbed.

    Raises
    ------
    DependencyError, BuildError
        There is no C compiler, or it fails.
    """
    read = compiled(SOURCE, FLAGS).read_repeatedly
    read.argtypes = (ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
    read.restype = ctypes.c_float
    arrays = [aligned_zeros((SIZES[-1] // _FLOAT_BYTES,)) for _ in range(threads)]
    for array in arrays:
        array[:] = 1.0  # pages of zeros that nobody has written are all the same page
    found = [median(_bytes_per_s(read, arrays, size) for _ in range(_ROUNDS)) for size in SIZES]
    for position in reversed(range(len(found) - 1)):
        found[position] = max(found[position], found[position + 1])
    return Bandwidth(threads, SIZES, tuple(found))


def _bytes_per_s(read: Any, arrays: list[Any], size: int) -> float:
    """All threads at once, each through the first `size` bytes of its own array."""
    repeats = 1
    while True:
        elapsed_s = _together(read, arrays, size, repeats)
        if elapsed_s >= _BLOCK_S:
            return len(arrays) * size * repeats / elapsed_s
        repeats *= max(2, min(16, math.ceil(1.2 * _BLOCK_S / max(elapsed_s, 1e-9))))


def _together(read: Any, arrays: list[Any], size: int, repeats: int) -> float:
    """Seconds from the first start to the last end; every thread has read its part once before."""
    barrier = threading.Barrier(len(arrays))
    spans: list[tuple[float, float]] = []

    def work(array: Any) -> None:
        address, count = array.ctypes.data, size // _FLOAT_BYTES
        read(address, count, 1)
        barrier.wait()
        start = time.perf_counter()
        read(address, count, repeats)
        spans.append((start, time.perf_counter()))

    workers = [threading.Thread(target=work, args=(array,)) for array in arrays]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return max(end for _, end in spans) - min(start for start, _ in spans)
