"""The embedded corpus: English by rules, and the lines that it is of."""

from __future__ import annotations

import ast
from textwrap import dedent

import pytest

from bench_code_generation import library
from bench_code_generation import pseudo_code as saying
from bench_code_generation.parsing import canonical_form
from bench_code_generation.pseudo_code import describe, to_python
from bench_language_modeling import cpython

RULES = {
    "x = 1": "set x to number 1",
    "x, y = f(a)": "set x , y to the result of f with a",
    "self.x = self.y.z": "set the x of self to the z of the y of self",
    "x += 1": "increase x by number 1",
    "x |= y": "update x to itself bitwise or y",
    "x = a[1:]": "set x to the elements of a from number 1",
    "x = a[-1][b]": "set x to element b of ( element ( minus number 1 ) of a )",
    "x = {'a': 1, **b}": None,
    "x = {'a': 1}": "set x to a dictionary with the string 'a' for number 1",
    "x = {}": "set x to an empty dictionary",
    "x = a if b else c": "set x to a if b otherwise c",
    "x = a + b * c": "set x to a plus ( b times c )",
    "x = (a + b) * c": "set x to ( a plus b ) times c",
    "x = not a and b": "set x to ( not a ) and b",
    "x = a < b < c": None,
    "x = [y for y in z if y]": "set x to the list of y for each y in z if y",
    "x = [y for y in z for z in a]": None,
    "x = lambda: 1": None,
    "x = f'{y}'": None,
    "x: int = 1": None,
    "x = 'two  spaces'": None,
    "x = u'old'": None,
    "f(a, *b, c=d, **e)": "call f with a , ( all of b ) , c being d , all names of e",
    "a.b.append(c)": "call append of the b of a with c",
    "return": "return",
    "return None": "return none",
    "yield x": "yield x",
    "raise ValueError('no') from e": "raise ( the result of ValueError with the string 'no' ) because of e",
    "raise": "raise again",
    "assert x, 'no'": "make sure that x , or say the string 'no'",
    "import os.path as p, re": "import os . path as p , re",
    "from a.b import c as d, e": "from a . b import c as d , e",
    "from . import a": None,
    "del x, y": "delete x , y",
    "global x": "use the global x",
    "pass": "do nothing",
    "while True:\n    break": "while true ,",
    "for a, b in c: pass": "for each a , b in c ,",
    "with open(a) as b: pass": "with ( the result of open with a ) as b ,",
    "def f(a, b=1, *c, d=2, **e): pass": "define the function f of a , b by default number 1 , the others as c , "
    "only by name d by default number 2 , the other names as e",
    "def f(): pass": "define the function f without parameters",
    "def f(a: int): pass": None,
    "def f(a, /): pass": None,
    "async def f(): pass": None,
    "class A(B, C): pass": "define the class A derived from B , C",
}


@pytest.mark.parametrize("code", RULES)
def test_each_shape_has_its_phrase_or_none(code):
    found = [english for english, line in describe(ast.parse(code)) if code == "pass" or to_python(line) != "pass"]
    assert found[:1] == ([RULES[code]] if RULES[code] else [])


BLOCK = """
@cached(1)
def f(a):
    try:
        if a:
            return 1
        elif b:
            return 2
        elif c:
            return 3
        else:
            return 4
    except (A, B) as e:
        pass
    except:
        pass
    finally:
        del a
    for x in y:
        continue
    else:
        g()
try:
    pass
except* E:
    pass
"""


def test_blocks_are_said_by_their_headers_alone():
    found = {to_python(line): english for english, line in describe(ast.parse(BLOCK))}
    assert found == {
        "@ cached(1)": "decorate with ( the result of cached with number 1 )",
        "def f(a):": "define the function f of a",
        "try:": "try ,",
        "if a:": "if a ,",
        "elif b:": "otherwise if b ,",
        "elif c:": "otherwise if c ,",
        "else :": "otherwise ,",
        "except (A, B) as e:": "if ( a tuple of A , B ) is caught as e ,",
        "except:": "if any exception is caught ,",
        "finally :": "in any case ,",
        "for x in y:": "for each x in y ,",
        "return 1": "return number 1",
        "return 2": "return number 2",
        "return 3": "return number 3",
        "return 4": "return number 4",
        "pass": "do nothing",
        "del a": "delete a",
        "continue": "go on with the next turn of the loop",
        "g()": "call g",
    }


NAMES = ("json/", "html/", "argparse.py", "textwrap.py", "heapq.py", "bisect.py")


@pytest.fixture(scope="module")
def some_files():
    return [(name, path) for name, path in cpython.sources() if name.startswith(NAMES)]


@pytest.mark.slow
def test_equal_phrases_are_of_equal_lines_and_every_line_parses_as_it_was(some_files):
    lines = {}
    for _, path in some_files:
        for english, line in describe(ast.parse(path.read_bytes())):
            code = to_python(line)
            assert lines.setdefault(english, code) == code
    assert len(lines) > 500
    codes = list(filter(None, map(library.space_tokens, lines.values())))
    assert len(codes) > 0.9 * len(lines)
    assert all(canonical_form(code) for code in codes)
    assert len({canonical_form(code) for code in codes}) == len(set(codes))


def forgets_brackets(monkeypatch):
    monkeypatch.setattr(saying, "_part", saying._expression)


def takes_every_sign_for_plus(monkeypatch):
    monkeypatch.setattr(saying, "OPERATORS", dict.fromkeys(saying.OPERATORS, "plus"))


def forgets_what_is_by_default(monkeypatch):
    monkeypatch.setattr(saying, "_parameter", lambda arg, default: arg.arg)


def tells_strings_by_their_length(monkeypatch):
    monkeypatch.setattr(saying, "_constant", lambda value: f"a constant of {len(repr(value))} letters")


MIXED = """
x = a + b * c
x = (a + b) * c
x = a - b * c
def f(a, b=1): pass
def f(a, b): pass
f('aa')
f('ab')
"""


@pytest.mark.parametrize(
    "mutant",
    [forgets_brackets, takes_every_sign_for_plus, forgets_what_is_by_default, tells_strings_by_their_length],
)
def test_rules_that_do_not_tell_all_make_equal_phrases_of_other_lines(mutant, monkeypatch):
    def phrases():
        return [english for english, line in describe(ast.parse(MIXED)) if to_python(line) != "pass"]

    assert len(set(phrases())) == 7
    mutant(monkeypatch)
    assert len(set(phrases())) < 7


def test_a_file_is_in_one_split_and_a_pair_stands_once(tmp_path):
    names = [f"m{number}.py" for number in range(40)]
    files = []
    for number, name in enumerate(names):
        path = tmp_path / name
        path.write_text(f"shared = 1\nown_{number} = {number}\n")
        files.append((name, path))
    found = library.pairs(files)
    for number, name in enumerate(names):
        where = [
            split
            for split, pairs in found.items()
            if (f"set own_{number} to number {number}", f"own_{number} = {number}") in pairs
        ]
        assert where == [cpython.split(name)]
    every = [pair for pairs in found.values() for pair in pairs]
    assert len(every) == len(set(every)) == 41
    assert all(found.values())


def test_lines_to_choose_are_spaced_evenly():
    found = {"train": list(range(100)), "valid": list(range(9)), "test": list(range(3))}
    chosen = library.choose(found, 50)
    assert chosen == {"train": list(range(0, 100, 2)), "valid": [0, 1, 3, 5, 7], "test": [0, 1, 2]}


@pytest.mark.parametrize(
    ("code", "spaced"),
    [
        ("f(a.b,'x y')", "f ( a . b , 'x y' )"),
        ("if x<=1:", "if x <= 1 :"),
        ("f('a  b')", None),
        ("f('''a\nb''')", None),
        ("(", None),
        ("f(" + "a, " * 30 + ")", None),
    ],
)
def test_lines_have_spaces_between_their_tokens_unless_that_changes_them(code, spaced):
    assert library.space_tokens(code) == spaced


def test_docstrings_and_nested_statements_are_read_and_never_run(tmp_path):
    path = tmp_path / "m.py"
    path.write_text(
        dedent(
            '''
            """Docs."""
            raise SystemExit(1)
            class A:
                def f(self):
                    return "\\d"
            '''
        )
    )
    found = library.pairs([("m.py", path)])
    codes = {code for pairs in found.values() for _, code in pairs}
    assert codes == {"raise SystemExit ( 1 )", "class A :", "def f ( self ) :", r"return '\\d'"}
