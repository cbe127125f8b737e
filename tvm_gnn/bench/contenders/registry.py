"""All contenders by name; a new one is a file beside this and a line here."""

from __future__ import annotations

from ...errors import InputError
from . import (
    dgl_ops,
    graphblas_mxm,
    handwritten,
    mkl_ie,
    numba_csr,
    pyg,
    scipy_csr,
    torch_csr,
    torch_edges,
    torch_other,
)
from .contender import Contender

CONTENDERS: dict[str, Contender] = {
    contender.name: contender
    for contender in (
        *torch_csr.CONTENDERS,
        *torch_other.CONTENDERS,
        *torch_edges.CONTENDERS,
        *pyg.CONTENDERS,
        scipy_csr.CONTENDER,
        dgl_ops.CONTENDER,
        mkl_ie.CONTENDER,
        handwritten.CONTENDER,
        numba_csr.CONTENDER,
        graphblas_mxm.CONTENDER,
    )
}


def select(words: str) -> list[Contender]:
    """The contenders that a comma-separated list names, each once, in the registry's order.

    A word is a contender (``torch_int32_out``), the first part of several names (``torch``, ``mkl``), a group
    (``default``, ``strongest``) or ``all``.

    Raises
    ------
    InputError
        A word that names nothing, or no word at all.
    """
    wanted: set[str] = set()
    for word in (part.strip() for part in words.split(",")):
        found = {contender.name for contender in CONTENDERS.values() if _matches(contender, word)}
        if not found:
            known = ", ".join(["all", "default", "strongest", *CONTENDERS])
            raise InputError(f"against: must name contenders (got {word!r}). Choose from {known}.")
        wanted |= found
    return [contender for contender in CONTENDERS.values() if contender.name in wanted]


def _matches(contender: Contender, word: str) -> bool:
    return word in ("all", contender.group, contender.name) or (word != "" and contender.name.startswith(f"{word}_"))
