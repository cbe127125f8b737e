"""Zachary's karate club (J. Anthropological Research 33, 1977; public domain): 34 nodes, 78 undirected edges."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_LARGER_NEIGHBOURS: dict[int, tuple[int, ...]] = {
    0: (1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 12, 13, 17, 19, 21, 31),
    1: (2, 3, 7, 13, 17, 19, 21, 30),
    2: (3, 7, 8, 9, 13, 27, 28, 32),
    3: (7, 12, 13),
    4: (6, 10),
    5: (6, 10, 16),
    6: (16,),
    8: (30, 32, 33),
    9: (33,),
    13: (33,),
    14: (32, 33),
    15: (32, 33),
    18: (32, 33),
    19: (33,),
    20: (32, 33),
    22: (32, 33),
    23: (25, 27, 29, 32, 33),
    24: (25, 27, 31),
    25: (31,),
    26: (29, 33),
    27: (33,),
    28: (31, 33),
    29: (32, 33),
    30: (32, 33),
    31: (32, 33),
    32: (33,),
}


def karate_edges() -> NDArray[np.int64]:
    """Both directions of every edge, shape (2, 156)."""
    edges = np.array([(u, v) for u, larger in _LARGER_NEIGHBOURS.items() for v in larger]).T
    return np.concatenate([edges, edges[::-1]], axis=1)
