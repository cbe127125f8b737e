"""Addresses of numpy arrays agree with numpy's own answer, whichever way they are found."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tvm_gnn.runtime import addresses

WHOLE = np.arange(24, dtype=np.float32).reshape(4, 6)
READ_ONLY = WHOLE.copy()
READ_ONLY.flags.writeable = False
ARRAYS = {
    "whole": WHOLE,
    "view": WHOLE[1:, 2:],
    "negative strides": WHOLE[::-1, ::-1],
    "read-only": READ_ONLY,
    "empty": WHOLE[:0],
    "scalar": np.zeros(()),
    "misaligned": np.frombuffer(bytes(9), np.float32, 2, 1),
    "subclass": WHOLE.view(np.recarray),
}


@pytest.mark.parametrize("array", ARRAYS.values(), ids=ARRAYS)
@pytest.mark.parametrize("way", [addresses.address_of, addresses._from_struct, addresses._from_interface])
def test_same_as_numpys(array: Any, way: Any) -> None:
    assert way(array) == array.ctypes.data


def test_another_interpreter_asks_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(addresses.sys.implementation, "name", "other")
    assert not addresses._is_readable()
