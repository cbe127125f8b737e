"""One tuning record: what was tried on which graph, and the times it took or the reason it failed."""

from __future__ import annotations

import reprlib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any, Literal, get_args

from ..errors import InputError, RecordError
from .fields import (
    Decisions,
    JsonObject,
    decision_fields,
    dump,
    graph_fields,
    integer,
    json_object,
    nonempty_text,
    parse_object,
    plain,
    time_s,
    utc_now,
    utc_time,
)
from .key import TaskKey

SCHEMA = 1

Status = Literal["ok", "wrong", "crash", "timeout", "build_error", "interrupted"]


@dataclass(frozen=True, kw_only=True)
class Record:
    """The outcome of one trial: a measured candidate has its times, a failed one its reason, never both.

    The constructor checks every field and keeps plain copies, so a record can always be written.

    Attributes
    ----------
    task : dict of str to str
        The parts of the `TaskKey`.
    graph : dict
        name, exact, bucket, features (dict), num_dst, num_src, num_edges.
    decisions : dict of str to int, str or bool
        The candidate's schedule decisions.
    environment : dict
        Machine and versions.
    timings_s : list of float
        Every measured time, seconds in [1e-9, 1e5]; not empty exactly when `status` is ``"ok"``.
    status : str
        ok, wrong, crash, timeout, build_error or interrupted.
    reason : str or None
        Why the trial failed; set exactly when `status` is not ``"ok"``.
    trace : list, str or None
        The schedule's trace as TVM writes it.
    created : str
        ISO 8601, UTC.
    seed, trial : int or None
        Seed of the search and number of the trial in it.
    default_s : float or None
        Seconds per call of the default schedule, measured in turn with this one where that was possible.
    extra : dict
        Fields this version does not know, written back as they came.

    Raises
    ------
    RecordError
        A field breaks its rule, or the schema is newer than this version reads.
    """

    task: dict[str, str]
    graph: JsonObject
    decisions: Decisions
    environment: JsonObject = field(default_factory=dict)
    timings_s: list[float] = field(default_factory=list)
    status: Status = "ok"
    reason: str | None = None
    trace: list[Any] | str | None = None
    created: str = field(default_factory=utc_now)
    seed: int | None = None
    trial: int | None = None
    default_s: float | None = None
    extra: JsonObject = field(default_factory=dict)
    schema: int = SCHEMA

    def __post_init__(self) -> None:
        _check_schema(self.schema)
        for name, value in {
            "task": _task_parts(self.task),
            "graph": graph_fields(self.graph, "record.graph", RecordError),
            "decisions": decision_fields(self.decisions, "record.decisions", RecordError),
            "environment": json_object(self.environment, "record.environment", RecordError),
            "timings_s": _timings(self.timings_s),
            "trace": _trace(self.trace),
            "created": utc_time(self.created, "record.created", RecordError),
            "seed": None if self.seed is None else integer(self.seed, "record.seed", RecordError),
            "trial": None if self.trial is None else integer(self.trial, "record.trial", RecordError, minimum=0),
            "default_s": None if self.default_s is None else time_s(self.default_s, "record.default_s", RecordError),
            "extra": json_object(self.extra, "record.extra", RecordError),
        }.items():
            object.__setattr__(self, name, value)
        self._check_outcome()
        if clash := sorted(_WRITTEN.intersection(self.extra)):
            raise RecordError(f"record.extra: must not repeat fields of a record (got {', '.join(clash)}).")

    @cached_property
    def task_digest(self) -> str:
        """Digest of the task's key."""
        return TaskKey(self.task).digest

    def to_json(self) -> bytes:
        """The record as one line of JSON, without the line's end."""
        known = {name: getattr(self, name) for name in _WRITTEN}
        return dump({**self.extra, **known}, "record", RecordError)

    @classmethod
    def from_json(cls, line: bytes) -> Record:
        """The record written in one line; raises `RecordError` on anything else."""
        data = parse_object(line, "record", RecordError)
        # A newer schema may have other fields, so it is named before any of them is missed.
        _check_schema(data.get("schema"))
        data.setdefault("default_s", None)
        if missing := sorted(_WRITTEN.difference(data)):
            raise RecordError(f"record: must have every field of schema {SCHEMA} (got none of {', '.join(missing)}).")
        known = {name: data.pop(name) for name in _WRITTEN}
        return cls(**known, extra=data)

    def _check_outcome(self) -> None:
        if self.status not in get_args(Status):
            raise RecordError(
                f"record.status: must be one of {', '.join(get_args(Status))} (got {reprlib.repr(self.status)})."
            )
        if self.reason is not None:
            nonempty_text(self.reason, "record.reason", RecordError)
        if bool(self.timings_s) == (self.reason is not None):
            got = "both" if self.timings_s else "neither"
            raise RecordError(f"record: must have either timings_s or a reason (got {got}).")
        if (self.status == "ok") != bool(self.timings_s):
            outcome = "timings_s" if self.timings_s else "a reason"
            raise RecordError(f"record.status: must be 'ok' with timings_s only (got {self.status!r} with {outcome}).")


_WRITTEN = frozenset(each.name for each in fields(Record)) - {"extra"}


def _check_schema(schema: object) -> None:
    number = integer(schema, "record.schema", RecordError, minimum=1)
    if number > SCHEMA:
        raise RecordError(
            f"record.schema: must be at most {SCHEMA} (got {number}, written by a newer version). Upgrade tvm_gnn."
        )


def _task_parts(task: Mapping[str, str]) -> dict[str, str]:
    try:
        return TaskKey(task).as_dict()
    except InputError as cause:
        raise RecordError(f"record.task: {cause}") from cause


def _timings(timings_s: object) -> list[float]:
    if not isinstance(timings_s, list | tuple):
        raise RecordError(f"record.timings_s: must be a list of seconds (got {type(timings_s).__name__}).")
    return [time_s(each, "record.timings_s", RecordError) for each in timings_s]


def _trace(trace: object) -> Any:
    if trace is not None and not isinstance(trace, list | tuple | str):
        raise RecordError(f"record.trace: must be a list, a string or None (got {type(trace).__name__}).")
    return plain(trace, "record.trace", RecordError)
