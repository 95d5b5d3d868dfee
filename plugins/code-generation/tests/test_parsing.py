"""From a line to its meaning."""

from __future__ import annotations

import ast
import subprocess
import sys
import warnings

import pytest

from bench_code_generation.parsing import CONTEXTS, canonical_form

HEADERS = [
    "if x :", "while x :", "for a in b :", "with a as b :", "def f ( a ) :", "class A ( B ) :", "async def f ( ) :",
    "else :", "elif x :", "try :", "except :", "except A as e :", "finally :", "@ property", "@ a . b ( c )", "@a",
    "match x :", "case 1 :", "case A ( b = c ) if d :", "except ( A , B ) :", "except* A :",
]  # fmt: skip
STATEMENTS = [
    "return x",
    "yield x",
    "break",
    "continue",
    "raise",
    "x = 1 ; y = 2",
    "import a . b",
    "x = { }",
    "pass",
    "else_ = 1",
]


@pytest.mark.parametrize("line", [*HEADERS, *STATEMENTS])
def test_a_line_that_stands_inside_of_a_program_parses_alone(line):
    assert canonical_form(line)


@pytest.mark.parametrize("line", [line for line in HEADERS if line.endswith(":")])
def test_a_header_means_the_same_with_its_body_put_in(line):
    if not line.startswith("match"):
        assert canonical_form(line) == canonical_form(f"{line}pass") == canonical_form(f"{line} pass")


def test_headers_that_need_different_contexts_have_different_meanings():
    meanings = [canonical_form(line) for line in HEADERS if line != "@a"]
    assert len(set(meanings)) == len(meanings)
    assert set(CONTEXTS) <= {(canonical_form(line) or "").partition("\n")[0] for line in HEADERS}


@pytest.mark.parametrize(
    "line",
    [
        "", " ", "# nothing", "if x", "x = = 1", "print x", "else", "else x :", "try : x :", "return return", "@", "(",
        "elif :", "if x : pass else : pass", "except : pass finally", "x :=", "def f ( :", "finally x :", "<unk> = 1",
    ],
)  # fmt: skip
def test_what_is_no_program_has_no_meaning(line):
    assert canonical_form(line) is None


def test_spaces_quotes_and_brackets_that_change_nothing_do_not_matter():
    assert canonical_form("x = f( a,b )") == canonical_form("  x=f ( a , b )  ") == canonical_form("x = (f(a, b))")
    assert canonical_form("x = 'a'") == canonical_form('x = "a"')
    assert canonical_form("x = 'a'") != canonical_form("x = 'b'")
    assert canonical_form("x = a - ( b - c )") != canonical_form("x = ( a - b ) - c")
    assert canonical_form("x = 0x10") == canonical_form("x = 16")


def test_the_word_for_a_new_line_ends_lines():
    whole = "if True: pass _newline_ else :pass"
    assert canonical_form(whole)
    assert canonical_form(whole) != canonical_form("else :")
    assert canonical_form("@ property _newline_ def f ( ) :pass")
    assert canonical_form("try :pass _newline_ except A :") == canonical_form("try :pass _newline_ except A :pass")
    assert canonical_form("a NEWLINE b", "NEWLINE") == "a\nb"
    assert canonical_form("a NEWLINE b") is None


HOSTILE = {
    "a zero byte": "x = '\0'",
    "a lone surrogate": "x = '\ud800'",
    "many digits": "9" * 5_000,
    "many digits to print": "0x" + "f" * 5_000,
    "open brackets": "( " * 500,
    "brackets": "( " * 500 + "x" + " )" * 500,
    "signs": "- " * 20_000 + "1",
    "negations": "not " * 10_000 + "x",
    "attributes": "a" + " . b" * 20_000,
    "sums": "a" + " + a" * 20_000,
    "calls": "f" + " ( )" * 20_000,
    "lambdas": "lambda : " * 2_000 + "1",
    "conditions": "a if b else " * 5_000 + "c",
    "too long": "a = " * 50_000 + "1",
    "dictionaries": "{ a : " * 90 + "b c" + " }" * 90,
    "bytes": "b'é'",
    "half an escape": "'\\N{no such name}'",
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_hostile_texts_have_no_meaning_and_raise_nothing(text):
    assert canonical_form(text) is None


def test_nothing_that_is_parsed_is_ever_run(tmp_path):
    path = tmp_path / "witness"
    line = f"__import__ ( 'pathlib' ) . Path ( {str(path)!r} ) . touch ( )"
    assert canonical_form(line)
    assert canonical_form(f"@ {line}")
    assert not path.exists()


def test_warnings_are_neither_shown_nor_taken_for_errors():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert canonical_form(r"x = '\d'") == canonical_form(r"x = '\\d'")
        assert canonical_form("1 is 1")
        with pytest.raises(SyntaxError):
            ast.parse(r"x = '\d'")


def test_plugin_and_metrics_import_no_torch():
    code = """
import sys
from bench_code_generation.plugin import bench_metrics, bench_tasks
assert bench_tasks()
assert not {"torch", "numpy", "scipy"} & set(sys.modules), set(sys.modules)
for config in bench_metrics():
    config.load()
assert "torch" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)
