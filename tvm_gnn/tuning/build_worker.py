"""The process that builds candidates: a code spec in, a shared library out; LLVM may crash here without harm."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from ..errors import TvmGnnError
from ..ops import Problem
from ..templates.registry import template_of
from ..toolchain.importing import import_tvm
from ..toolchain.link import build_library
from ..toolchain.target import CpuTarget


def main() -> None:
    """Serve build requests; the command line's argument is the target as JSON."""
    from .worker import serve

    target = CpuTarget(**json.loads(sys.argv[1]))
    import_tvm()  # before the first request: the parent is busy with other things meanwhile
    serve(lambda request: handle(request, target))


def handle(request: dict[str, Any], target: CpuTarget) -> dict[str, Any]:
    """Build ``request["spec"]`` (see `Task.code_spec`) into the file ``request["library"]``."""
    try:
        build(request["spec"], target, Path(request["library"]))
    except TvmGnnError as error:
        return {"error": str(error), "kind": type(error).__name__}
    except Exception as error:  # TVM's parser and schedule raise many types; each costs this candidate only
        return {"error": f"{type(error).__name__}: {str(error).strip()[-300:]}", "kind": "BuildError"}
    return {"library": request["library"]}


def build(spec: dict[str, Any], target: CpuTarget, library: Path) -> None:
    """Schedule, compile and link one code spec."""
    problem = Problem.from_dict(spec)
    module = template_of(problem).scheduled_module(problem, spec["code"])
    build_library(module, target, library)
