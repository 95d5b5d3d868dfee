"""Installed libraries are known wherever they are; what stands beside them is a user's."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import process_watch

ASKED = "import sys; from process_watch.whose_code import sort_of; print(*map(sort_of, sys.argv[1:]))"


def sorts(path: list[Path], files: list[Path]) -> list[str]:
    """Return whose code files hold, in a process with these folders on its path."""
    home = Path(process_watch.__file__).parent.parent
    known = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, [home, *path]))}
    done = subprocess.run([sys.executable, "-c", ASKED, *map(str, files)], env=known, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@pytest.mark.parametrize("name", ["site-packages", "dist-packages"])
def test_all_in_a_folder_of_libraries_is_installed(tmp_path, name):
    folder = tmp_path / name
    folder.mkdir()
    assert sorts([folder], [folder / "toy" / "a.py", folder / "single.py"]) == ["lib", "lib"]
    assert sorts([], [folder / "toy" / "a.py"]) == ["own"]


def test_in_another_folder_what_a_distribution_recorded_is_installed(tmp_path):
    about = tmp_path / "toy-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: toy\nVersion: 1.0\n")
    (about / "RECORD").write_text("toy/__init__.py,,\ntoy/inner/a.py,,\nsingle.py,,\ntoy-1.0.dist-info/RECORD,,\n")
    names = ["toy/inner/a.py", "toy/b.py", "single.py", "mine.py", "toys/a.py"]
    assert sorts([tmp_path], [tmp_path / one for one in names]) == ["lib", "lib", "lib", "own", "own"]


def test_a_project_that_is_installed_from_its_folder_is_a_users(tmp_path):
    about = tmp_path / "toy.egg-info"
    about.mkdir()
    (about / "PKG-INFO").write_text("Metadata-Version: 2.1\nName: toy\nVersion: 1.0\n")
    (about / "SOURCES.txt").write_text("toy/__init__.py\n")
    assert sorts([tmp_path, tmp_path / "absent"], [tmp_path / "toy" / "__init__.py"]) == ["own"]
