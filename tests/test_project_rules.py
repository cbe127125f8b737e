"""The project's own rules: who may import whom, what an import costs, what lies where, what the README shows works."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

import tvm_gnn

PACKAGE = Path(tvm_gnn.__file__).parent
ROOT = PACKAGE.parent
MODULES = sorted(PACKAGE.rglob("*.py"))

# A part may import itself and what is named here. A part that is not in the table fails.
LAYERS: dict[str, set[str]] = {
    "errors": set(),
    "arguments": {"errors"},
    "version": set(),
    "config": {"errors"},
    "graph": {"errors", "arguments", "config"},
    "ops": {"errors", "arguments"},
    "toolchain": {"errors", "arguments", "config"},
    "templates": {"errors", "ops", "toolchain"},
    "cache": {"errors"},
    "runtime": {"errors", "ops", "graph", "toolchain"},
    "tuning": {"errors", "arguments", "config", "graph", "ops", "toolchain", "templates", "cache", "runtime"},
    "untuned": {"errors", "config", "toolchain", "templates", "cache", "runtime", "tuning"},
    "compile": {
        *("errors", "arguments", "config", "graph", "ops", "toolchain", "cache", "runtime", "tuning", "untuned"),
    },
    "diagnosis": {"errors", "config", "toolchain", "runtime"},
    "bench": {"errors", "arguments", "config", "graph", "ops"},
    "testing": {"errors", "config", "graph", "ops", "toolchain", "templates"},
}
TOP = {"cli", "__init__"}  # these may import every part
# Third-party packages that are not for everybody: where they may be imported.
RESTRICTED: dict[str, tuple[str, ...]] = {
    "tvm": ("toolchain/", "templates/", "tuning/evolution.py"),
    "tvm_ffi": ("toolchain/",),
    "xgboost": ("tuning/trees.py",),
    "torch": ("graph/", "bench/", "cli/bench.py", "runtime/autograd/"),
    "torch_geometric": ("bench/contenders/",),
    "dgl": ("bench/contenders/",),
    "numba": ("bench/contenders/",),
    "graphblas": ("bench/contenders/",),
    "scipy": ("graph/", "bench/", "tuning/cost_model.py"),
    "rich": ("cli/",),
    "platformdirs": ("config.py",),
    "ml_dtypes": ("ops/dtypes.py",),
    "orjson": ("cache/",),
    "psutil": (),
    "cloudpickle": (),
}
EAGER = {"numpy", "xxhash", "orjson", "rich"}  # what a module may import while it is itself imported
BESIDE_TORCH = "runtime/autograd/"  # imported only where torch is there already
DISTRIBUTIONS = {
    "tvm": "apache-tvm",
    "tvm_ffi": "apache-tvm-ffi",
    "xgboost": "xgboost-cpu",
    "torch_geometric": "torch-geometric",
    "graphblas": "python-graphblas",
}
READS_ENVIRONMENT = {
    "config.py",
    "bench/machine.py",  # a report names the settings of other libraries
    "bench/contenders/dgl_ops.py",
    "runtime/pool.py",  # tells TVM's thread pool, which has no other knob, not to bind threads
}


class Import(NamedTuple):
    file: str
    line: int
    module: str
    lazy: bool

    def __str__(self) -> str:
        return f"{self.file}:{self.line} imports {self.module}"


def name(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(), str(path))


def nodes(path: Path) -> Iterator[tuple[ast.AST, bool]]:
    """All nodes of a module, and whether each runs later than the module's import (or never, for types only)."""

    def walk(node: ast.AST, lazy: bool) -> Iterator[tuple[ast.AST, bool]]:
        yield node, lazy
        for_types = isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")
        inside = lazy or for_types or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        for child in ast.iter_child_nodes(node):
            yield from walk(child, inside)

    return walk(tree(path), False)


def imports(path: Path) -> Iterator[Import]:
    package = ("tvm_gnn", *path.relative_to(PACKAGE).parent.parts)
    for node, lazy in nodes(path):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(name(path), node.lineno, alias.name, lazy)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            module = ".".join([*base, *filter(None, [node.module])])
            for alias in node.names:
                yield Import(name(path), node.lineno, f"{module}.{alias.name}", lazy)
        elif (
            isinstance(node, ast.Call)
            and ast.unparse(node.func).split(".")[-1] in ("import_module", "__import__")
            and isinstance(node.args[0], ast.Constant)
        ):
            yield Import(name(path), node.lineno, str(node.args[0].value), lazy)


ALL_IMPORTS = [found for path in MODULES for found in imports(path)]
OUTSIDE = [found for found in ALL_IMPORTS if found.module.split(".")[0] not in {*sys.stdlib_module_names, "tvm_gnn"}]


def part_of(file: str) -> str:
    return file.split("/")[0].removesuffix(".py")


def test_the_walk_sees_what_there_is() -> None:
    assert len(MODULES) > 50
    seen = {found.module for found in ALL_IMPORTS}
    assert {"tvm_gnn.errors.InputError", "tvm_gnn.cli.bench", "tvm_gnn.config", "numpy", "tvm"} <= seen
    assert any(found.lazy for found in ALL_IMPORTS if found.module == "scipy.sparse")
    assert not any(found.lazy for found in ALL_IMPORTS if found.module == "numpy")


def test_parts_import_only_what_lies_below_them() -> None:
    broken = []
    for found in ALL_IMPORTS:
        part, target = part_of(found.file), found.module.split(".")
        if target[0] != "tvm_gnn" or part in TOP:
            continue
        imported = target[1] if len(target) > 1 else "__init__"
        if imported != part and imported not in LAYERS[part]:
            broken.append(str(found))
    assert broken == []


def test_layers_have_no_cycle() -> None:
    order: list[str] = []
    remaining = dict(LAYERS)
    while remaining:
        free = [part for part, below in remaining.items() if below <= set(order)]
        assert free, f"a cycle among {sorted(remaining)}"
        order += free
        remaining = {part: below for part, below in remaining.items() if part not in free}
    assert {part_of(name(path)) for path in MODULES} <= {*order, *TOP}


def test_runtime_takes_only_constants_of_the_toolchain() -> None:
    taken = [found for found in ALL_IMPORTS if found.file.startswith("runtime/") and ".toolchain" in found.module]
    assert [str(found) for found in taken if not found.module.startswith("tvm_gnn.toolchain.launcher.")] == []


def test_graph_types_only_in_the_runtime() -> None:
    eager = [f for f in ALL_IMPORTS if f.file.startswith("runtime/") and ".graph" in f.module and not f.lazy]
    assert list(map(str, eager)) == []


def test_third_party_packages_stay_where_they_belong() -> None:
    broken = [
        str(found)
        for found in OUTSIDE
        if (top := found.module.split(".")[0]) in RESTRICTED and not found.file.startswith(RESTRICTED[top])
    ]
    assert broken == []
    unknown = {found.module.split(".")[0] for found in OUTSIDE} - {*RESTRICTED, "numpy", "xxhash"}
    assert unknown == set()


def test_heavy_packages_are_imported_late() -> None:
    eager = [found for found in OUTSIDE if not found.lazy and found.module.split(".")[0] not in EAGER]
    assert [str(found) for found in eager if not is_beside_torch(found)] == []


def test_what_needs_torch_is_imported_late() -> None:
    users = [f for f in ALL_IMPORTS if "runtime.autograd" in f.module and not f.file.startswith(BESIDE_TORCH)]
    assert users
    assert [str(found) for found in users if not found.lazy] == []


def is_beside_torch(found: Import) -> bool:
    return found.file.startswith(BESIDE_TORCH) and found.module.split(".")[0] == "torch"


def test_what_is_imported_is_declared() -> None:
    text = (ROOT / "pyproject.toml").read_text()
    core = declared(re.search(r"^dependencies = \[\n(.*?)^\]", text, re.M | re.S))
    optional = declared(re.search(r"^\[project.optional-dependencies\]\n(.*?)^\[", text, re.M | re.S))
    for found in OUTSIDE:
        top = found.module.split(".")[0]
        distribution = DISTRIBUTIONS.get(top, top)
        if found.file.startswith("bench/contenders/"):
            continue  # peers that nobody needs to have
        allowed = core | (optional if found.lazy or is_beside_torch(found) else set())
        assert distribution in allowed, f"{found}, which pyproject.toml does not declare"


def declared(section: re.Match[str] | None) -> set[str]:
    assert section is not None
    return {match[1] for match in re.finditer(r'"([A-Za-z0-9_.-]+)\s*[<>=~;"]', section[1])}


def test_nothing_is_unpickled() -> None:
    forbidden = {"pickle", "cPickle", "_pickle", "cloudpickle", "dill", "joblib", "marshal", "shelve"}
    assert [str(found) for found in ALL_IMPORTS if found.module.split(".")[0] in forbidden] == []
    for path in MODULES:
        for node, _ in nodes(path):
            if isinstance(node, ast.keyword) and node.arg == "allow_pickle":
                assert ast.unparse(node.value) == "False", f"{name(path)}:{node.value.lineno}"


def test_only_config_reads_the_environment() -> None:
    readers = {
        name(path)
        for path in MODULES
        for node, _ in nodes(path)
        if isinstance(node, ast.Attribute | ast.Name)
        and ast.unparse(node) in ("os.environ", "os.getenv", "os.environb", "environ", "getenv")
    }
    assert readers - READS_ENVIRONMENT == set()


def test_only_the_command_line_prints() -> None:
    printing = [
        f"{name(path)}:{node.lineno}"
        for path in MODULES
        for node, _ in nodes(path)
        if isinstance(node, ast.Call)
        and ast.unparse(node.func) in ("print", "sys.stdout.write", "sys.stderr.write")
        and not name(path).startswith("cli/")
    ]
    assert printing == []


def test_no_error_is_caught_bare() -> None:
    bare = [
        f"{name(path)}:{node.lineno}"
        for path in MODULES
        for node, _ in nodes(path)
        if isinstance(node, ast.ExceptHandler) and node.type is None
    ]
    assert bare == []


@pytest.mark.parametrize("path", MODULES, ids=name)
def test_first_line_says_what_the_module_holds(path: Path) -> None:
    lines = path.read_text().splitlines() or [""]
    assert lines[0].startswith('"""'), "the first line must be a docstring"
    sentence = lines[0].removeprefix('"""').removesuffix('"""')
    assert sentence.endswith((".", "…")), "one sentence on one line"
    assert len(sentence) > 15
    if not lines[0].endswith('"""'):
        assert lines[1] == "", "an empty line after the first sentence"


def test_sources_say_nothing_of_one_machine() -> None:
    paths = [*MODULES, *(ROOT / "scripts").glob("*")] if (ROOT / "scripts").is_dir() else MODULES
    for path in paths:
        for word in ("/root/", "/home/", "/Users/"):
            assert word not in path.read_text(), f"{path} names {word}"


IMPORT = """
import sys, time
start = time.perf_counter()
import tvm_gnn
print(time.perf_counter() - start)
print(*sys.modules)
"""


def test_import_is_light_and_leaves_no_file(run_python: Callable[..., str], tmp_path: Path) -> None:
    home, here = tmp_path / "home", tmp_path / "here"
    home.mkdir()
    here.mkdir()
    absent = ("TVM_GNN_CACHE", "TVM_GNN_LOGS", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME")
    environment = {"HOME": str(home), "TMPDIR": str(here), **dict.fromkeys(absent)}
    seconds = []
    for _ in range(3):
        first, loaded = run_python(IMPORT, env=environment).splitlines()
        seconds.append(float(first))
        heavy = {"tvm", "tvm_ffi", "torch", "xgboost", "scipy", "rich", "dgl", "numba", "pandas", "sklearn"}
        assert not heavy & set(loaded.split())
        if seconds[-1] <= 1.0:
            break
    assert min(seconds) <= 1.0
    assert list(home.iterdir()) == []
    assert list(here.iterdir()) == []


def test_public_names() -> None:
    operators = {"edge_softmax", "gat", "gatv2", "relational", "sddmm", "spmm"}
    operators |= {"gather", "maxk", "segment_reduce", "sort_pool"}
    assert set(tvm_gnn.__all__) == {"Graph", "TvmGnnError", "__version__", "datasets", "load", "tune", *operators}
    assert all(getattr(tvm_gnn, public) is not None for public in tvm_gnn.__all__)
    assert tvm_gnn.__version__ == tvm_gnn.version.VERSION


def test_every_error_derives_from_the_one_root() -> None:
    from tvm_gnn import errors

    classes = [value for value in vars(errors).values() if isinstance(value, type)]
    assert len(classes) > 5
    assert all(issubclass(each, errors.TvmGnnError) for each in classes)
    assert issubclass(errors.InputError, ValueError)
    assert issubclass(errors.InputTypeError, TypeError)
    assert issubclass(errors.DependencyError, ImportError)


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="not a checkout")
def test_top_level_is_fixed() -> None:
    try:
        done = subprocess.run(["git", "-C", str(ROOT), "ls-files"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("git cannot list the checkout")
    top = {line.split("/")[0] for line in done.stdout.splitlines()}
    expected = {"tvm_gnn", "schedules", "tuning_logs", "tests", "scripts"}
    expected |= {"pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md"}
    assert {entry for entry in top if not entry.startswith(".")} == expected


def test_quick_start_of_the_readme_runs(run_python: Callable[..., str], tmp_path: Path) -> None:
    block = re.search(r"^```python\n(.*?)^```", (ROOT / "README.md").read_text(), re.M | re.S)
    assert block is not None
    assert len(block[1].splitlines()) < 15
    script = tmp_path / "quick_start.py"
    script.write_text(block[1])
    run_python("import runpy, sys; runpy.run_path(sys.argv[1])", script, env={"HOME": str(tmp_path)}, timeout_s=120)


@pytest.mark.skipif(sys.platform != "linux", reason="Linux only")
def test_scripts_can_be_run() -> None:
    for script in ("tvm-gnn", "test"):
        path = ROOT / "scripts" / script
        if path.exists():
            assert os.access(path, os.X_OK), f"{path} must be executable"


def test_the_readme_shows_what_is_supported() -> None:
    from tvm_gnn.testing.support import support_table

    assert "\n".join(support_table()) in (ROOT / "README.md").read_text()
