"""TensorIR expressions that several templates share: an exponential that vectorises, and what keeps a NaN."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ..ops.messages import Reduce


class _Exponential(NamedTuple):
    """exp(x) = 2^n p(r) with n the integer nearest to x / ln 2 and r = x - n ln 2.

    Attributes
    ----------
    bits : str
        Dtype of an integer as wide.
    mantissa, bias : int
        Of the format: bits of the mantissa, and the exponent that stands for 2^0.
    ln2 : (float, float)
        In two parts; n times the first is exact.
    lowest : float
        Where n is -bias, so that 2^n has the bits of zero: what lies below becomes an exact zero.
    coefficients : tuple of float
        Of p, the highest power first.
    """

    bits: str
    mantissa: int
    bias: int
    ln2: tuple[float, float]
    lowest: float
    coefficients: tuple[float, ...]


_EXPONENTIALS = {
    "float32": _Exponential(
        bits="int32",
        mantissa=23,
        bias=127,
        ln2=(0.693359375, -2.12194440e-4),
        lowest=-88.0,
        # Minimax on |r| <= ln 2 / 2 (Cephes, expf).
        coefficients=(
            *(1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1),
            *(1.0, 1.0),
        ),
    ),
    "float64": _Exponential(
        bits="int64",
        mantissa=52,
        bias=1023,
        ln2=(6.93145751953125e-1, 1.42860682030941723212e-6),
        lowest=-709.1,
        # Taylor's; the first term left out is below 2^-57.
        coefficients=tuple(1 / math.factorial(power) for power in range(13, -1, -1)),
    ),
}


def exponential(x: Any, dtype: str) -> Any:
    """exp of an `x` that is at most about 0 (up to 88 it is right too), within two units in the last place.

    NaN stays NaN, -inf gives 0, and so does what would be denormal. Made of multiplications and additions of the dtype
    and of one shift of an integer: all of them have vector instructions, where a call of the C library's exp is made
    for one element at a time.
    """
    from tvm import tirx
    from tvm.script import tirx as T

    form = _EXPONENTIALS[dtype]

    def constant(value: float) -> Any:
        return tirx.const(value, dtype)

    # Added to a small number it leaves no place for a fraction: the number is rounded, and is then the lowest bits.
    rounder = constant(1.5 * 2**form.mantissa)
    clamped, shifted, whole, rest = (tirx.Var(name, dtype) for name in ("clamped", "shifted", "whole", "rest"))
    power = tirx.const(form.coefficients[0], dtype)
    for coefficient in form.coefficients[1:]:
        power = power * rest + constant(coefficient)
    integer = T.reinterpret(form.bits, shifted) + tirx.const(form.bias, form.bits)
    value = power * T.reinterpret(dtype, T.shift_left(integer, tirx.const(form.mantissa, form.bits)))
    value = tirx.Let(rest, (clamped - whole * constant(form.ln2[0])) - whole * constant(form.ln2[1]), value)
    value = tirx.Let(whole, shifted - rounder, value)
    value = tirx.Let(shifted, clamped * constant(1 / math.log(2)) + rounder, value)
    return tirx.Let(clamped, tirx.Select(x < constant(form.lowest), constant(form.lowest), x), value)


# The dtype of integers as wide.
BITS = {"float32": "int32", "float64": "int64"}


def place_among_floats(value: Any, dtype: str) -> Any:
    """An integer as wide, in the order of the floats and the same for both zeros; that of NaN is at either end."""
    from tvm import tirx
    from tvm.script import tirx as T

    kind = BITS[dtype]
    place = _sign_flipped(T.reinterpret(kind, value), kind)
    return tirx.Select(place == tirx.const(0, kind), tirx.const(-1, kind), place)


def float_at(place: Any, dtype: str) -> Any:
    """The float in that place; the inverse of `place_among_floats`."""
    from tvm.script import tirx as T

    return T.reinterpret(dtype, _sign_flipped(place, BITS[dtype]))


def _sign_flipped(bits: Any, kind: str) -> Any:
    """Of negative numbers all bits but the sign inverted."""
    from tvm import tirx
    from tvm.script import tirx as T

    shift = int(kind.removeprefix("int")) - 1
    sign = T.shift_right(bits, tirx.const(shift, kind))
    return T.bitwise_xor(bits, T.bitwise_and(sign, tirx.const((1 << shift) - 1, kind)))


def leaky_relu(x: Any, slope: float, dtype: str) -> Any:
    """x where it is positive, else x times the slope; a NaN stays one."""
    from tvm import tirx

    zero = tirx.const(0.0, dtype)
    if slope:
        return tirx.Select(x > zero, x, x * tirx.const(slope, dtype))
    # TVM would simplify x * 0 to 0 also where x is NaN or infinite.
    lowest, nan = (tirx.const(value, dtype) for value in (float(np.finfo(dtype).min), math.nan))
    return tirx.Select(x > zero, x, tirx.Select(x >= lowest, zero, nan))


def larger(a: Any, b: Any) -> Any:
    """The larger of two numbers; which of them where one is NaN is open.

    Enough for what is subtracted before an exponential: a NaN among the scores reaches the sum all the same.
    """
    from tvm import tirx

    return tirx.Select(a > b, a, b)


def is_number(value: Any) -> Any:
    """Whether it is no NaN.

    Made of strict comparisons only: TVM's simplifier turns ``<=`` into the negation of ``>`` and takes a value to equal
    itself, which is wrong of NaN, and its isnan keeps a loop from being vectorised.
    """
    from tvm import tirx

    return tirx.any(value < math.inf, value == math.inf)


def kept_of(reduce: Reduce, value: Any, total: Any, later: Any, earlier: Any) -> Any:
    """`later` where a value wins over a total that is no NaN, else `earlier`; for a reduce that selects."""
    from tvm import tirx

    assert reduce.better is not None
    return tirx.Select(reduce.better(value, total), later, tirx.Select(is_number(value), earlier, later))


def accumulated(reduce: Reduce, total: Any, value: Any) -> Any:
    """What a reduction has after one more value; a NaN stays (TensorIR's own max and min lose one in one operand)."""
    from tvm import tirx

    if reduce.better is None:
        return total + value
    # The inner choice is one instruction of x86, which keeps a total that is NaN; only the outer one waits for nothing.
    return tirx.Select(is_number(value), tirx.Select(reduce.better(value, total), value, total), value)


def folding(combine: Any, numbers: int, least: int) -> Any:
    """``fold(buffer)`` for use in TVMScript: combines halves of `numbers` in the buffer until `least` are left."""
    from tvm.script import tirx as T

    half, any_left = numbers // 2, numbers > least
    fold_half = folding(combine, half, least) if any_left else None

    @T.macro
    def fold(buffer):
        if any_left:
            for n in T.vectorized(half):
                buffer[n] = combine(buffer[n], buffer[half + n])
            fold_half(buffer)

    return fold


def sum_across(buffer: Any, row: tuple[Any, ...], lanes: int, dtype: str) -> Any:
    """Sum of the `lanes` numbers in a row of a buffer: halves are added until one number is left."""
    from tvm.script import tirx as T

    place = (*row, 0 if lanes == 1 else T.Ramp(0, 1, lanes))
    total, count = buffer[place], lanes
    while count > 1:
        count //= 2
        half = dtype if count == 1 else f"{dtype}x{count}"
        total = T.vectorlow(half, total) + T.vectorhigh(half, total)
    return total
