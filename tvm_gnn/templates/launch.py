"""The decisions that every CSR template shares: how rows are cut into parts and handed to threads, how far to prefetch.

They are passed at run time, so that one library serves many schedules.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from ..ops import Problem
from .space import Decision, Decisions, Value

# Below about this many multiply-adds one thread is done before a second has woken up.
SERIAL_BELOW = 100_000


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


def serial_or_balanced(threads: int, multiply_adds: int) -> Decisions:
    """The part decisions of a default schedule."""
    serial = threads == 1 or multiply_adds < SERIAL_BELOW
    return {"parts": 1 if serial else 8 * threads, "dynamic": not serial}


def code_decisions(choice: Mapping[str, Value]) -> Decisions:
    """What of a schedule shapes the code: of the prefetch distance only whether there is one, of the parts nothing."""
    code = {name: value for name, value in choice.items() if name not in ("parts", "dynamic")}
    return {**code, "prefetch": bool(choice["prefetch"])}


def launch_parameters(choice: Mapping[str, Value], threads: int) -> dict[str, int]:
    """What of a schedule is passed at run time: parts, tasks handed out to the threads, prefetch distance."""
    parts = int(choice["parts"])
    return {
        "parts": parts,
        "tasks": parts if choice["dynamic"] else min(parts, threads),
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
