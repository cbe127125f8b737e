"""How long a tuning run may go on: seconds, trials, or whichever ends first."""

from __future__ import annotations

import math
import re
import time
from dataclasses import dataclass, field

from ..arguments import integer
from ..errors import InputError, InputTypeError

_UNITS_S = {"ms": 1e-3, "s": 1.0, "": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}


@dataclass(frozen=True)
class Budget:
    """A limit that starts to run when it is made.

    Attributes
    ----------
    seconds : float or None
        Wall-clock time for everything: start-up, search and the final comparison.
    trials : int or None
        Finished trials of this task, those that earlier runs recorded included.
    """

    seconds: float | None
    trials: int | None
    _start: float = field(default_factory=time.monotonic, repr=False)

    def elapsed_s(self) -> float:
        """Seconds since the budget was made."""
        return time.monotonic() - self._start

    def left_s(self) -> float:
        """Seconds left, infinite without a time limit."""
        return math.inf if self.seconds is None else self.seconds - self.elapsed_s()

    def trials_left(self, finished: int) -> int:
        """Trials left after `finished`; very many without a limit."""
        return 1 << 30 if self.trials is None else max(0, self.trials - finished)


def parse_budget(budget: str | float | None, trials: int | None = None) -> Budget:
    """A budget from ``"60s"``, ``"2m"``, ``"500ms"``, ``"1h"`` or a number of seconds, and a number of trials.

    Examples
    --------
    >>> parse_budget("2m").seconds
    120.0

    Raises
    ------
    InputError, InputTypeError
        Neither is given, or one is not positive.
    """
    if budget is None and trials is None:
        raise InputError("budget: give a time such as 60s, or trials (got neither).")
    if trials is not None:
        trials = integer("trials", trials)
        if trials < 1:
            raise InputError(f"trials: must be at least 1 (got {trials}).")
    return Budget(None if budget is None else _seconds(budget), trials)


def _seconds(budget: str | float) -> float:
    if isinstance(budget, bool) or not isinstance(budget, str | int | float):
        raise InputTypeError(f"budget: must be a time such as 60s or a number (got {type(budget).__name__}).")
    try:
        seconds = _parsed(budget) if isinstance(budget, str) else float(budget)
    except OverflowError:
        seconds = math.inf
    if not 0 < seconds < math.inf:
        raise InputError(f"budget: must be positive (got {budget!r}).")
    return seconds


def _parsed(text: str) -> float:
    match = re.fullmatch(r"\s*([0-9]*\.?[0-9]+)\s*([a-z]*)\s*", text)
    if match is None or match[2] not in _UNITS_S:
        raise InputError(f"budget: must be a positive time such as 60s, 2m or 500ms (got {text!r}).")
    return float(match[1]) * _UNITS_S[match[2]]
