"""Tolerances of the half types: what some float32 sum within its error rounds to, and nothing else."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tvm_gnn.ops.dtypes import arithmetic_dtype, itemsize_of, numpy_dtype, rounded
from tvm_gnn.ops.tolerance import first_mismatch, rounding_scale


def mismatch(got: Any, want: Any, dtype: str, terms: int = 1) -> str | None:
    values = np.array([[want]], np.float64)
    scale = rounding_scale(np.abs(values), np.array([terms]))
    return first_mismatch(np.array([[got]]).astype(numpy_dtype(dtype)), values, scale, dtype)


@pytest.mark.parametrize(("dtype", "step"), [("float16", 2.0**-10), ("bfloat16", 2.0**-7)])
def test_one_step_off_is_wrong_unless_the_sum_lies_between(dtype: str, step: float) -> None:
    assert mismatch(1.0, 1.0, dtype) is None
    assert mismatch(1.0 + step, 1.0, dtype) is not None
    assert mismatch(1.0 - step / 2, 1.0, dtype) is not None
    # Near the middle of two steps the float32 sum may fall on either side, elsewhere not.
    for want in (1.0 + step / 2, 1.0 + step / 2 + 1e-7, 1.0 + step / 2 - 1e-7):
        assert mismatch(1.0, want, dtype) is None
        assert mismatch(1.0 + step, want, dtype) is None
    assert mismatch(1.0 + step, 1.0 + 0.45 * step, dtype) is not None
    assert mismatch(1.0 + step, 1.0 + 0.55 * step, dtype) is None


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_a_dropped_edge_of_a_hub_is_wrong(dtype: str) -> None:
    assert mismatch(4096, 4096.0, dtype, terms=4096) is None
    lost = 4092 if dtype == "float16" else 4064
    assert mismatch(lost, 4096.0, dtype, terms=4096) is not None


def test_the_edge_of_the_range() -> None:
    assert mismatch(np.inf, 70000.0, "float16") is None
    assert mismatch(65504, 70000.0, "float16") is not None
    assert mismatch(np.inf, 65000.0, "float16") is not None
    assert mismatch(65504, 65519.99, "float16") is None
    assert mismatch(np.inf, 65519.99, "float16") is None
    assert mismatch(np.inf, 1e30, "bfloat16") is not None
    assert mismatch(2.0**-24, 2.0**-24, "float16") is None
    assert mismatch(0.0, 2.0**-24, "float16") is not None
    assert mismatch(0.0, 2.0**-26, "float16") is None


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_infinity_and_nan_are_exact(dtype: str) -> None:
    assert mismatch(np.nan, np.nan, dtype) is None
    assert mismatch(-np.inf, -np.inf, dtype) is None
    assert mismatch(1.0, np.nan, dtype) is not None
    assert mismatch(np.nan, 1.0, dtype) is not None
    assert mismatch(1.0, np.inf, dtype) is not None


def test_float32_sums_of_halves_pass_and_half_sums_do_not() -> None:
    rng = np.random.default_rng(0)
    terms = rng.uniform(0, 1, (3000, 50)).astype(np.float16)
    want = terms.astype(float).sum(axis=0)[:, None]
    scale = rounding_scale(want, np.full(50, 3000))
    single = terms.astype(np.float32).sum(axis=0, keepdims=True).T.astype(np.float16)
    assert first_mismatch(single, want, scale, "float16") is None
    halves = np.add.accumulate(terms, axis=0, dtype=np.float16)[-1][:, None]
    assert first_mismatch(halves, want, scale, "float16") is not None


def test_the_table() -> None:
    for dtype, size, arithmetic in (("float32", 4, "float32"), ("float64", 8, "float64"), ("bfloat16", 2, "float32")):
        assert (itemsize_of(dtype), arithmetic_dtype(dtype)) == (size, arithmetic)
        assert numpy_dtype(dtype).itemsize == size
    assert rounded(np.array([1 + 2.0**-11, 1 + 3 * 2.0**-11]), "float16").tolist() == [1.0, 1 + 2.0**-9]
