"""Graph attention: scores per edge and head, their softmax over a node's in-edges, the weighted sum of its sources."""

from __future__ import annotations

import math
import numbers
from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from ..errors import InputError, InputTypeError
from .dims import RowShape, width
from .operand import Dims, Operand, Structure
from .operator import Float64, Operator
from .options import options_text
from .reference import row_chunks
from .softmax import RowSoftmax
from .tolerance import rounding_scale


class Scores(NamedTuple):
    """Scores of some edges and the rounding error of each in units of eps, both of shape (edges, H)."""

    values: Float64
    error: Float64


@dataclass(frozen=True)
class Attention(Operator):
    """What `GAT` and `GATv2` share: all but the scores.

    y[v, h] = Σ over e = (u → v) of softmax(score[e, h]) z[u, h]; rows without an in-edge, and heads whose scores are
    all -inf, are 0. A NaN score makes its row's head NaN, a NaN feature reaches only its own column of the row.

    Attributes
    ----------
    negative_slope : float
        Of the leaky ReLU.
    attention : bool
        Whether calls also give the softmax itself, per edge (in the caller's edge order) and head.
    """

    negative_slope: float = 0.2
    attention: bool = False
    base_name: ClassVar[str]
    reduced: ClassVar[int | None] = 0

    def __post_init__(self) -> None:
        slope, attention = self.negative_slope, self.attention
        if isinstance(slope, bool) or not isinstance(slope, numbers.Real):
            raise InputTypeError(f"negative_slope: must be a number (got {slope!r} of type {type(slope).__name__}).")
        if not math.isfinite(slope):
            raise InputError(f"negative_slope: must be finite (got {slope!r}).")
        if not isinstance(attention, bool):
            raise InputTypeError(f"attention: must be True or False (got {attention!r}).")
        object.__setattr__(self, "negative_slope", float(slope))

    @property
    def name(self) -> str:
        """The base name and those options that are not the defaults, such as ``gat(negative_slope=0.1)``."""
        return self.base_name + options_text(self)

    def dims(self, feat: RowShape, edge_feat: RowShape | None) -> Dims:
        """See `Operator`; `feat` is (heads, width per head), or the width of one head."""
        if edge_feat is not None:
            raise InputError(f"edge_feat: {self.name} reads no edge values (got {edge_feat}).")
        if self.attention and width(feat) == 0:
            raise InputError(f"feat: must be at least 1 wide for {self.name} (got {feat}).")
        return Dims(feat, ())

    def outputs(self, dims: Dims) -> tuple[Operand, ...]:
        """``y``, and ``attention`` where it is asked for."""
        y = Operand("y", "dst", dims.feat)
        return (y, Operand("attention", "edge", (heads_of(dims)[0],))) if self.attention else (y,)

    def reference(self, dims: Dims, graph: Structure, *inputs: npt.NDArray[Any]) -> tuple[Float64, ...]:
        """See `Operator`."""
        return self._by_rows(dims, graph, inputs)[0]

    def error_scale(self, dims: Dims, graph: Structure, *inputs: npt.NDArray[Any]) -> tuple[Float64, ...]:
        """See `Operator`."""
        return self._by_rows(dims, graph, inputs)[1]

    def probe(self, operand: Operand, rows: int, rng: np.random.Generator) -> Float64:
        """See `Operator`; normal values."""
        return rng.standard_normal((rows, operand.width))

    @abstractmethod
    def scores(self, dims: Dims, u: npt.NDArray[Any], v: npt.NDArray[Any], inputs: tuple[Float64, ...]) -> Scores:
        """Of the edges from the nodes `u` to the nodes `v`; `inputs` are those of a call."""

    def leaky_relu(self, x: Float64) -> Float64:
        """x where it is positive, else x times the slope."""
        return np.where(x > 0, x, self.negative_slope * x)

    def _by_rows(
        self, dims: Dims, graph: Structure, inputs: tuple[npt.NDArray[Any], ...]
    ) -> tuple[tuple[Float64, ...], tuple[Float64, ...]]:
        """The outputs and the error to allow for each."""
        given = tuple(np.asarray(each, np.float64) for each in inputs)
        z = given[0].reshape(graph.num_src, *heads_of(dims))
        num_dst, heads = len(graph.indptr) - 1, z.shape[1]
        y, y_scale = np.zeros((num_dst, *z.shape[1:])), np.zeros((num_dst, *z.shape[1:]))
        attention, attention_scale = (np.zeros((len(graph.indices), heads)) for _ in range(2))
        with np.errstate(invalid="ignore", over="ignore"):  # inf and NaN are data here
            for rows, edges, bounds in _edges_by_rows(graph, width(dims.feat)):
                degrees = np.diff(bounds)
                u, v = graph.indices[edges], np.repeat(np.arange(rows.start, rows.stop), degrees)
                scores = self.scores(dims, u, v, given)
                softmax = RowSoftmax(scores.values, bounds)
                ids = edges if graph.edge_ids is None else graph.edge_ids[edges]
                attention[ids], attention_scale[ids] = softmax.weights, softmax.error_scale(scores.error)
                some, weights = degrees > 0, softmax.weights[..., None]
                at, starts = rows.start + np.flatnonzero(some), bounds[:-1][some]
                if len(at) == 0:
                    continue
                sizes = np.abs(weights * z[u])
                y[at] = np.add.reduceat(weights * z[u], starts, axis=0)
                terms = degrees[some][:, None]
                rounding = rounding_scale(np.add.reduceat(sizes, starts, axis=0), terms)
                relative = softmax.relative_error(scores.error)[..., None]
                y_scale[at] = rounding + np.add.reduceat(sizes * relative, starts, axis=0)
        flat = (num_dst, width(dims.feat))
        outputs, scales = (y.reshape(flat), attention), (y_scale.reshape(flat), attention_scale)
        return (outputs, scales) if self.attention else (outputs[:1], scales[:1])


@dataclass(frozen=True)
class GAT(Attention):
    """Graph attention (Veličković et al., 2018): score[e, h] = leaky_relu(score_src[u, h] + score_dst[v, h]).

    The kernel takes ``(z, score_src, score_dst)``; see `Attention` for what it gives. One pass over memory: nothing of
    the size of the edges is kept but the attention, where it is asked for.

    Shapes
    ------
    z : (num_src, H, D), or (num_src, F) for one head
    score_src, score_dst : (num_src, H), (num_dst, H); for one head also (num_src,), (num_dst,)
    y : (num_dst, H, D), or (num_dst, F)
    attention : (num_edges, H)
    """

    primitive: ClassVar[str] = "gat"
    base_name: ClassVar[str] = "gat"

    def inputs(self, dims: Dims) -> tuple[Operand, ...]:
        """``z``, ``score_src``, ``score_dst``."""
        heads = heads_of(dims)[:1]
        return (
            Operand("z", "src", dims.feat),
            Operand("score_src", "src", heads, ones_optional=True),
            Operand("score_dst", "dst", heads, ones_optional=True),
        )

    def flops(self, dims: Dims, num_dst: int, num_edges: int) -> int:
        """Per edge and head 8 for score and softmax, per edge and feature 2, per row a division and its products."""
        heads, total = heads_of(dims)[0], width(dims.feat)
        return num_edges * (8 * heads + 2 * total) + num_dst * (heads + total)

    def scores(self, dims: Dims, u: npt.NDArray[Any], v: npt.NDArray[Any], inputs: tuple[Float64, ...]) -> Scores:
        """See `Attention`."""
        _, score_src, score_dst = inputs
        values = self.leaky_relu(score_src[u] + score_dst[v])
        return Scores(values, np.abs(values))


@dataclass(frozen=True)
class GATv2(Attention):
    """Graph attention (Brody et al., 2022): score[e, h] = Σ_d attn[h, d] leaky_relu(z_src[u, h, d] + z_dst[v, h, d]).

    The kernel takes ``(z_src, z_dst, attn)``; see `Attention` for what it gives; z there is ``z_src``.

    Shapes
    ------
    z_src, z_dst : (num_src, H, D), (num_dst, H, D), or (num_src, F), (num_dst, F) for one head
    attn : (H, D), or (F,)
    y : (num_dst, H, D), or (num_dst, F)
    attention : (num_edges, H)
    """

    primitive: ClassVar[str] = "gatv2"
    base_name: ClassVar[str] = "gatv2"

    def inputs(self, dims: Dims) -> tuple[Operand, ...]:
        """``z_src``, ``z_dst``, ``attn``."""
        names: tuple[Any, ...] = (("z_src", "src"), ("z_dst", "dst"), ("attn", "once"))
        return tuple(Operand(name, rows, dims.feat) for name, rows in names)

    def flops(self, dims: Dims, num_dst: int, num_edges: int) -> int:
        """Per edge and head 5 for the softmax, per edge and feature 7, per row a division and its products."""
        heads, total = heads_of(dims)[0], width(dims.feat)
        return num_edges * (5 * heads + 7 * total) + num_dst * (heads + total)

    def scores(self, dims: Dims, u: npt.NDArray[Any], v: npt.NDArray[Any], inputs: tuple[Float64, ...]) -> Scores:
        """See `Attention`."""
        z_src, z_dst, attn = (each.reshape(-1, *heads_of(dims)) for each in inputs)
        terms = attn[0] * self.leaky_relu(z_src[u] + z_dst[v])
        sizes = np.abs(terms).sum(axis=-1)
        return Scores(terms.sum(axis=-1), rounding_scale(sizes, np.full(len(sizes), terms.shape[-1])))


def gat(negative_slope: float = 0.2, attention: bool = False) -> GAT:
    """The operator of a graph attention layer, with `attention` also giving the softmax of every edge.

    Examples
    --------
    >>> gat(0.1).name
    'gat(negative_slope=0.1)'

    Raises
    ------
    InputTypeError, InputError
        An option is of another type, or the slope is not finite.
    """
    return GAT(negative_slope, attention)


def gatv2(negative_slope: float = 0.2, attention: bool = False) -> GATv2:
    """The operator of a GATv2 layer; options and errors as those of `gat`.

    Examples
    --------
    >>> gatv2(attention=True).name
    'gatv2(attention=True)'
    """
    return GATv2(negative_slope, attention)


def heads_of(dims: Dims) -> tuple[int, int]:
    """(heads, width per head)."""
    return (1, *dims.feat) if len(dims.feat) == 1 else dims.feat  # type: ignore[return-value]


def _edges_by_rows(graph: Structure, feat: int) -> Iterator[tuple[slice, slice, npt.NDArray[Any]]]:
    """Ranges of rows, their edges, and where in these each row starts."""
    for rows in row_chunks(graph.indptr, feat):
        bounds = graph.indptr[rows.start : rows.stop + 1].astype(np.int64)
        yield rows, slice(int(bounds[0]), int(bounds[-1])), bounds - bounds[0]
