"""One operator with its dims and dtypes: all that a kernel's code depends on besides its schedule."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

from ..errors import InputError
from .dims import width
from .dtypes import arithmetic_dtype, check_dtype, itemsize_of
from .operand import Dims, Operand
from .operator import Operator
from .registry import parse_op


@dataclass(frozen=True)
class Problem:
    """What is computed, on any graph.

    Attributes
    ----------
    op : Operator
    dims : Dims
        As `Operator.dims` gives them.
    dtype : str
        Of values, in and out (`dtypes.DTYPES`).
    index_dtype : {"int32", "int64"}
    edge_order : {"csr", "edge_ids"}
        Whether rows of edges lie in CSR order, or are found through the graph's `edge_ids`.
    """

    op: Operator
    dims: Dims
    dtype: str = "float32"
    index_dtype: str = "int32"
    edge_order: str = "csr"

    def __post_init__(self) -> None:
        check_dtype(self.dtype)
        if self.dtype not in self.op.dtypes:
            raise InputError(
                f"dtype: must be one of {', '.join(self.op.dtypes)} for {self.op.name} (got {self.dtype!r})."
            )

    @cached_property
    def inputs(self) -> tuple[Operand, ...]:
        """What a call takes, in order."""
        return self.op.inputs(self.dims)

    @cached_property
    def outputs(self) -> tuple[Operand, ...]:
        """What a call returns, in order."""
        return self.op.outputs(self.dims)

    @property
    def width(self) -> int:
        """Numbers in a row of features."""
        return width(self.dims.feat)

    @property
    def edge_width(self) -> int:
        """Numbers per edge; 1 where none are read."""
        return next((each.width for each in self.inputs if each.rows == "edge"), 1)

    @property
    def itemsize(self) -> int:
        """Bytes of a value in memory."""
        return itemsize_of(self.dtype)

    @property
    def arithmetic_dtype(self) -> str:
        """Dtype of operations and sums, float32 for the half types."""
        return arithmetic_dtype(self.dtype)

    @property
    def arithmetic_itemsize(self) -> int:
        """Bytes of a value in a vector register."""
        return itemsize_of(self.arithmetic_dtype)

    @property
    def index_itemsize(self) -> int:
        """Bytes of an index."""
        return itemsize_of(self.index_dtype)

    def dtype_of(self, operand: Operand) -> str:
        """Dtype of one operand's array."""
        return operand.own_dtype or (self.index_dtype if operand.is_index else self.dtype)

    @cached_property
    def text(self) -> str:
        """The problem as one line of text; `from_text` reads it."""
        return json.dumps(self.as_dict())

    @classmethod
    @cache
    def from_text(cls, text: str) -> Problem:
        """The inverse of `text`."""
        return cls.from_dict(json.loads(text))

    def as_dict(self) -> dict[str, Any]:
        """The problem as JSON-able values; `from_dict` reads them."""
        return {
            "op": self.op.name,
            "feat": list(self.dims.feat),
            "edge_feat": list(self.dims.edge_feat),
            "dtype": self.dtype,
            "index_dtype": self.index_dtype,
            "edge_order": self.edge_order,
        }

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> Problem:
        """The inverse of `as_dict`; other keys are ignored."""
        return cls(
            parse_op(fields["op"]),
            Dims(tuple(fields["feat"]), tuple(fields["edge_feat"])),
            fields["dtype"],
            fields["index_dtype"],
            fields["edge_order"],
        )
