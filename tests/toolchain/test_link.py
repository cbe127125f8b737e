"""From a module to a library: the compiler that links, what is refused, and that no half file is ever seen."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tvm_gnn.errors import BuildError, DependencyError, InputError
from tvm_gnn.testing.operands import problem
from tvm_gnn.testing.schedules import TARGETS, space_of
from tvm_gnn.toolchain.link import link, linker
from tvm_gnn.tuning.builder import build_once
from tvm_gnn.tuning.task import code_spec

PROBLEM = problem("copy_u_sum", 4)
SPEC: dict[str, Any] = code_spec(PROBLEM, space_of(PROBLEM).default)


def test_the_users_compiler_comes_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    own = tmp_path / "my-cc"
    own.write_text("#!/bin/sh\nexit 3\n")
    own.chmod(0o755)
    monkeypatch.setenv("CC", f"{own} -m64")
    assert linker() == [str(own), "-m64"]
    with pytest.raises(BuildError, match=r"link: .*my-cc ended with 3"):
        link([tmp_path / "nothing.o"], tmp_path / "out.so")
    assert not (tmp_path / "out.so").exists()


def test_no_compiler_at_all(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(DependencyError, match=r"compiler: one of cc, gcc.* is needed .*Install gcc"):
        linker()


@pytest.mark.parametrize("compiler", ["no-such-compiler", "/etc/passwd", "-shared", '"', "cc 'x"])
def test_a_bad_cc_is_named_not_passed_over(monkeypatch: pytest.MonkeyPatch, compiler: str) -> None:
    monkeypatch.setenv("CC", compiler)
    with pytest.raises(InputError, match=f"^CC: must .*{re.escape(repr(compiler))}.*Unset it"):
        linker()


@pytest.mark.parametrize("compiler", ["", "   "])
def test_an_empty_cc_is_none(monkeypatch: pytest.MonkeyPatch, compiler: str) -> None:
    monkeypatch.delenv("CC", raising=False)
    usual = linker()
    monkeypatch.setenv("CC", compiler)
    assert linker() == usual


@pytest.mark.parametrize(
    ("script", "text"),
    [
        ("#!/bin/sh\nexit 0", "wrote no library. Set CC"),
        ("#!/bin/sh\nexit 1", "ended with 1: it said nothing"),
        ("#!/bin/sh\necho on stdout; exit 2", "ended with 2: on stdout"),
        ("#!/bin/sh\nprintf 'not \\377 UTF-8' >&2; exit 1", "ended with 1: not \ufffd UTF-8"),
        ("#!/bin/sh\necho half >$3; kill -9 $$", "killed by signal 9"),
        ("#!/no/such/shell", "cannot be run"),
        ("\x7fELF", "cannot be run"),
    ],
)
def test_a_compiler_that_fails_is_told_and_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, script: str, text: str
) -> None:
    compiler = tmp_path / "my-cc"
    compiler.write_text(script)
    compiler.chmod(0o755)
    monkeypatch.setenv("CC", str(compiler))
    with pytest.raises(BuildError, match=f"^link: {compiler} .*{text}"):
        link([], tmp_path / "out.so")
    assert list(tmp_path.iterdir()) == [compiler]


def test_a_compiler_does_not_read_our_input(tmp_path: Path, run_python: Any) -> None:
    """A worker gets its requests there."""
    script = tmp_path / "my-cc"
    script.write_text('#!/bin/sh\ncat >/dev/null\nexec cc "$@"\n')
    script.chmod(0o755)
    code = "import sys; from tvm_gnn.toolchain.link import try_linker; try_linker(30); print(sys.stdin.read())"
    shell = ("sh", "-c", 'echo request | "$@"', "sh")
    assert run_python(code, env={"CC": str(script)}, prefix=shell).strip() == "request"


def test_without_a_compiler_load_names_it(run_python: Any, tmp_path: Path) -> None:
    code = (
        "import tvm_gnn\n"
        "from tvm_gnn.errors import DependencyError\n"
        "try:\n"
        "    tvm_gnn.load(tvm_gnn.datasets.load('karate'), 'copy_u_sum', 4)\n"
        "except DependencyError as error:\n"
        "    print(error)\n"
    )
    assert run_python(code, env={"PATH": str(tmp_path), "CC": None}).startswith("compiler: one of cc")


def test_a_linker_error_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("CC", raising=False)
    broken = tmp_path / "broken.o"
    broken.write_text("not an object")
    with pytest.raises(BuildError, match=r"link: .* ended with 1: .*broken.o"):
        link([broken], tmp_path / "out.so")


def test_a_build_leaves_one_library_and_nothing_else(tmp_path: Path) -> None:
    library = build_once(SPEC, TARGETS["avx512"], tmp_path)
    assert library.parent == tmp_path
    assert [path.name for path in tmp_path.iterdir() if path.suffix not in (".log", ".so")] == []


def test_large_accumulators_are_refused(tmp_path: Path) -> None:
    """TVM would put them on the heap; the space leaves such schedules out, the build makes sure."""
    spec = {**SPEC, "feat": [512], "code": {**SPEC["code"], "lanes": 16, "vectors": 16, "unroll": 4}}
    with pytest.raises(BuildError, match=r"accumulators do not fit on the stack"):
        build_once(spec, TARGETS["avx512"], tmp_path)
