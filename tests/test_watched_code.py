"""Code that is replaced is noticed whenever that happens, named, and put back; settings, too."""

from __future__ import annotations

import itertools
import json
import os
import re
import sys
import threading
import types

import pytest

from bench_core import observed_inputs
from bench_core.execution.watched_code import Watch
from bench_core.observed_inputs import Input, Reading, assigned, earlier, observe, remember
from bench_core.wrapped_readers import install


@pytest.fixture
def watch():
    install()
    found = Watch()
    found.begin()
    return found


def doubled(value, *more, **named):
    return value


def test_what_is_as_before_is_no_finding(watch):
    assert watch.replaced() == []
    assert watch.restored() == []
    assert watch.lingering() == []


def test_a_thread_that_outlives_a_stage_is_named_unless_one_that_was_there_before_started_it(watch):
    def wait():
        done.wait()

    def start():
        threads.append(threading.Thread(target=wait, name=f"number {len(threads)}"))
        threads[-1].start()

    def serve():
        asked.wait()
        start()
        served.set()

    asked, served, done, threads = threading.Event(), threading.Event(), threading.Event(), []
    server = threading.Thread(target=serve)
    server.start()
    try:
        watch.begin()
        asked.set()
        assert served.wait(300)
        assert watch.lingering() == []
        inner = threading.Thread(target=start)  # one that a stage starts, and which starts another
        inner.start()
        inner.join()
        assert watch.lingering() == ["number 1"]
    finally:
        done.set()
        for one in [server, *threads]:
            one.join()


def test_other_threads_may_work_while_the_process_is_looked_at(watch, tmp_path, monkeypatch):
    monkeypatch.setattr(observed_inputs, "_readings", {})

    def work():
        for number in itertools.count():
            if done.is_set():
                return
            re.compile(f"{number}a")
            (tmp_path / str(number)).exists()
            (tmp_path / str(number)).write_text("a")
            remember({Input("variable", str(number)): Reading({"b"}, None, "")})
            sys.modules[f"made_{number % 50}"] = types.ModuleType("made")
            sys.modules.pop(f"made_{(number + 7) % 50}", None)

    def look():
        watch.begin()
        watch.replaced()
        watch.restored()
        earlier(["a"])

    done, interval = threading.Event(), sys.getswitchinterval()
    threads = [threading.Thread(target=work) for _ in range(2)]
    watch.lenient = True
    try:
        sys.setswitchinterval(1e-6)
        for one in threads:
            one.start()
        for _ in range(10):
            observe(look, {}, str(tmp_path))
    finally:
        done.set()
        for one in threads:
            one.join()
        sys.setswitchinterval(interval)
        for number in range(50):
            sys.modules.pop(f"made_{number}", None)


def test_a_replaced_function_is_named_and_put_back(watch, monkeypatch):
    before = json.dumps
    monkeypatch.setattr(json, "dumps", doubled)
    assert watch.replaced() == ["json.dumps"]
    assert json.dumps is before
    assert watch.replaced() == []


@pytest.mark.parametrize("name", ["__code__", "__defaults__", "__kwdefaults__"])
def test_code_and_defaults_of_a_function_are_named_and_put_back_outside_of_stages_too(watch, name):
    before = getattr(json.dumps, name)
    try:
        setattr(json.dumps, name, {"__code__": doubled.__code__, "__defaults__": (1,), "__kwdefaults__": {}}[name])
        assert watch.replaced() == [f"{name} of json.dumps"]
        assert getattr(json.dumps, name) is before
    finally:
        setattr(json.dumps, name, before)


def test_a_method_that_hides_an_inherited_one_is_named_and_removed(watch):
    json.JSONDecodeError.with_traceback = doubled
    try:
        assert watch.replaced() == ["json.decoder.JSONDecodeError.with_traceback"]
    finally:
        vars(json.JSONDecodeError).get("with_traceback") and delattr(json.JSONDecodeError, "with_traceback")
    assert json.JSONDecodeError.with_traceback is BaseException.with_traceback


def test_a_module_in_place_of_another_is_named_and_put_back(watch, monkeypatch):
    monkeypatch.setitem(sys.modules, "json", types.ModuleType("json"))
    assert watch.replaced() == ["sys.modules['json']"]
    assert sys.modules["json"] is json


def test_a_name_of_python_that_a_module_hides_is_named_and_removed(watch):
    json.len = doubled
    try:
        assert watch.replaced() == ["json.len"]
        assert not hasattr(json, "len")
    finally:
        vars(json).pop("len", None)


def test_a_variable_that_own_code_sets_is_put_back_at_any_time(watch):
    os.environ["BENCH_TRIED"] = "1"
    try:
        assert "BENCH_TRIED" in assigned
        assert watch.restored() == ["the environment"]
        assert "BENCH_TRIED" not in os.environ
    finally:
        os.environ.pop("BENCH_TRIED", None)


def test_what_a_library_adds_and_what_a_test_adds_to_itself_is_no_finding(watch):
    json.added = 3
    try:
        assert watch.replaced() == []
    finally:
        del json.added
