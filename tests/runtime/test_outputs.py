"""Recycled output memory: used again only when nobody can see it any more."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

from tvm_gnn.runtime.outputs import ALIGN_BYTES, RECYCLE_FROM_BYTES, OutputMemory, aligned_empty, is_recycled

LARGE = (RECYCLE_FROM_BYTES // 4 // 8, 8)


def taken(memory: OutputMemory) -> Any:
    array, stated = memory.empty(LARGE, "float32")
    assert stated == address(array)
    return array


def test_only_large_outputs_are_worth_it() -> None:
    assert is_recycled(LARGE, "float32")
    assert not is_recycled((LARGE[0] - 1, LARGE[1]), "float32")


def address(array: Any) -> int:
    return int(array.__array_interface__["data"][0])


def test_dropped_large_output_is_used_again() -> None:
    memory = OutputMemory()
    first = taken(memory)
    at = address(first)
    del first
    assert address(taken(memory)) == at


@pytest.mark.parametrize("keep", [lambda y: y, lambda y: y[3:5], lambda y: y.T, lambda y: memoryview(y)])
def test_whatever_still_sees_it_keeps_it(keep: Any) -> None:
    memory = OutputMemory()
    first = taken(memory)
    first[:] = 7
    at = address(first)
    kept = keep(first)
    del first
    others = [taken(memory) for _ in range(6)]
    for other in others:
        other[:] = 0
    assert at not in map(address, others)
    assert (np.asarray(kept) == 7).all()


def test_torch_views_keep_it() -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    memory = OutputMemory()
    view = torch.from_numpy(taken(memory))[1].fill_(7)
    for _ in range(3):
        taken(memory)[:] = 0
    assert (view == 7).all()


@pytest.mark.parametrize("empty", [aligned_empty, OutputMemory().empty])
def test_aligned_writable_and_of_the_right_shape(empty: Any) -> None:
    for shape in ((3, 1), (7, 5), LARGE):
        array, stated = empty(shape, "float32")
        assert stated == address(array)
        assert array.shape == shape
        assert address(array) % ALIGN_BYTES == 0
        assert array.flags.c_contiguous
        assert array.flags.writeable


def test_threads_never_share_a_block() -> None:
    memory = OutputMemory()
    clashes: list[int] = []

    def use(mine: int) -> None:
        for _ in range(50):
            array = taken(memory)
            array[:] = mine
            if (array != mine).any():
                clashes.append(mine)

    threads = [threading.Thread(target=use, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert clashes == []
