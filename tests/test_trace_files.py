"""What the drill that traces the files of a run reads in the log of strace."""

from __future__ import annotations

import shutil
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

LOG = """\
12 openat(AT_FDCWD</w>, "a.txt", O_RDONLY|O_CLOEXEC) = 3</w/a.txt>
12 openat(AT_FDCWD</w>, "both.txt", O_RDWR) = 3</w/both.txt>
12 openat(AT_FDCWD</w>, "written.txt", O_WRONLY|O_CREAT, 0666) = 3</w/written.txt>
12 openat(AT_FDCWD</w>, "folder", O_RDONLY|O_DIRECTORY) = 3</w/folder>
12 openat(AT_FDCWD</w>, "gone", O_RDONLY) = -1 ENOENT (No such file or directory)
12 openat(AT_FDCWD</w>, "late.txt", O_RDONLY <unfinished ...>
7 openat(AT_FDCWD</w>, "of another process.txt", O_RDONLY) = 3</w/of another process.txt>
12 <... openat resumed>) = 4</w/late.txt>
12 openat(AT_FDCWD</w>, "m.pyc", O_RDONLY) = 3</w/__pycache__/m.cpython-311.pyc>
"""


@pytest.fixture(scope="module")
def drill():
    spec = spec_from_file_location("trace_files", Path(__file__).parent / "drills" / "trace_files.py")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_files_that_are_opened_to_be_read_are_found_and_no_others(drill, tmp_path):
    (tmp_path / "log").write_text(LOG)
    read = ["a.txt", "both.txt", "of another process.txt", "late.txt", "m.py"]
    assert [*drill.opened(tmp_path / "log")] == [f"/w/{name}" for name in read]


@pytest.mark.nightly
@pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace")
def test_a_file_that_is_neither_in_a_key_nor_observed_is_named(drill, tmp_path, monkeypatch):
    monkeypatch.setattr(drill, "is_carried", lambda path: path.suffix == ".py")
    covered, uncovered = drill.traced("strlm/samples", tmp_path)
    assert covered
    assert any(one.endswith("page.html.j2") for one in uncovered)
