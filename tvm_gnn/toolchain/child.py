"""The command of a Python process that imports what this one does, and nothing that lies in the current folder."""

from __future__ import annotations

import os
import sys
from pathlib import Path

_ROOT = Path(__file__).parents[2]
# Until `sys.path` is set only `sys`, which is built in, may be imported: `python -c` looks in the current folder first.
# The package is taken from its folder, whatever other version of it the path leads to.
_START = """\
import sys
sys.path[:] = {path!r}
from importlib import machinery, util
_spec = machinery.PathFinder.find_spec("tvm_gnn", [{root!r}])
sys.modules["tvm_gnn"] = util.module_from_spec(_spec)
_spec.loader.exec_module(sys.modules["tvm_gnn"])
"""


def python_command(code: str, *arguments: str) -> list[str]:
    """The command line that runs `code` with this process's packages and this very tvm_gnn.

    Parameters
    ----------
    code : str
        Statements; ``sys`` is imported.
    arguments : str
        Its ``sys.argv[1:]``.
    """
    return [sys.executable, "-c", _START.format(path=_import_path(), root=str(_ROOT)) + code, *arguments]


def _import_path() -> list[str]:
    try:
        here = os.getcwd()
    except OSError:  # the folder was removed
        here = ""
    absolute = [entry for entry in sys.path if isinstance(entry, str) and os.path.isabs(entry)]
    # Somebody who names the current folder in PYTHONPATH may need it, but nothing installed may be shadowed by it.
    return sorted(absolute, key=lambda entry: os.path.realpath(entry) == here)
