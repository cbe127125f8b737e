"""An operator unlike g-SpMM, with operands of every other kind, for tests of what serves all operators."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from ..ops import Operator
from ..ops.dims import RowShape
from ..ops.operand import Dims, Operand, Structure
from ..ops.operator import Float64


class ScaledEdges(Operator):
    """z[e] = factor * s[e], and the in-degree of every destination.

    Shapes
    ------
    factor : (1,)
    s, z : (num_edges, *edge_feat), by default one number each; in the caller's edge order
    degree : (num_dst,) of the graph's index dtype
    """

    primitive: ClassVar[str] = "scaled_edges"

    @property
    def name(self) -> str:
        """Of no registry."""
        return "scaled_edges"

    def dims(self, feat: RowShape, edge_feat: RowShape | None) -> Dims:
        """See `Operator`."""
        return Dims(feat, () if edge_feat is None else edge_feat)

    def inputs(self, dims: Dims) -> tuple[Operand, ...]:
        """``factor``, ``s``."""
        return Operand("factor", "once", (1,)), Operand("s", "edge", dims.edge_feat)

    def outputs(self, dims: Dims) -> tuple[Operand, ...]:
        """``z``, ``degree``."""
        return Operand("z", "edge", dims.edge_feat, like="s"), Operand("degree", "dst", (), is_index=True)

    def flops(self, dims: Dims, num_dst: int, num_edges: int) -> int:
        """One product per number of an edge."""
        return num_edges * self.inputs(dims)[1].width

    def reference(self, dims: Dims, graph: Structure, *inputs: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], ...]:
        """See `Operator`."""
        factor, s = (np.asarray(array, np.float64) for array in inputs)
        return factor * s, np.diff(graph.indptr)[:, None].astype(np.int64)

    def error_scale(self, dims: Dims, graph: Structure, *inputs: npt.NDArray[Any]) -> tuple[Float64, ...]:
        """See `Operator`; one rounding of each product, none of a degree."""
        z, degree = self.reference(dims, graph, *inputs)
        return np.abs(z), np.zeros(degree.shape)
