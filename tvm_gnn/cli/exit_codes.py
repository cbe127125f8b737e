"""What the exit codes mean."""

from __future__ import annotations

GOOD, NEGATIVE, USAGE, MISSING = 0, 1, 2, 3
INTERRUPTED = 130  # as a shell says of a process that Ctrl-C ended
MEANING = (
    "exit codes: 0 good, 1 a negative finding, 2 wrong usage or bad input, 3 a missing dependency, 130 interrupted"
)
