"""The one table of tolerances: how far a kernel may be from the float64 reference."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

# A sum of d terms rounds at most about d times; with several accumulators it is far less. Errors are compared with
# `factor * eps * (sum of magnitudes)`: a bound that holds for cancelling sums, where a plain relative test does not.
FACTOR = {"float32": 16.0, "float64": 16.0}


def first_mismatch(
    got: npt.NDArray[Any], want: npt.NDArray[np.float64], scale: npt.NDArray[np.float64], dtype: str = "float32"
) -> str | None:
    """None when `got` agrees with the reference, else one line that names the worst place.

    Parameters
    ----------
    got : array of shape (num_dst, F), the kernel's output
    want : float64 array of the same shape, the reference
    scale : float64 array of the same shape, the op applied to magnitudes (`error_scale`)
    """
    if got.shape != want.shape:
        return f"shape {got.shape}, expected {want.shape}"
    eps = float(np.finfo(dtype).eps)
    tiny = float(np.finfo(dtype).tiny)
    with np.errstate(invalid="ignore", over="ignore"):
        reference = want.astype(dtype).astype(np.float64)
        same = (got == reference) | (np.isnan(got) & np.isnan(reference))
        close = np.abs(got - want) <= FACTOR[dtype] * eps * scale + tiny
        bad = ~(same | (close & np.isfinite(want)))
    if not bad.any():
        return None
    row, column = (int(i) for i in np.argwhere(bad)[0])
    return (
        f"{int(bad.sum())} of {bad.size} elements differ, first at row {row}, feature {column}: "
        f"got {got[row, column]!r}, expected {want[row, column]!r}"
    )
