"""Graphs by name, path or `synthetic:` text."""

from __future__ import annotations

import difflib
import os
from pathlib import Path

from .. import config
from ..errors import DatasetError, InputTypeError
from .generators import KINDS, generate
from .graph import Graph
from .karate import karate_edges
from .readers import in_csr_order, is_readable, read, stem

_SYNTHETIC = "synthetic:"


def names() -> list[str]:
    """Names `load` takes: ``karate``, and every ``<name>.npz`` in the folders of `config.current().data_dirs`."""
    return sorted({"karate", *_files()})


def load(name_or_path: str | os.PathLike[str]) -> Graph:
    """A dataset's graph.

    The edge order is that of the file's entries for edge lists, Matrix Market and scipy's archives, so that edge values
    listed beside them fit. Graphs without such a list (``karate``, synthetic ones, archives whose rows are sources) are
    in CSR order: their `edge_ids` is None.

    Parameters
    ----------
    name_or_path : str or path
        A name of `names`; a path to ``.npz``, ``.mtx`` or an edge list ``.txt/.tsv/.csv/.edges/.el`` (the last two
        kinds also ``.gz``); or ``synthetic:<kind>:key=value,…``. A file whose name is also a dataset's is reached
        by a path with a folder in it.

    Raises
    ------
    DatasetError
        Unknown name, kind or key; a file that is missing, damaged or no graph.

    Examples
    --------
    >>> load("karate")
    Graph('karate', num_dst=34, num_src=34, num_edges=156, int32, order=CSR)
    """
    if not isinstance(name_or_path, (str, os.PathLike)):
        raise InputTypeError(f"dataset: must be a name or a path (got {type(name_or_path).__name__}).")
    text = os.fspath(name_or_path)
    if not isinstance(text, str) or "\0" in text:
        raise DatasetError(f"dataset: must be a name or a path of text (got {text!r}).")
    if text.startswith(_SYNTHETIC):
        return _named(in_csr_order(generate(text.removeprefix(_SYNTHETIC))), text)
    if text == "karate":
        return _named(in_csr_order(Graph.from_edge_index(karate_edges(), 34)), text)
    files = _files()
    if text in files:
        return _named(read(files[text]), text)
    path = config.expanded("dataset", text)
    try:
        is_path = len(path.parts) > 1 or is_readable(path) or path.exists()
    except OSError:  # too long to be a file's name
        is_path = False
    if is_path:
        return _named(read(path), stem(path))
    raise _unknown(text)


def _files() -> dict[str, Path]:
    """Data files by name; the first folder that has a name wins."""
    found: dict[str, Path] = {}
    for folder in config.current().data_dirs:
        try:
            paths = sorted(folder.glob("*.npz"))
        except OSError:  # unreadable; `doctor` says so
            continue
        for path in paths:
            found.setdefault(path.stem, path)
    return found


def _named(graph: Graph, name: str) -> Graph:
    graph.name = name
    return graph


def _unknown(name: str) -> DatasetError:
    known = [*names(), *(f"{_SYNTHETIC}{kind}" for kind in KINDS)]
    close = difflib.get_close_matches(name, known, n=3)
    hint = f" Did you mean {' or '.join(close)}?" if close else ""
    return DatasetError(
        f"dataset: no graph of this name (got {name!r}).{hint} Known are {len(known)} names from "
        f"tvm_gnn.graph.datasets.names() and {_SYNTHETIC}<kind>; set TVM_GNN_DATA to a folder of <name>.npz files, "
        "or give a path."
    )
