"""The one table of tolerances: how far a kernel may be from the float64 reference."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from .dtypes import arithmetic_dtype, rounded

# A sum of d terms, in any order, is off by about eps * sqrt(d) * (sum of magnitudes): rounding errors are independent.
# The worst case (eps * d) would hide a dropped edge of a hub; twice the expectation and a floor for short sums is never
# reached by chance and still shows one missing or swapped edge among twenty thousand. Where that is not enough, choose
# inputs whose sums are exact, as the tuner does.
GROWTH = 2.0
FLOOR = 16.0


def rounding_scale(magnitudes: npt.NDArray[np.float64], terms: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """The largest error of a sum to allow, in units of eps of the dtype it is summed in.

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
    got: npt.NDArray[Any], want: npt.NDArray[Any], scale: npt.NDArray[np.float64], dtype: str = "float32"
) -> str | None:
    """None when `got` agrees with the reference, else one line that names the first place.

    Parameters
    ----------
    got : array of shape (num_dst, F), the kernel's output
    want : float64 array of the same shape, the reference; of indices, which must be equal, int64
    scale : float64 array of the same shape, see `rounding_scale`
    dtype : str
        Of the output. It must be what some sum within the allowed error is rounded to: of a half type, every result
        then lies within half a step of the reference, whatever was added up.
    """
    if got.shape != want.shape:
        return f"shape {got.shape}, expected {want.shape}"
    if np.issubdtype(want.dtype, np.integer):
        return _first(got != want, got, want)
    limits = np.finfo(arithmetic_dtype(dtype))
    values = got.astype(np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        allowed = float(limits.eps) * scale + float(limits.tiny)
        reference, least, most = (
            rounded(each, dtype).astype(np.float64) for each in (want, want - allowed, want + allowed)
        )
        same = (values == reference) | (np.isnan(values) & np.isnan(reference))
        close = (least <= values) & (values <= most)
        bad = ~(same | (close & np.isfinite(want)))
    return _first(bad, got, want)


def _first(bad: npt.NDArray[np.bool_], got: npt.NDArray[Any], want: npt.NDArray[Any]) -> str | None:
    if not bad.any():
        return None
    row, column = (int(i) for i in np.argwhere(bad)[0])
    return (
        f"{int(bad.sum())} of {bad.size} elements differ, first at row {row}, feature {column}: "
        f"got {got[row, column].item()!r}, expected {want[row, column].item()!r}"
    )
