"""Reports say why prompts and references are missing beside outputs, and what to do."""

from __future__ import annotations

from dataclasses import replace

import pytest
from bench_small.runs import cell, run_of, samples, written

from bench_reports.content.outputs import REMEDY, why_withheld

REASON = "Prompts and references of words are not shown:"


def told(run):
    """Return how often each format of a report says it, with the words that follow."""
    files = written(run, run.folder.parent / "report")
    texts = {name: files[name].decode() for name in ("report.md", "report.html", "report.tex")}
    return {name: " ".join(text.split()).count(REASON) for name, text in texts.items()}


def reported(tmp_path, about, quote=(), outputs=True):
    told_samples = samples("so it goes") if outputs else []
    run = run_of(tmp_path, [cell("rnn", "greedy", 0)], {}, samples=told_samples, tasks={"words": about})
    return replace(run, suite=run.suite.model_copy(update={"quote": quote}))


@pytest.mark.parametrize("about", [{"embedded": False}, {}, {"restricted": "licence of x: none", "embedded": True}])
def test_a_report_without_prompts_says_why(tmp_path, about):
    assert told(reported(tmp_path, about)) == {"report.md": 1, "report.html": 1, "report.tex": 1}


def test_it_names_the_remedy(tmp_path):
    text = written(reported(tmp_path, {}), tmp_path / "report")["report.html"].decode()
    assert "set ‘quote: true’ in the suite, or ‘quote’ to a list of tasks, and run it again" in " ".join(text.split())


@pytest.mark.parametrize(
    ("about", "quote", "outputs"),
    [
        ({"embedded": True}, (), True),
        ({"restricted": ""}, (), True),
        ({}, True, True),
        ({}, ("words",), True),
        ({}, (), False),
    ],
)
def test_where_they_are_shown_or_there_are_no_outputs_nothing_is_said(tmp_path, about, quote, outputs):
    assert not any(told(reported(tmp_path, about, quote, outputs)).values())


def test_the_setting_stands_in_markdown_as_it_is_to_be_typed(tmp_path):
    text = written(reported(tmp_path, {"restricted": "licence of x: none"}), tmp_path / "report")[
        "report.md"
    ].decode()
    assert "are not shown: licence of x: none. If you may" in text
    assert "quote: true" in text


def test_a_suite_that_shows_no_texts_is_the_reason(tmp_path):
    text = written(reported(tmp_path, {"restricted": ""}, quote=False), tmp_path / "report")["report.md"].decode()
    assert "Prompts and references of words are not shown: the suite sets ‘quote: false’." in text
    assert "If you may show them" not in text


def test_tasks_are_named_by_their_reasons_each_once_and_not_if_their_texts_are_shown(tmp_path):
    about = {name: {"restricted": f"licence of {name}: none"} for name in ("news", "mail")}
    run = run_of(tmp_path, [], {}, tasks={**about, "letters": about["mail"], "words": {"restricted": ""}})
    assert why_withheld(run, ["mail", "words", "news", "letters", "mail"]) == (
        "Prompts and references of mail, letters are not shown: licence of mail: none. "
        f"Prompts and references of news are not shown: licence of news: none. {REMEDY}"
    )
    assert why_withheld(run, ["words"]) == ""
