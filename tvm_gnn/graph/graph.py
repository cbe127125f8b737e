"""The graph every kernel runs on: canonical CSR by destination, with the way back to the caller's edge order."""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from ..arguments import integer, printable
from ..errors import GraphError, InputError, InputTypeError
from . import frameworks, sparse_matrices
from .canonical import csr_from_coo, csr_from_rows, transpose
from .edge_order import gather_edges, inverse_order
from .signature import Signature, bucket_of, exact_digest
from .sliced import SlicedCsr, sliced_by_source
from .stats import GraphStats, compute_stats
from .validate import (
    IntArray,
    check_count,
    check_ids,
    check_indptr,
    check_same_length,
    index_dtype_for,
    inferred_count,
    integer_array,
)

if TYPE_CHECKING:
    from .batch import Batch

_MOST_PARTS = 1 << 24


class Graph:
    """A directed multigraph u → v as CSR: row v lists the sources u of the in-edges of v.

    Made by the ``from_*`` constructors, which validate once and copy: a graph never shares memory with the arrays it
    was made from, and its own arrays are read-only. Editing the caller's arrays afterwards changes nothing here, so
    no answer cached for a graph can go stale; a changed graph is a new `Graph`.

    Rectangular graphs, isolated nodes, trailing empty rows, self loops and parallel edges are legal. Nothing is
    coalesced, symmetrised or given loops.

    Attributes
    ----------
    num_dst, num_src, num_edges : int
        Rows, columns and entries of the adjacency; parallel edges count each.
    indptr : (num_dst + 1,) int32 or int64
        Row v holds the positions ``indptr[v]`` up to ``indptr[v + 1]``.
    indices : (num_edges,) same dtype
        Sources, ascending within a row; parallel edges keep the caller's order. int32 when num_edges, num_src and
        num_dst all fit in it, whatever dtype the caller gave.
    edge_ids : (num_edges,) same dtype, or None
        Position p holds the caller's edge ``edge_ids[p]``; None when the caller's order is CSR order already.
    name : str or None
        Name of the dataset the graph was loaded from.
    num_relations : int or None
        Of a graph that `from_relations` made, how often its sources repeat the nodes; None for others.

    Examples
    --------
    >>> graph = Graph.from_edge_index([[2, 1, 3], [0, 0, 1]])
    >>> graph.indptr.tolist(), graph.indices.tolist(), graph.edge_ids.tolist()
    ([0, 2, 3, 3, 3], [1, 2, 3], [1, 0, 2])
    """

    num_dst: int
    num_src: int
    indptr: IntArray
    indices: IntArray
    edge_ids: IntArray | None

    def __init__(
        self,
        indptr: IntArray,
        indices: IntArray,
        *,
        num_src: int,
        edge_ids: IntArray | None = None,
        name: str | None = None,
        num_relations: int | None = None,
    ) -> None:
        """Take canonical arrays as they are; for the constructors, which made and checked them."""
        for array in (indptr, indices, edge_ids):
            if array is not None:
                array.flags.writeable = False
        self.num_dst = indptr.size - 1
        self.num_src = num_src
        self.indptr = indptr
        self.indices = indices
        self.edge_ids = edge_ids
        self.name = name
        self.num_relations = num_relations
        self._partitions: dict[int, IntArray] = {}
        self._sliced: dict[int, SlicedCsr] = {}
        self._reversed: dict[str, Graph] = {}
        self._reverse_of: weakref.ref[Graph] | None = None

    @classmethod
    def from_edge_index(cls, edge_index: Any, num_nodes: Any = None) -> Graph:
        """Graph of a PyG edge index.

        Parameters
        ----------
        edge_index : (2, num_edges) integers
            Row 0 holds sources, row 1 destinations, in any order. Numpy array, lists or torch tensor.
        num_nodes : int or (num_src, num_dst), optional
            By default largest id of both rows + 1, square.

        Raises
        ------
        GraphError
            Not 2 by E, an id negative or out of range, or no edges and no `num_nodes`.
        InputTypeError
            Ids or counts that are not integers.
        """
        edges = integer_array(edge_index, "edge_index", ndim=2)
        if edges.shape[0] != 2:
            hint = " Give its transpose." if edges.shape[1] == 2 else ""
            raise GraphError(f"edge_index: must have shape (2, num_edges) (got {edges.shape}).{hint}")
        if num_nodes is None:
            num_src = num_dst = inferred_count(edges, "num_nodes")
        elif isinstance(num_nodes, (tuple, list)):
            if len(num_nodes) != 2:
                raise GraphError(f"num_nodes: must be an int or (num_src, num_dst) (got {num_nodes!r}).")
            num_src, num_dst = check_count(num_nodes[0], "num_nodes[0]"), check_count(num_nodes[1], "num_nodes[1]")
        else:
            num_src = num_dst = check_count(num_nodes, "num_nodes")
        check_ids(edges[0], num_src, "edge_index[0]", "the number of source nodes")
        check_ids(edges[1], num_dst, "edge_index[1]", "the number of destination nodes")
        return cls._sorted(edges[0], edges[1], num_src, num_dst)

    @classmethod
    def from_coo(cls, src: Any, dst: Any, *, num_src: Any = None, num_dst: Any = None) -> Graph:
        """Graph of an edge list in any order: edge e goes from ``src[e]`` to ``dst[e]``.

        A count left out is the largest id + 1: of both lists when both counts are left out (square), else of its own
        list. Raises as `from_edge_index`.
        """
        sources, destinations = integer_array(src, "src"), integer_array(dst, "dst")
        check_same_length(sources, destinations)
        if num_src is None and num_dst is None:
            if sources.size == 0:
                raise GraphError(
                    "num_src and num_dst: must be given when there are no edges to infer them from (got None)."
                )
            columns = rows = max(inferred_count(sources, "num_src"), inferred_count(destinations, "num_dst"))
        else:
            columns = inferred_count(sources, "num_src") if num_src is None else check_count(num_src, "num_src")
            rows = inferred_count(destinations, "num_dst") if num_dst is None else check_count(num_dst, "num_dst")
        check_ids(sources, columns, "src", "num_src")
        check_ids(destinations, rows, "dst", "num_dst")
        return cls._sorted(sources, destinations, columns, rows)

    @classmethod
    def from_relations(
        cls,
        src: Any,
        dst: Any,
        edge_type: Any,
        *,
        num_relations: Any = None,
        num_src: Any = None,
        num_dst: Any = None,
    ) -> Graph:
        """Graph of an edge list with types, whose sources are the nodes once for every relation.

        Edge e of type r comes from source ``r * num_src + src[e]``: a kernel reads features of shape
        (num_relations * num_src, F), those of relation r from row ``r * num_src`` on, and serves all relations in one
        launch (`tvm_gnn.relational` with this `num_relations`). Counts left out are the largest id + 1, of nodes as in
        `from_coo`.

        Raises
        ------
        GraphError
            Lists of different lengths, or an id or a type out of range.
        InputTypeError
            Arrays or counts that are not integers.

        Examples
        --------
        >>> Graph.from_relations([0, 1], [1, 0], [0, 2]).num_src
        6
        """
        sources, types = integer_array(src, "src"), integer_array(edge_type, "edge_type")
        check_same_length(sources, types, "src", "edge_type")
        plain = cls.from_coo(sources, dst, num_src=num_src, num_dst=num_dst)
        if num_relations is None:
            relations = inferred_count(types, "num_relations")
        else:
            relations = check_count(num_relations, "num_relations")
        check_ids(types, relations, "edge_type", "num_relations")
        stacked = types.astype(np.int64) * plain.num_src + sources
        graph = cls.from_coo(stacked, dst, num_src=relations * plain.num_src, num_dst=plain.num_dst)
        graph.num_relations = relations
        return graph

    @classmethod
    def from_csr(cls, indptr: Any, indices: Any, *, num_src: Any = None) -> Graph:
        """Graph of a CSR whose rows are destinations; rows may be unsorted.

        By default `num_src` is the number of rows, or the largest id + 1 where that is more, so a square adjacency
        stays square when its last nodes have no out-edge.

        Raises
        ------
        GraphError
            `indptr` empty, not starting at 0, falling, or not ending at ``len(indices)``; an id out of range.
        InputTypeError
            Arrays or counts that are not integers.
        """
        starts, sources = integer_array(indptr, "indptr"), integer_array(indices, "indices")
        check_indptr(starts, sources.size)
        if num_src is not None:
            columns = check_count(num_src, "num_src")
        else:
            columns = max(starts.size - 1, inferred_count(sources, "num_src") if sources.size else 0)
        check_ids(sources, columns, "indices", "num_src")
        dtype = index_dtype_for(sources.size, columns, starts.size - 1)
        rows, cols, edge_ids = csr_from_rows(starts, sources, dtype)
        return cls(rows, cols, num_src=columns, edge_ids=edge_ids)

    @classmethod
    def from_segments(cls, offsets: Any) -> Graph:
        """Rows in consecutive segments, as a graph that operators on segments take: row r is edge r and source r.

        Parameters
        ----------
        offsets : (S + 1,) integers
            Segment s, a destination, holds the rows ``offsets[s]`` up to ``offsets[s + 1]``.

        Raises
        ------
        GraphError
            `offsets` empty, not starting at 0, or falling.
        InputTypeError
            Offsets that are not integers.

        Examples
        --------
        >>> Graph.from_segments([0, 2, 2, 5])
        Graph(num_dst=3, num_src=5, num_edges=5, int32, order=CSR)
        """
        starts = integer_array(offsets, "offsets")
        if starts.size == 0:
            raise GraphError("offsets: must have one entry more than segments (got length 0). Without segments: [0].")
        check_indptr(starts, int(starts[-1]), "offsets")
        num_rows = check_count(starts[-1], f"offsets[{starts.size - 1}]")
        dtype = index_dtype_for(num_rows, starts.size - 1)
        return cls(starts.astype(dtype), np.arange(num_rows, dtype=dtype), num_src=num_rows)

    @staticmethod
    def batch(graphs: Iterable[Graph]) -> Batch:
        """Graphs as one block-diagonal graph; see `Batch`. Cost: one pass over their edges.

        Raises
        ------
        InputTypeError
            Something else than graphs.
        GraphError
            A graph of several relations: its sources are stacked by relation, which a union of graphs would break up.
        """
        from .batch import batch_of

        return batch_of(graphs)

    @classmethod
    def from_scipy(cls, matrix: Any) -> Graph:
        """Graph of a scipy sparse matrix or array of shape (num_dst, num_src): rows are destinations.

        The caller's edge order is that of ``matrix.data`` for COO, CSR and CSC, of ``matrix.tocoo()`` for others.
        Every stored entry is an edge: explicit zeros stay, duplicates are not summed.
        """
        return cls._from_matrix(sparse_matrices.from_scipy(matrix))

    @classmethod
    def from_torch(cls, matrix: Any) -> Graph:
        """Graph of a torch sparse CSR, CSC or COO tensor of shape (num_dst, num_src): rows are destinations.

        The caller's edge order is that of the tensor's values; an uncoalesced COO tensor keeps its parallel edges.
        """
        return cls._from_matrix(sparse_matrices.from_torch(matrix))

    @classmethod
    def from_pyg(cls, data: Any, edge_type: Any = None) -> Graph:
        """Graph of a PyG `Data` (``edge_index``, or ``adj_t`` of any kind), or of one edge type of a `HeteroData`.

        The caller's edge order is that of ``edge_index``'s columns, so ``data.edge_attr`` fits; of ``adj_t``'s values
        where there is no edge index.
        """
        return cls._from_framework(frameworks.from_pyg(data, edge_type))

    @classmethod
    def from_dgl(cls, graph: Any, edge_type: Any = None) -> Graph:
        """Graph of a DGL graph or block, or of one of its edge types; edge order: DGL's edge ids (``graph.edata``)."""
        return cls._from_framework(frameworks.from_dgl(graph, edge_type))

    @classmethod
    def from_networkx(cls, graph: Any) -> Graph:
        """Graph of a networkx graph, nodes numbered as in ``graph.nodes``; an undirected edge is one edge each way.

        The caller's edge order is that of ``graph.edges``, for an undirected graph of ``graph.to_directed().edges``.
        """
        return cls._from_framework(frameworks.from_networkx(graph))

    @classmethod
    def _from_framework(cls, edges: frameworks.EdgeList | sparse_matrices.Entries) -> Graph:
        if isinstance(edges, sparse_matrices.Entries):
            return cls._from_matrix(edges)
        return cls.from_edge_index(edges.edge_index, edges.num_nodes)

    @classmethod
    def _from_matrix(cls, matrix: sparse_matrices.Entries) -> Graph:
        num_dst, num_src = matrix.shape
        expected = {"csr": num_dst + 1, "csc": num_src + 1}.get(matrix.layout)
        if expected is not None and matrix.first.size != expected:
            raise GraphError(f"matrix: its indptr must have {expected} entries (got {matrix.first.size}).")
        if matrix.layout == "csr":
            return cls.from_csr(matrix.first, matrix.second, num_src=num_src)
        if matrix.layout == "csc":
            check_indptr(matrix.first, matrix.second.size, name="column indptr")
            columns = np.repeat(np.arange(num_src), np.diff(matrix.first))
            return cls.from_coo(columns, matrix.second, num_src=num_src, num_dst=num_dst)
        return cls.from_coo(matrix.second, matrix.first, num_src=num_src, num_dst=num_dst)

    @classmethod
    def _sorted(cls, src: IntArray, dst: IntArray, num_src: int, num_dst: int) -> Graph:
        dtype = index_dtype_for(src.size, num_src, num_dst)
        indptr, indices, edge_ids = csr_from_coo(src, dst, num_dst, dtype)
        return cls(indptr, indices, num_src=num_src, edge_ids=edge_ids)

    @property
    def name(self) -> str | None:
        """Name of the dataset; what cannot be printed in it (a file's name may hold any byte) is kept as an escape."""
        return self._name

    @name.setter
    def name(self, name: str | None) -> None:
        if name is not None and not isinstance(name, str):
            raise InputTypeError(f"name: must be text or None (got {type(name).__name__}).")
        self._name = name and printable(name)

    @property
    def num_edges(self) -> int:
        """Entries of the adjacency."""
        return self.indices.size

    @property
    def index_dtype(self) -> str:
        """``"int32"`` or ``"int64"``, of `indptr`, `indices` and `edge_ids`."""
        return str(self.indptr.dtype.name)

    @cached_property
    def in_degrees(self) -> IntArray:
        """In-edges of every destination, shape (num_dst,); read-only."""
        degrees: IntArray = np.diff(self.indptr)
        degrees.flags.writeable = False
        return degrees

    @cached_property
    def row_counts(self) -> dict[str, int]:
        """Rows of an array that has one for every ``src``, ``dst`` or ``edge``, or only ``once``."""
        return {"src": self.num_src, "dst": self.num_dst, "edge": self.num_edges, "once": 1}

    @cached_property
    def stats(self) -> GraphStats:
        """Sizes, degrees and locality, as the cost model sees the graph."""
        return compute_stats(self.indptr, self.indices, self.num_src)

    @cached_property
    def digest(self) -> str:
        """The exact part of `signature` alone, which is much cheaper on a large graph."""
        return exact_digest(self.indptr, self.indices, self.num_src)

    @cached_property
    def signature(self) -> Signature:
        """Digest, features and bucket under which tuned schedules of this graph are stored."""
        return Signature(self.digest, self.stats.as_features(), bucket_of(self.stats))

    def reverse(self) -> Graph:
        """The graph with every edge turned round: the CSC of this one, built once and kept.

        Its `edge_ids` refer to the same caller's edge order, so one array of edge values serves both directions.
        Cost of the first call: one stable sort by source.
        """
        origin = self._reverse_of() if self._reverse_of is not None else None
        if origin is not None:
            return origin
        if "graph" not in self._reversed:
            indptr, indices, edge_ids = transpose(self.indptr, self.indices, self.edge_ids, self.num_src)
            turned = Graph(indptr, indices, num_src=self.num_dst, edge_ids=edge_ids)
            # A weak reference back: a cycle would keep both graphs' memory until the garbage collector runs.
            turned._reverse_of = weakref.ref(self)
            # setdefault is atomic: threads that race here all leave with the same graph, and no lock outlives a fork.
            self._reversed.setdefault("graph", turned)
        return self._reversed["graph"]

    def row_partition(self, parts: int) -> IntArray:
        """Contiguous row ranges of nearly equal work: part p covers rows ``[p]`` up to ``[p + 1]``.

        The work of a row is its in-degree + 4. A part exceeds its even share by at most one row's work.

        Returns
        -------
        (parts + 1,) array of `index_dtype`, from 0 to num_dst, never falling, read-only; kept per `parts`.
        """
        count = integer("parts", parts)
        if count < 1:
            raise InputError(f"parts: must be at least 1 (got {count}).")
        if count > _MOST_PARTS:
            raise InputError(f"parts: must be at most {_MOST_PARTS} (got {count}).")
        if count not in self._partitions:
            cost = self.indptr + 4 * np.arange(self.num_dst + 1, dtype=np.int64)
            bounds = np.searchsorted(cost, np.linspace(0, cost[-1], count + 1)).astype(self.indptr.dtype)
            bounds.flags.writeable = False
            self._partitions.setdefault(count, bounds)
        return self._partitions[count]

    def sliced(self, slices: int) -> SlicedCsr:
        """The edges ordered by slice of sources, and by row within one; kept per `slices`. Cost: `sliced_by_source`."""
        count = integer("slices", slices)
        if count < 1:
            raise InputError(f"slices: must be at least 1 (got {count}).")
        if count not in self._sliced:
            found = sliced_by_source(self.indptr, self.indices, self.edge_ids, self.num_src, count)
            self._sliced.setdefault(count, found)
        return self._sliced[count]

    def to_csr_order(self, values: Any) -> Any:
        """Edge values in the caller's edge order → CSR order; numpy or torch in, same kind out.

        Shapes: (num_edges, …) → the same. Returns `values` itself when the orders agree, else a new array.
        """
        return gather_edges(values, self.edge_ids, self.num_edges)

    def from_csr_order(self, values: Any) -> Any:
        """Edge values in CSR order → the caller's edge order; the inverse of `to_csr_order`."""
        order = None if self.edge_ids is None else inverse_order(self.edge_ids)
        return gather_edges(values, order, self.num_edges)

    def __repr__(self) -> str:
        name = f"{self.name!r}, " if self.name else ""
        order = "CSR" if self.edge_ids is None else "edge_ids"
        return (
            f"Graph({name}num_dst={self.num_dst}, num_src={self.num_src}, num_edges={self.num_edges}, "
            f"{self.index_dtype}, order={order})"
        )

    def __copy__(self) -> Graph:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Graph:
        # Nothing in a graph can change, so a model that is deep-copied may share it.
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (self.indptr, self.indices, self.num_src, self.edge_ids, self.name, self.num_relations)


def _restored(
    indptr: IntArray,
    indices: IntArray,
    num_src: int,
    edge_ids: IntArray | None,
    name: str | None,
    num_relations: int | None,
) -> Graph:
    return Graph(indptr, indices, num_src=num_src, edge_ids=edge_ids, name=name, num_relations=num_relations)
