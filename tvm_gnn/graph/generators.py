"""Seeded synthetic graphs, by the text `<kind>:key=value,…`: R-MAT, uniform, power law, grid, star, path, batch.

A new kind is one function here, registered by its decorator; its keyword defaults are its keys, and say their types.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import DatasetError
from .graph import Graph

Ids = NDArray[np.int64]
KINDS: dict[str, Callable[..., Graph]] = {}
# More nodes or edges than this would not fit where anything here runs; refused before memory is asked for.
MAX_SIZE = 1 << 31


def _kind(build: Callable[..., Graph]) -> Callable[..., Graph]:
    KINDS[build.__name__] = build
    return build


def generate(text: str) -> Graph:
    """The graph of ``<kind>`` or ``<kind>:key=value,…``; the same text always gives the same graph.

    Raises
    ------
    DatasetError
        Unknown kind or key, or a value that does not parse or is out of range; the text lists the choices.

    Examples
    --------
    >>> generate("grid:rows=2,cols=3").num_edges
    14
    """
    kind, _, settings = text.partition(":")
    if kind not in KINDS:
        raise DatasetError(f"synthetic kind: must be one of {', '.join(sorted(KINDS))} (got {kind!r}).")
    graph = KINDS[kind](**_parse(kind, settings))
    graph.name = f"synthetic:{text}"
    return graph


def _parse(kind: str, settings: str) -> dict[str, Any]:
    defaults = {name: parameter.default for name, parameter in inspect.signature(KINDS[kind]).parameters.items()}
    choices = ", ".join(f"{name}={default}" for name, default in defaults.items())
    values: dict[str, Any] = {}
    for item in filter(None, settings.split(",")):
        key, equals, value = (part.strip() for part in item.partition("="))
        if key not in defaults or not equals:
            raise DatasetError(f"synthetic:{kind}: takes key=value of {choices} (got {item!r}).")
        if key in values:
            raise DatasetError(f"synthetic:{kind}: {key} must be given once (got {settings!r}).")
        values[key] = _number(kind, key, value, defaults[key])
    return values


def _number(kind: str, key: str, text: str, default: int | float) -> int | float:
    lowest = 0 if key == "seed" or isinstance(default, float) else 1
    try:
        value = type(default)(text)
    except ValueError:
        value = None
    if value is None or not lowest <= value <= MAX_SIZE:
        rule = f"a number in [0, {MAX_SIZE}]" if isinstance(default, float) else f"an integer in [{lowest}, {MAX_SIZE}]"
        raise DatasetError(f"synthetic:{kind}: {key} must be {rule} (got {text!r}).")
    return value


def _check(kind: str, holds: bool, rule: str) -> None:
    if not holds:
        raise DatasetError(f"synthetic:{kind}: {rule}. Give smaller or fitting values.")


def _simple(src: Ids, dst: Ids, num_nodes: int) -> Graph:
    """Without self loops and repeated edges, as most measured graphs are."""
    keys = np.unique((dst * num_nodes + src)[src != dst])
    return Graph.from_coo(keys % num_nodes, keys // num_nodes, num_src=num_nodes, num_dst=num_nodes)


def _both_ways(a: Ids, b: Ids, num_nodes: int) -> Graph:
    return _simple(np.concatenate([a, b]), np.concatenate([b, a]), num_nodes)


@_kind
def rmat(
    scale: int = 14, edge_factor: int = 16, a: float = 0.57, b: float = 0.19, c: float = 0.19, seed: int = 0
) -> Graph:
    """Directed R-MAT graph (Chakrabarti et al. 2004) of 2**scale nodes, labels shuffled as in Graph500.

    edge_factor · 2**scale edges are drawn; repeated ones and self loops are dropped.
    """
    _check("rmat", scale < 31 and edge_factor << scale <= MAX_SIZE, f"edge_factor * 2**scale must be <= {MAX_SIZE}")
    _check("rmat", a + b + c <= 1, f"a + b + c must be at most 1 (got {a + b + c:g})")
    rng = np.random.default_rng(seed)
    num_nodes, num_edges = 1 << scale, edge_factor << scale
    src, dst = np.zeros(num_edges, np.int64), np.zeros(num_edges, np.int64)
    for _ in range(scale):
        quadrant = np.searchsorted([a, a + b, a + b + c], rng.random(num_edges), side="right")
        src = 2 * src + quadrant // 2
        dst = 2 * dst + quadrant % 2
    labels = rng.permutation(num_nodes)
    return _simple(labels[src], labels[dst], num_nodes)


@_kind
def uniform(n: int = 10_000, degree: int = 16, seed: int = 0) -> Graph:
    """Directed graph of n · degree edges with ends drawn uniformly; repeated ones and self loops are dropped."""
    _check("uniform", n * degree <= MAX_SIZE, f"n * degree must be <= {MAX_SIZE} (got {n * degree})")
    ends = np.random.default_rng(seed).integers(0, n, size=(2, n * degree))
    return _simple(ends[0], ends[1], n)


@_kind
def powerlaw(n: int = 10_000, degree: int = 16, exponent: float = 2.2, seed: int = 0) -> Graph:
    """Undirected Chung-Lu graph whose degrees fall as a power law; hubs are at random ids.

    About n · degree directed edges, fewer where a hub would need repeated ones.
    """
    _check("powerlaw", n * degree <= MAX_SIZE, f"n * degree must be <= {MAX_SIZE} (got {n * degree})")
    _check("powerlaw", exponent > 1, f"exponent must be above 1 (got {exponent:g})")
    rng = np.random.default_rng(seed)
    share = np.cumsum((np.arange(n) + 1.0) ** (-1 / (exponent - 1)))
    ends = np.searchsorted(share / share[-1], rng.random((2, n * degree // 2)), side="right")
    labels = rng.permutation(n)
    return _both_ways(labels[ends[0]], labels[ends[1]], n)


@_kind
def grid(rows: int = 100, cols: int = 100) -> Graph:
    """Undirected rows x cols mesh; every node is joined to its up to four neighbours."""
    _check("grid", rows * cols <= MAX_SIZE // 4, f"rows * cols must be <= {MAX_SIZE // 4} (got {rows * cols})")
    ids = np.arange(rows * cols, dtype=np.int64).reshape(rows, cols)
    right, down = (ids[:, :-1].ravel(), ids[:, 1:].ravel()), (ids[:-1].ravel(), ids[1:].ravel())
    return _both_ways(np.concatenate([right[0], down[0]]), np.concatenate([right[1], down[1]]), rows * cols)


@_kind
def star(n: int = 1000) -> Graph:
    """Undirected star: node 0 is joined to each of the n - 1 others."""
    leaves = np.arange(1, n, dtype=np.int64)
    return _both_ways(np.zeros_like(leaves), leaves, n)


@_kind
def path(n: int = 1000) -> Graph:
    """Undirected path 0 - 1 - … - n-1."""
    ids = np.arange(n, dtype=np.int64)
    return _both_ways(ids[:-1], ids[1:], n)


@_kind
def batch(graphs: int = 100, n: int = 20, rings: int = 2, seed: int = 0) -> Graph:
    """Block-diagonal batch of molecule-like graphs: random chains of about n atoms with side branches and rings.

    A graph has between n/2 and 3n/2 nodes; each node hangs on one of the three before it, and `rings` further pairs
    within six ids of each other are joined.
    """
    _check("batch", graphs * (n + rings) <= MAX_SIZE // 4, f"graphs * (n + rings) must be <= {MAX_SIZE // 4}")
    rng = np.random.default_rng(seed)
    sizes = rng.integers(max(1, n // 2), n + n // 2 + 1, size=graphs)
    first = np.cumsum(sizes) - sizes
    place = np.arange(sizes.sum()) - np.repeat(first, sizes)
    atoms = np.flatnonzero(place > 0)
    parents = atoms - np.minimum(rng.integers(1, 4, size=atoms.size), place[atoms])
    start = rng.integers(0, np.repeat(sizes, rings))
    end = np.minimum(start + rng.integers(3, 7, size=start.size), np.repeat(sizes, rings) - 1)
    offset = np.repeat(first, rings)
    return _both_ways(
        np.concatenate([atoms, start + offset]), np.concatenate([parents, end + offset]), int(sizes.sum())
    )
