"""`import tvm` happens on demand, leaves torch alone, and says what to install where it fails."""

from __future__ import annotations

from typing import Any

from tvm_gnn.toolchain.importing import PINNED, installed_version, pinned_requirements, toolchain_version


def test_importing_tvm_does_not_import_torch_and_torch_comes_later(run_python: Any) -> None:
    run_python(
        "import sys\n"
        "from tvm_gnn.toolchain.importing import import_tvm\n"
        "tvm = import_tvm()\n"
        "assert tvm is import_tvm() is sys.modules['tvm']\n"
        "assert 'torch' not in sys.modules\n"
        "from importlib.util import find_spec\n"
        "if find_spec('torch'):\n"
        "    import torch\n"
        "    assert torch.ones(2).sum() == 2\n"
    )


def test_a_missing_tvm_is_named(run_python: Any) -> None:
    out = run_python(
        "import sys\n"
        "class Missing:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'tvm':\n"
        "            raise ImportError('No module named tvm')\n"
        "sys.meta_path.insert(0, Missing())\n"
        "import tvm_gnn\n"
        "from tvm_gnn.errors import DependencyError\n"
        "from tvm_gnn.toolchain.importing import import_tvm\n"
        "try:\n"
        "    import_tvm()\n"
        "except DependencyError as error:\n"
        "    print(error)\n"
    )
    assert out.startswith("apache-tvm: cannot be imported (No module named tvm). Install apache-tvm==")


def test_versions_without_importing() -> None:
    assert installed_version("no-such-distribution") == "none"
    assert all(name in toolchain_version() and version in pinned_requirements() for name, version in PINNED.items())
    assert toolchain_version().count("=") == len(PINNED)
