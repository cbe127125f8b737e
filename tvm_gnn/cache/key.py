"""The key of a tuned kernel: named parts, each of which can be compared and explained on its own."""

from __future__ import annotations

import reprlib
from collections.abc import Mapping
from dataclasses import dataclass, field

import xxhash

from ..errors import InputError
from .fields import dump, nonempty_text

KEY_PARTS = {
    "op": "the operator's name",
    "feat": "feature dims",
    "edge_feat": "shape of the edge values, none where none are read",
    "dtype": "dtype of the features",
    "index": "index width",
    "edge_order": "order of the edge values: csr or edge_ids",
    "target": "kind of the target, such as llvm",
    "cpu": "digest of the CPU's features",
    "threads": "threads the kernel was tuned for",
    "template": "digest of the template's source",
    "toolchain": "versions of TVM and its ffi",
}


@dataclass(frozen=True, eq=False)
class TaskKey:
    """What a tuned kernel depends on besides the graph, as named string parts.

    Equality and the digest ignore the order of the parts. A part that is not in `KEY_PARTS` counts as any other.

    Parameters
    ----------
    parts : mapping of str to str
        At least one; usually all of `KEY_PARTS`.

    Attributes
    ----------
    digest : str
        32 hex digits, XXH3-128 of the parts in canonical JSON; the same in every process and on every machine.

    Raises
    ------
    InputError
        There is no part, or a name or a value is not a non-empty string.

    Examples
    --------
    >>> here, there = TaskKey({"op": "copy_u_sum", "cpu": "a"}), TaskKey({"cpu": "b", "op": "copy_u_sum"})
    >>> here.difference(there)
    {'cpu': ('a', 'b')}
    """

    parts: Mapping[str, str]
    digest: str = field(init=False)

    def __post_init__(self) -> None:
        if not isinstance(self.parts, Mapping) or not self.parts:
            raise InputError(f"key: must be a dict of at least one named part (got {reprlib.repr(self.parts)}).")
        parts = {
            nonempty_text(name, "key part's name", InputError): nonempty_text(
                value, f"key part {reprlib.repr(name)}", InputError
            )
            for name, value in self.parts.items()
        }
        object.__setattr__(self, "parts", parts)
        object.__setattr__(self, "digest", xxhash.xxh3_128_hexdigest(dump(parts, "key", InputError)))

    def __eq__(self, other: object) -> bool:
        return self.parts == other.parts if isinstance(other, TaskKey) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.digest)

    def as_dict(self) -> dict[str, str]:
        """The parts, in the order given; a copy."""
        return dict(self.parts)

    @classmethod
    def from_dict(cls, parts: Mapping[str, str]) -> TaskKey:
        """The inverse of `as_dict`; raises `InputError` as the constructor does."""
        return cls(parts)

    def difference(self, other: TaskKey) -> dict[str, tuple[str | None, str | None]]:
        """The parts that differ, as name → (mine, theirs); None stands for a part that one side lacks."""
        names = [*self.parts, *(name for name in other.parts if name not in self.parts)]
        pairs = {name: (self.parts.get(name), other.parts.get(name)) for name in names}
        return {name: (mine, theirs) for name, (mine, theirs) in pairs.items() if mine != theirs}
