"""What a contender is: a named way to compute a case with somebody else's kernel."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from typing import Literal

from ..case import Case
from ..entrant import Array, Bind, Entrant, Kernel

Group = Literal["default", "strongest"]

# Products of a sparse and a dense matrix, which every library has.
MATRIX_OPS = frozenset({"copy_u_sum", "copy_u_mean", "u_mul_e_sum", "u_mul_e_mean"})
# The same with any reduce, which fewer have.
REDUCED_OPS = MATRIX_OPS | {"copy_u_max", "copy_u_min", "u_mul_e_max", "u_mul_e_min"}


@dataclass(frozen=True)
class Contender:
    """One peer. Making one imports nothing; its library is loaded by `missing` or `prepare`.

    Attributes
    ----------
    name : str
    group : {"default", "strongest"}
        What users run today, or what an expert could reach.
    build : callable
        ``build(case, threads)`` does all work that is done once per graph (conversion, analysis, compilation), sets
        the library's thread count, and returns the kernel.
    missing : callable
        One line that says why it cannot run here, or None.
    describe : callable
        Version and, where it can be known, the code path that ran; to be asked after a run.
    takes, bind
        As in `Entrant`.
    ops : frozenset of str
        Names of the operators it computes.
    """

    name: str
    group: Group
    build: Callable[[Case, int], Kernel]
    missing: Callable[[], str | None]
    describe: Callable[[], str]
    takes: Array = "numpy"
    bind: Bind = partial
    ops: frozenset[str] = MATRIX_OPS

    def prepare(self, case: Case, threads: int) -> Entrant:
        """The kernel of this case, ready to run."""
        return Entrant(self.name, self.build(case, threads), self.takes, self.bind)


def needs(*modules: str) -> Callable[[], str | None]:
    """A `missing` that looks for top-level modules without importing them."""

    def missing() -> str | None:
        absent = [name for name in modules if find_spec(name) is None]
        if not absent:
            return None
        return f"{' and '.join(absent)} {'is' if len(absent) == 1 else 'are'} not installed"

    return missing
