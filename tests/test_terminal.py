"""Text of others, printed: it cannot control a terminal, nor hide in it."""

from __future__ import annotations

import io
import json
import sys
import unicodedata
from zipfile import ZipFile

import pytest
from bench_small.runs import HOSTILE, hostile_run, stored

from bench_core.commands.main import COMMANDS, main
from bench_core.errors import BenchError
from bench_core.execution.progress import ProgressLines
from bench_core.terminal import UNSEEN, legible, say, to_json, visible

BAD = "\x1b[31m\x1b]0;title\x07\x9b2J\x7f\u202ereversed\u2066\u200b\ud800"


def steering(text):
    """Return the characters of printed text that are not for reading."""
    return {sign for sign in text if unicodedata.category(sign) in UNSEEN} - {"\n"}


@pytest.fixture
def bench(monkeypatch, capsys, tmp_path):
    """Run the command line as the shell does; return its exit code and all that it printed."""
    monkeypatch.chdir(tmp_path)

    def run(*words):
        monkeypatch.setattr(sys, "argv", ["bench", *words])
        with pytest.raises(SystemExit) as ended:
            main()
        return ended.value.code, "".join(capsys.readouterr())

    return run


@pytest.mark.slow
def test_no_control_character_of_unicode_passes():
    every = "".join(map(chr, range(sys.maxunicode + 1)))
    assert not steering(legible(every))
    assert not steering(visible(every))
    assert "\n" not in visible(every)
    assert legible("a\tb\n  ț日…") == "a b\n  ț日…"


def test_json_that_is_printed_is_printable_ascii_and_says_the_same(capsys):
    say(to_json({BAD: [BAD]}))
    printed = capsys.readouterr().out
    assert printed.isascii()
    assert not steering(printed)
    assert json.loads(printed) == {BAD: [BAD]}


@pytest.mark.parametrize(
    "words", [("show", "model=x"), ("report",), ("verify",), ("cite",), ("why",), ("diff", "a", "b"), ("merge",)]
)
def test_a_hostile_run_steers_no_terminal(bench, tmp_path, words):
    run = stored(hostile_run(tmp_path))
    for cell in ("greedy", "beam"):
        assert not steering(bench("show", str(run.folder), f"model={HOSTILE}", f"decoder={cell}")[1])
    code, printed = bench(words[0], str(run.folder), *words[1:])
    assert printed or code == 0
    assert not steering(printed)


@pytest.mark.parametrize("name", ["cells.jsonl", "run.json", "published.json", "suite.yaml", "costs.csv"])
def test_a_run_whose_files_are_filled_with_control_characters_steers_no_terminal(bench, tmp_path, name):
    run = stored(hostile_run(tmp_path))
    (run.folder / name).write_text(json.dumps({BAD: BAD}, ensure_ascii=True) + BAD[:-1], encoding="utf-8")
    assert not steering(bench("report", str(run.folder))[1])


def test_a_hostile_file_of_a_run_is_refused_without_steering_the_terminal(bench, tmp_path):
    with ZipFile(tmp_path / "run.zip", "w") as file:
        file.writestr(f"run/{BAD[:-1]}", b"x")
    code, printed = bench("import", "run.zip")
    assert code == 2
    assert "x1b" in printed
    assert not steering(printed)


@pytest.mark.parametrize("verb", ["check", "plan", "run", "cite"])
def test_a_hostile_suite_is_refused_without_steering_the_terminal(bench, tmp_path, verb):
    word = r'"\e[31m\a\x9b\u202E"'
    suite = f"suite: {word}\nmodels: {{{word}: {{name: {word}, {word}: 1}}}}\n{word}: 1\n"
    (tmp_path / "suite.yaml").write_text(suite, encoding="utf-8")
    code, printed = bench(verb, "suite.yaml")
    assert code == 2
    assert "x1b" in printed
    assert not steering(printed)


@pytest.mark.parametrize(
    "words", [[BAD], [f"--{BAD[:-1]}"], *([verb, BAD[:-1]] for verb in COMMANDS if verb != "doctor")]
)
def test_what_the_user_gave_is_printed_visibly_too(bench, words):
    code, printed = bench(*words)
    assert code == 2 or words[0] in ("list", "describe", "schema")
    assert not steering(printed)


def test_progress_and_its_warnings_steer_no_terminal(capsys):
    with ProgressLines(BAD) as lines:
        lines.warn(BAD)
    assert "[U+001B]" in (printed := capsys.readouterr().err)
    assert not steering(printed)


def test_the_changing_line_of_a_terminal_holds_no_foreign_control_characters_or_markup(monkeypatch):
    from rich.console import Console

    stream = io.StringIO()
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setattr("rich.console.Console", lambda **settings: Console(file=stream, force_terminal=False))
    with ProgressLines(f"[bold]{BAD}") as lines:
        lines.warn(f"[bold]{BAD}")
    assert "[bold]" in stream.getvalue()
    assert not steering(stream.getvalue())


def test_the_message_of_a_mistake_of_ours_steers_no_terminal(bench, monkeypatch):
    def broken(*given, **settings):
        raise ValueError(BAD)

    monkeypatch.setattr("bench_core.commands.main.bench.main", broken)
    code, printed = bench("list")
    assert code == 1
    assert "Traceback" in printed
    assert not steering(printed)


def test_what_an_encoding_lacks_is_no_failure(monkeypatch):
    printed = io.BytesIO()
    stream = io.TextIOWrapper(printed, encoding="latin-1")

    def failing(*given, **settings):
        raise BenchError("naïve – ±1")

    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr("bench_core.commands.main.bench.main", failing)
    with pytest.raises(SystemExit):
        main()
    stream.flush()
    assert printed.getvalue().decode("latin-1") == "bench: naïve \\u2013 ±1\n"
