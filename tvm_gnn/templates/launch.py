"""The decisions that templates share: how rows are cut into parts and handed to threads, how far to prefetch, slices.

They are passed at run time, so that one library serves many schedules.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from ..ops import Problem
from .space import Counts, Decision, Decisions, Value

# Below about this many multiply-adds one thread is done before a second has woken up.
SERIAL_BELOW = 100_000
# Slices of fewer bytes, or with fewer edges in a row, cost more than what they save.
_LEAST_SLICE_BYTES = 1 << 13
_LEAST_EDGES_IN_SLICE = 4
# Defaults: slices of about twice a core's first cache were the fastest, from about this many edges in a row.
_LONG_ROW = 128
_CORE_CACHE_BYTES = 1 << 20
_SLICE_BYTES = 72 << 10


def part_decisions(threads: int) -> tuple[Decision, Decision]:
    """``parts`` of nearly equal work (1: serial), ``dynamic`` hand-out instead of one contiguous share per thread."""
    parts = tuple(sorted({1, threads, 2 * threads, 8 * threads, 32 * threads}))
    return Decision("parts", parts), Decision("dynamic", (False, True))


def parts_are_distinct(choice: Mapping[str, Value], threads: int, sees_cuts: bool = False) -> bool:
    """Whether no other values of the part decisions mean the same execution.

    A thread's static share is one run of rows however it is cut into parts, unless the kernel `sees_cuts`.
    """
    if choice["dynamic"]:
        return int(choice["parts"]) > threads > 1
    return int(choice["parts"]) <= threads or sees_cuts


def slice_counts(counts: Counts, row_bytes: int) -> tuple[int, ...]:
    """How many slices of sources may pay (1: none), where a source has `row_bytes` of features."""
    most = min(
        counts.num_src * row_bytes // _LEAST_SLICE_BYTES,
        counts.num_edges // (_LEAST_EDGES_IN_SLICE * max(1, counts.num_dst)),
    )
    return tuple(slices for slices in (1, 4, 8, 16, 32, 64) if slices <= max(1, most))


def dense_default(counts: Counts, row_bytes: int, threads: int, allowed: tuple[int, ...]) -> Decisions:
    """What a default schedule changes where rows are long and features pass a core's cache; nothing elsewhere."""
    total = counts.num_src * row_bytes
    if counts.num_edges < _LONG_ROW * counts.num_dst or total < _CORE_CACHE_BYTES or max(allowed) == 1:
        return {}
    fitting = [slices for slices in allowed if total // slices <= _SLICE_BYTES]
    # Long runs of rows use a slice most before the next one takes its place.
    return {"slices": min(fitting, default=max(allowed)), "prefetch": 0, "parts": threads, "dynamic": False}


def serial_or_balanced(threads: int, multiply_adds: int) -> Decisions:
    """The part decisions of a default schedule."""
    serial = threads == 1 or multiply_adds < SERIAL_BELOW
    return {"parts": 1 if serial else 8 * threads, "dynamic": not serial}


def code_decisions(choice: Mapping[str, Value]) -> Decisions:
    """What of a schedule shapes the code: whether there are slices and a prefetch distance, of the parts nothing."""
    code = {name: value for name, value in choice.items() if name not in ("parts", "dynamic")}
    if "slices" in code:
        code["slices"] = int(code["slices"]) > 1
    return {**code, "prefetch": bool(choice["prefetch"])}


def launch_parameters(choice: Mapping[str, Value], threads: int) -> dict[str, int]:
    """What of a schedule is passed at run time: parts, tasks handed out to the threads, slices, prefetch distance."""
    parts = int(choice["parts"])
    return {
        "parts": parts,
        "tasks": parts if choice["dynamic"] else min(parts, threads),
        "slices": int(choice.get("slices", 1)),
        "prefetch_distance": int(choice["prefetch"]),
    }


def parts_features(
    problem: Problem, graph: Mapping[str, Any], choice: Mapping[str, Value], threads: int
) -> dict[str, float]:
    """What the cost model sees of the part decisions."""
    parts = int(choice["parts"])
    longest_row = 2.0 ** graph["features"]["log2_degree_max"]
    return {
        "parts": math.log2(parts),
        "dynamic": float(bool(choice["dynamic"])),
        "threads": float(min(parts, threads)),
        "work_per_part": math.log2(1 + graph["num_edges"] * problem.width / parts),
        "longest_row_over_part": longest_row * parts / max(1, graph["num_edges"]),
    }
