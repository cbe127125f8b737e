"""Type checks of JSON data: what a file or a caller gives becomes plain values or one named error, nothing else.

Every function takes the error class to raise, since the same rules hold for records and for manifests.
"""

from __future__ import annotations

import math
import numbers
import reprlib
from collections.abc import Mapping
from datetime import datetime, timedelta, timezone
from typing import Any, TypeAlias

import orjson

from ..errors import TvmGnnError

JsonObject: TypeAlias = dict[str, Any]
Decisions: TypeAlias = dict[str, int | str | bool]
ErrorClass: TypeAlias = type[TvmGnnError]

# Far deeper than any trace, and far from Python's and orjson's own recursion limits, which would be unnamed errors.
MAX_DEPTH = 64
# Times outside are no measurement of a kernel, and arithmetic with them overflows.
LEAST_TIME_S = 1e-9
MOST_TIME_S = 1e5


def parse_object(data: bytes, what: str, error: ErrorClass) -> JsonObject:
    """The JSON object in these bytes."""
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError as cause:
        raise error(f"{what}: must be JSON ({cause}).") from cause
    return json_object(value, what, error)


def dump(value: JsonObject, what: str, error: ErrorClass) -> bytes:
    """One line of JSON with sorted keys, the same bytes for equal values."""
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    except TypeError as cause:
        raise error(f"{what}: must be writable as JSON ({cause}).") from cause


def plain(value: object, what: str, error: ErrorClass, depth: int = 0) -> Any:
    """A deep copy made only of None, bool, int, float, str, list and dict; numpy's numbers become Python's."""
    if depth > MAX_DEPTH:
        raise error(f"{what}: must nest at most {MAX_DEPTH} levels deep.")
    # One type a test, and the abstract ones last: a log has millions of values and those tests are slow.
    if isinstance(value, str):
        return _text(value, what, error)
    if isinstance(value, float):
        return _finite(float(value), what, error)
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return _integer(int(value), what, error)
    if isinstance(value, (list, tuple)):
        return [plain(item, what, error, depth + 1) for item in value]
    if isinstance(value, Mapping):
        return {_name(name, what, error): plain(item, what, error, depth + 1) for name, item in value.items()}
    if isinstance(value, numbers.Integral):
        return _integer(int(value), what, error)
    if isinstance(value, numbers.Real):
        return _finite(float(value), what, error)
    raise error(f"{what}: must be made of numbers, strings, lists and dicts (got {type(value).__name__}).")


def json_object(value: object, what: str, error: ErrorClass) -> JsonObject:
    """A plain copy of a dict with string keys."""
    if not isinstance(value, Mapping):
        raise error(f"{what}: must be a dict (got {reprlib.repr(value)}).")
    copy: JsonObject = plain(value, what, error)
    return copy


def nonempty_text(value: object, what: str, error: ErrorClass) -> str:
    """A string that says something."""
    if not isinstance(value, str) or not value:
        raise error(f"{what}: must be a non-empty string (got {reprlib.repr(value)}).")
    return _text(value, what, error)


def integer(value: object, what: str, error: ErrorClass, minimum: int | None = None) -> int:
    """An integer, not a bool, of at least `minimum`."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or (minimum is not None and value < minimum):
        bound = "" if minimum is None else f" of at least {minimum}"
        raise error(f"{what}: must be an integer{bound} (got {reprlib.repr(value)}).")
    return _integer(int(value), what, error)


def number(value: object, what: str, error: ErrorClass, least: float = -math.inf, most: float = math.inf) -> float:
    """A finite number, not a bool, of at least `least` and at most `most`."""
    copy = plain(value, what, error)
    if isinstance(copy, bool) or not isinstance(copy, int | float):
        raise error(f"{what}: must be a number (got {reprlib.repr(copy)}).")
    if not least <= copy <= most:
        raise error(f"{what}: must be between {least:g} and {most:g} (got {reprlib.repr(copy)}).")
    return float(copy)


def time_s(value: object, what: str, error: ErrorClass) -> float:
    """Seconds that a kernel may take."""
    return number(value, what, error, LEAST_TIME_S, MOST_TIME_S)


def graph_fields(value: object, what: str, error: ErrorClass) -> JsonObject:
    """What is stored of a graph: name, exact, bucket, features, num_dst, num_src, num_edges; more is kept."""
    graph = json_object(value, what, error)
    for name in ("name", "exact", "bucket"):
        nonempty_text(graph.get(name), f"{what}.{name}", error)
    for name in ("num_dst", "num_src", "num_edges"):
        integer(graph.get(name), f"{what}.{name}", error, minimum=0)
    for name, feature in json_object(graph.get("features"), f"{what}.features", error).items():
        number(feature, f"{what}.features.{name}", error)
    return graph


def measured_fields(value: object, what: str, error: ErrorClass) -> JsonObject:
    """What was measured, by name: milliseconds of a kernel and ratios of them."""
    measured = json_object(value, what, error)
    return {
        name: number(figure, f"{what}.{name}", error, 1e3 * LEAST_TIME_S, 1e3 * MOST_TIME_S)
        for name, figure in measured.items()
    }


def decision_fields(value: object, what: str, error: ErrorClass) -> Decisions:
    """The schedule's decisions by name."""
    decisions = json_object(value, what, error)
    for name, choice in decisions.items():
        if not isinstance(choice, int | str):
            raise error(f"{what}.{name}: must be an int, a str or a bool (got {reprlib.repr(choice)}).")
    return decisions


def utc_now() -> str:
    """This moment in ISO 8601, UTC, microseconds."""
    return datetime.now(timezone.utc).isoformat(timespec="microseconds")


def utc_time(value: object, what: str, error: ErrorClass) -> str:
    """A moment in ISO 8601 with UTC's offset (``+00:00`` or ``Z``)."""
    text = nonempty_text(value, what, error)
    try:
        # Python 3.10 does not read the Z.
        offset = datetime.fromisoformat(text.removesuffix("Z") + "+00:00" * text.endswith("Z")).utcoffset()
    except ValueError:
        offset = None
    if offset != timedelta(0):
        raise error(f"{what}: must be an ISO 8601 time in UTC (got {reprlib.repr(text)}).")
    return text


def _name(value: object, what: str, error: ErrorClass) -> str:
    if not isinstance(value, str):
        raise error(f"{what}: must have string keys (got {reprlib.repr(value)}).")
    return _text(value, what, error)


def _text(value: str, what: str, error: ErrorClass) -> str:
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError as cause:
            raise error(f"{what}: must be valid Unicode text (got {reprlib.repr(value)}).") from cause
    # A subclass such as a string enum becomes its text.
    return value if type(value) is str else str.__str__(value)


def _integer(value: int, what: str, error: ErrorClass) -> int:
    if not -(2**63) <= value < 2**63:
        raise error(f"{what}: must fit 64 bits (got an integer of {value.bit_length()} bits).")
    return value


def _finite(value: float, what: str, error: ErrorClass) -> float:
    if not math.isfinite(value):
        raise error(f"{what}: must be finite, JSON has no other numbers (got {value}).")
    return value
