"""The one table of tolerances: how far a kernel may be from the float64 reference."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

# A sum of d terms, in any order, is off by about eps * sqrt(d) * (sum of magnitudes): rounding errors are independent.
# The worst case (eps * d) would hide a dropped edge of a hub; twice the expectation and a floor for short sums is never
# reached by chance and still shows one missing or swapped edge among twenty thousand. Where that is not enough, choose
# inputs whose sums are exact, as the tuner does.
GROWTH = 2.0
FLOOR = 16.0


def rounding_scale(magnitudes: npt.NDArray[np.float64], terms: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """The largest error to allow, in units of the dtype's eps.

    Parameters
    ----------
    magnitudes : float64 array of shape (num_dst, F)
        Sum of the magnitudes that each element adds up.
    terms : integer array of shape (num_dst,)
        How many terms it adds up.
    """
    scale: npt.NDArray[np.float64] = magnitudes * (FLOOR + GROWTH * np.sqrt(terms))[:, None]
    return scale


def first_mismatch(
    got: npt.NDArray[Any], want: npt.NDArray[np.float64], scale: npt.NDArray[np.float64], dtype: str = "float32"
) -> str | None:
    """None when `got` agrees with the reference, else one line that names the first place.

    Parameters
    ----------
    got : array of shape (num_dst, F), the kernel's output
    want : float64 array of the same shape, the reference
    scale : float64 array of the same shape, see `rounding_scale`
    """
    if got.shape != want.shape:
        return f"shape {got.shape}, expected {want.shape}"
    eps = float(np.finfo(dtype).eps)
    tiny = float(np.finfo(dtype).tiny)
    with np.errstate(invalid="ignore", over="ignore"):
        reference = want.astype(dtype).astype(np.float64)
        same = (got == reference) | (np.isnan(got) & np.isnan(reference))
        close = np.abs(got - want) <= eps * scale + tiny
        bad = ~(same | (close & np.isfinite(want)))
    if not bad.any():
        return None
    row, column = (int(i) for i in np.argwhere(bad)[0])
    return (
        f"{int(bad.sum())} of {bad.size} elements differ, first at row {row}, feature {column}: "
        f"got {float(got[row, column])!r}, expected {float(want[row, column])!r}"
    )
