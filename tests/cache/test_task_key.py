"""The task key: what changes its digest, what does not, and what it refuses."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from tvm_gnn.cache import KEY_PARTS, TaskKey
from tvm_gnn.errors import InputError


@pytest.mark.parametrize("name", KEY_PARTS)
def test_every_part_changes_the_digest(key: TaskKey, name: str) -> None:
    other = TaskKey({**key.as_dict(), name: "another"})
    assert other.digest != key.digest
    assert other != key
    assert key.difference(other) == {name: (key.parts[name], "another")}


def test_order_of_parts_does_not_matter(key: TaskKey) -> None:
    turned = TaskKey(dict(reversed(key.as_dict().items())))
    assert (turned, turned.digest, hash(turned)) == (key, key.digest, hash(key))
    assert list(turned.as_dict()) == list(reversed(key.as_dict()))


def test_an_unknown_part_changes_the_digest_and_is_told(key: TaskKey) -> None:
    more = TaskKey({**key.as_dict(), "driver": "555"})
    assert more.digest != key.digest
    assert key.difference(more) == {"driver": (None, "555")}
    assert more.difference(key) == {"driver": ("555", None)}


def test_a_name_and_a_value_cannot_be_shifted_into_each_other() -> None:
    assert TaskKey({"a": "b,c"}).digest != TaskKey({"a,b": "c"}).digest


def test_digest_is_the_same_in_every_version() -> None:
    # Changing how keys are digested makes every store and log a miss.
    assert TaskKey({"op": "copy_u_sum", "feat": "64"}).digest == "d0aa9dc6506b5312ae037de76106144c"


def test_round_trip_and_copies(key: TaskKey) -> None:
    assert TaskKey.from_dict(key.as_dict()) == key
    assert copy.deepcopy(key) == key


def test_the_caller_cannot_change_a_key() -> None:
    parts = {"op": "copy_u_sum"}
    key = TaskKey(parts)
    parts["op"] = "other"
    key.as_dict()["op"] = "other"
    assert key.parts == {"op": "copy_u_sum"}
    with pytest.raises(AttributeError):
        key.digest = "0"  # type: ignore[misc]


@pytest.mark.parametrize(
    "parts", [{}, {"op": ""}, {"op": 3}, {"op": None}, {"": "x"}, {3: "x"}, {"op": "\ud800"}, "op", 5]
)
def test_a_part_must_be_a_non_empty_string(parts: Any) -> None:
    with pytest.raises(InputError, match="must be"):
        TaskKey(parts)
