"""LaTeX is in ASCII for every engine, or on request in UTF-8 with the letters of all scripts."""

from __future__ import annotations

import random

import pytest

from bench_reports.commands.report import command
from bench_reports.render.latex_text import in_utf_8, latex
from bench_reports.verification.report import verify_report
from bench_reports.verification.written_tables import plain_latex

NAMES = [
    "日本語",
    "中文 (简体)",
    "한국어",
    "русский_1",
    "العربية",
    "Tiếng Việt",
    "𠮷野家",
    "日本語 & 100 % {a}",
    "ไทย",
]


@pytest.mark.parametrize("name", NAMES)
def test_letters_of_all_scripts_are_themselves_in_utf_8_and_code_points_in_ascii(name):
    ascii_only = latex(name)
    assert ascii_only.isascii()
    assert "U+" in ascii_only
    found = in_utf_8(ascii_only)
    assert "U+" not in found
    assert {letter for letter in name if letter > "\u3000"} <= {*found}
    assert plain_latex(found) == plain_latex(ascii_only)


def test_what_no_engine_can_show_stays_a_code_point():
    for sign in ("\u200b", "\u202e", "\ue000", "\x07"):
        text = latex(f"a{sign}b")
        assert in_utf_8(text) == text


def test_signs_of_latex_are_escaped_in_both():
    chance = random.Random(2)
    for _ in range(300):
        text = "".join(chance.choices("日a&%$#_{}~^\\<>|[]é", k=8))
        assert in_utf_8(latex(text)) == "".join(latex(part) if part != "日" else part for part in text)


def test_the_command_writes_tables_in_utf_8(tmp_path, suite_file, run_here):
    from click.testing import CliRunner

    run = run_here(
        suite_file("""
            suite: letters
            labels: {letters: 日本語}
            tasks: {letters: {name: letters}}
            models: {bigram: {name: bigram, training: {epochs: 1}}}
            decoders: {greedy: {name: greedy}}
            metrics: {length: {name: length}}
            limits: {max_tokens: 4}
            tables: [{id: main, caption: 表, rows: [task], values: [length]}]
        """)
    )
    for words, letter in (([], "U+65E5"), (["--utf-8"], "日本語")):
        done = CliRunner().invoke(command, [str(run.folder), "--out", str(tmp_path / "r"), *words])
        assert done.exit_code == 0, done.output
        (table,) = (tmp_path / "r").rglob("main.tex")
        text = table.read_text(encoding="utf-8")
        assert letter in text
        assert ("表" in text) == bool(words)
        assert [one.text for one in verify_report(table.parent.parent, run) if one.wrong] == []
