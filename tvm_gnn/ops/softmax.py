"""Edge softmax: the softmax of edge values over the in-edges of each destination, and its float64 reference."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from ..errors import InputError
from .dims import RowShape, edge_shape, width
from .operand import Dims, Operand, Structure
from .operator import Float64, Operator
from .reference import row_chunks
from .tolerance import rounding_scale


@dataclass(frozen=True)
class EdgeSoftmax(Operator):
    """weights[e] = exp(logits[e] - max) / sum of the same over the in-edges of the destination of e, per head.

    The kernel takes ``(logits)``.

    Shapes
    ------
    logits : (num_edges, H), in the caller's edge order; (num_edges,) or (num_edges, 1) for one head
    weights : as `logits`. A row of equal values gets equal shares however large they are, one of nothing but -inf gets
        zeros, and a NaN or +inf makes its row's head NaN.
    """

    primitive: ClassVar[str] = "edge_softmax"

    @property
    def name(self) -> str:
        """``edge_softmax``."""
        return "edge_softmax"

    def dims(self, feat: RowShape, edge_feat: RowShape | None) -> Dims:
        """See `Operator`; `feat` is the shape of an edge's logits."""
        if edge_feat is not None and edge_shape(edge_feat, feat) != feat:
            raise InputError(f"edge_feat: must be feat for {self.name} (got {edge_feat} and {feat}).")
        return Dims(feat, feat)

    def inputs(self, dims: Dims) -> tuple[Operand, ...]:
        """``logits``."""
        return (Operand("logits", "edge", dims.feat),)

    def outputs(self, dims: Dims) -> tuple[Operand, ...]:
        """``weights``."""
        return (Operand("weights", "edge", dims.feat, like="logits"),)

    def flops(self, dims: Dims, num_dst: int, num_edges: int) -> int:
        """Per edge and head a comparison, a difference, an exponential, a sum and a product; per row a division."""
        return width(dims.feat) * (5 * num_edges + num_dst)

    def reference(self, dims: Dims, graph: Structure, *inputs: npt.NDArray[Any]) -> tuple[Float64, ...]:
        """See `Operator`."""
        return (self._by_rows(graph, inputs[0])[0],)

    def error_scale(self, dims: Dims, graph: Structure, *inputs: npt.NDArray[Any]) -> tuple[Float64, ...]:
        """See `Operator`."""
        return (self._by_rows(graph, inputs[0])[1],)

    def probe(self, operand: Operand, rows: int, rng: np.random.Generator) -> Float64:
        """See `Operator`; normal values."""
        return rng.standard_normal((rows, operand.width))

    def _by_rows(self, graph: Structure, logits: npt.NDArray[Any]) -> tuple[Float64, Float64]:
        """The weights and the error to allow."""
        weights, scale = np.zeros(logits.shape), np.zeros(logits.shape)
        for rows in row_chunks(graph.indptr, logits.shape[1]):
            edges = slice(graph.indptr[rows.start], graph.indptr[rows.stop])
            ids = edges if graph.edge_ids is None else graph.edge_ids[edges]
            bounds = graph.indptr[rows.start : rows.stop + 1] - graph.indptr[rows.start]
            softmax = RowSoftmax(np.asarray(logits[ids], np.float64), bounds)
            weights[ids], scale[ids] = softmax.weights, softmax.error_scale()
        return weights, scale


class RowSoftmax:
    """Softmax of the scores of some rows' edges, in float64.

    Parameters
    ----------
    scores : array of shape (edges, H), in CSR order
    bounds : array of shape (rows + 1,)
        Where each row's edges start; the last is their number.

    Attributes
    ----------
    weights : array of shape (edges, H)
    """

    def __init__(self, scores: Float64, bounds: npt.NDArray[Any]) -> None:
        degrees = np.diff(bounds)
        self._degrees, self._starts = degrees[degrees > 0], bounds[:-1][degrees > 0]
        with np.errstate(invalid="ignore"):  # inf and NaN are data here
            top = self._of_edges(self._reduced(np.maximum, scores))
            # Of a row of nothing but -inf no share is above another: all are zero.
            self._below = scores - np.where(np.isneginf(top), 0.0, top)
            exponentials = np.exp(self._below)
            total = self._of_edges(self._reduced(np.add, exponentials))
            self.weights = exponentials / np.where(total == 0, 1.0, total)

    def error_scale(self, score_error: Float64 | None = None) -> Float64:
        """Rounding error to allow for each weight, in units of eps; `score_error` is that of each score."""
        return rounding_scale(self.weights, self._edge_terms()) + self.weights * self.relative_error(score_error)

    def relative_error(self, score_error: Float64 | None = None) -> Float64:
        """What the scores' own rounding errors, and that of their distance to the largest, do to a weight.

        exp turns an absolute error into a relative one; the sum that a weight is divided by has the mean of those of
        its terms.
        """
        own = np.abs(self._below) + (0.0 if score_error is None else score_error)
        own = np.where(self.weights == 0, 0.0, own)
        with np.errstate(invalid="ignore"):
            mean = self._reduced(np.add, self.weights * own)
            return own + self._of_edges(mean)

    def _edge_terms(self) -> npt.NDArray[Any]:
        return np.repeat(self._degrees, self._degrees)

    def _reduced(self, ufunc: np.ufunc, values: Float64) -> Float64:
        reduced: Float64 = ufunc.reduceat(values, self._starts, axis=0) if len(values) else values
        return reduced

    def _of_edges(self, of_rows: Float64) -> Float64:
        return np.repeat(of_rows, self._degrees, axis=0)


def edge_softmax() -> EdgeSoftmax:
    """The edge softmax operator.

    Examples
    --------
    >>> edge_softmax().name
    'edge_softmax'
    """
    return EdgeSoftmax()
