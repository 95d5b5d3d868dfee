"""The place of an error is the line of the plugin, not of the library that it called."""

from __future__ import annotations

import statistics

import torch

from bench_core.execution.failures import raised_at

CODE = """
import statistics

def helper(values):
    return statistics.mean(values)

def step(values):
    return helper(values)
"""


def error_of(function, *words):
    try:
        function(*words)
    except Exception as error:
        return error
    raise AssertionError("no error")


def test_an_error_of_a_library_is_placed_where_the_plugin_calls_it(small):
    names = {"__name__": "bench_small.deep.model"}
    exec(compile(CODE, "/home/somebody/site/bench_small/deep/model.py", "exec"), names)
    assert raised_at(error_of(names["step"], [])) == " (bench_small/deep/model.py, line 5, in helper)"


def test_an_error_inside_of_torch_is_placed_where_torch_is_called():
    def forward():
        return torch.nn.Linear(2, 3)(torch.ones(1, 5))

    line = forward.__code__.co_firstlineno + 1
    assert raised_at(error_of(forward)).endswith(f"test_raised_at.py, line {line}, in forward)")


def test_without_a_plugin_the_innermost_frame_counts():
    assert "statistics.py" in raised_at(error_of(statistics.mean, []))


def test_an_error_that_was_never_raised_has_no_place():
    assert raised_at(ValueError("a")) == ""
