"""Guarded outputs and interleaved timing, without a kernel."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from tvm_gnn.tuning.measure import Output, time_interleaved


@pytest.mark.parametrize("shape", [(34, 8), (1, 1), (3, 7)])
def test_output_is_aligned_and_starts_as_nan(shape: tuple[int, int]) -> None:
    output = Output(shape, "float32")
    output.reset()
    assert tuple(output.array.shape) == shape
    assert output.array.ctypes.data % 64 == 0
    assert np.isnan(output.array).all()
    output.array[...] = 1.0
    assert output.guards_intact()
    output.reset()
    assert np.isnan(output.array).all()


def test_output_of_indices_starts_as_none() -> None:
    output = Output((34, 2), "int32")
    output.reset()
    assert (output.array == -1).all()


@pytest.mark.parametrize("offset", [-1, -4096, 0, 4095])
def test_a_write_outside_shows(offset: int) -> None:
    output = Output((5, 3), "float32")
    output.reset()
    behind = output.array.ctypes.data + output.array.nbytes
    address = (output.array.ctypes.data if offset < 0 else behind) + offset
    ctypes.c_uint8.from_address(address).value ^= 0xFF
    assert not output.guards_intact()


def test_rounds_are_taken_in_turn() -> None:
    calls: list[str] = []
    times = time_interleaved([lambda: calls.append("a"), lambda: calls.append("b")], rounds=4, block_s=0.0)
    assert [len(samples) for samples in times] == [4, 4]
    assert all(seconds > 0 for samples in times for seconds in samples)
    # Each block is one call that warms and at least one that counts.
    assert "".join(calls[-16:]) == "aabb" * 4


def test_slow_candidates_get_three_rounds() -> None:
    times = time_interleaved([lambda: None, lambda: None], rounds=50, block_s=0.0, most_s=0.0)
    assert [len(samples) for samples in times] == [3, 3]
