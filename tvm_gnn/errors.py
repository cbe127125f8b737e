"""The one error tree: every error this package raises on purpose derives from `TvmGnnError`.

Text of an error: *what: rule (got value). What to do.* Input errors are also `ValueError` or `TypeError`, so callers
that know only the standard library catch them too.
"""


class TvmGnnError(Exception):
    """Root of every error raised on purpose by tvm_gnn."""


class InputError(TvmGnnError, ValueError):
    """An argument has a value that breaks a rule."""


class InputTypeError(TvmGnnError, TypeError):
    """An argument has a type (or dtype) that breaks a rule."""


class GraphError(InputError):
    """The arrays given do not describe a graph: bad ids, indptr, lengths."""


class DatasetError(InputError):
    """A dataset name is unknown or its file cannot be read as a graph."""


class DependencyError(TvmGnnError, ImportError):
    """An optional dependency or a device that the request needs is missing."""


class RecordError(TvmGnnError):
    """A tuning log cannot be read or written as asked."""


class ArtifactError(TvmGnnError):
    """A stored artifact is damaged, incomplete or does not match its manifest."""


class BuildError(TvmGnnError):
    """A schedule could not be lowered, compiled or linked."""


class TuneError(TvmGnnError):
    """A tuning run ended with nothing that may be served."""
