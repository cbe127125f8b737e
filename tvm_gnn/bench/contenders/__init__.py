"""Other kernels to compare with, one file each; `CONTENDERS` lists them and `select` picks some by name."""

from .contender import MATRIX_OPS, Contender
from .registry import CONTENDERS, select

__all__ = ["CONTENDERS", "MATRIX_OPS", "Contender", "select"]
