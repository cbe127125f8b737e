"""What the disk of temporary files refuses is one error that names the folder, the reason and TMPDIR."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from tvm_gnn.errors import BuildError, TuneError
from tvm_gnn.toolchain.temporary import full_disk_hint, temporary_files


@pytest.mark.parametrize(
    ("cause", "reason"),
    [
        (OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), "No space left on device"),
        (OSError("65536 requested and 36832 written"), "written in part only: 65536 requested and 36832 written"),
    ],
)
def test_the_error_names_folder_reason_and_setting(cause: OSError, reason: str) -> None:
    with (
        pytest.raises(TuneError, match=rf"^/folder: must be .*\(got: .*{reason}\).*set TMPDIR"),
        temporary_files(TuneError, Path("/folder")),
    ):
        raise cause


def test_other_errors_pass() -> None:
    with pytest.raises(KeyError), temporary_files(BuildError):
        raise KeyError


def test_no_usable_folder_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> str:
        raise FileNotFoundError(errno.ENOENT, "No usable temporary directory found")

    monkeypatch.setattr("tempfile.gettempdir", refuse)
    with (
        pytest.raises(BuildError, match=r"^temporary folder: must be .*No usable temporary"),
        temporary_files(BuildError),
    ):
        raise FileNotFoundError(errno.ENOENT, "No usable temporary directory found")


def test_the_hint_is_for_full_disks_only(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert full_disk_hint(tmp_path) == ""
    assert full_disk_hint(tmp_path / "gone") == ""
    monkeypatch.setattr("shutil.disk_usage", lambda folder: SimpleNamespace(free=1000))
    assert f"{tmp_path}: only 1000 bytes are free" in full_disk_hint(tmp_path)
    assert "TMPDIR" in full_disk_hint(tmp_path)
