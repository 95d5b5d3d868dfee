"""Text is UTF-8 on disk and between processes, whatever the locale says."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCES = [*ROOT.glob("bench_core/**/*.py"), *ROOT.glob("plugins/*/bench_*/**/*.py"), *ROOT.glob("benchmarks/*.py")]


def locale_bound(source):
    """Return the lines of the calls that read or write text in the encoding of the locale."""
    calls = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    return [
        call.lineno for call in calls if _is_text(call) and "encoding" not in {word.arg for word in call.keywords}
    ]


def _is_text(call):
    words = {word.arg: word.value for word in call.keywords}
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    if name == "read_text":
        return not call.args
    if name == "write_text":
        return len(call.args) < 2
    if name in ("open", "fdopen") and "Image" not in ast.unparse(call.func):
        modes = [words.get("mode"), *call.args]
        given = [mode.value for mode in modes if isinstance(mode, ast.Constant) and isinstance(mode.value, str)]
        return not any("b" in mode for mode in given) and ast.unparse(call.func) not in BINARY
    return any(word in words and ast.unparse(words[word]) == "True" for word in ("text", "universal_newlines"))


BINARY = {"gzip.open", "self.archive.open", "os.open"}


def test_calls_in_the_encoding_of_the_locale_are_found():
    source = 'p.read_text()\np.write_text(a + b)\np.open()\nopen(p, "w")\nrun(c, text=True)\nos.fdopen(1, "w")\n'
    assert locale_bound(source) == [1, 2, 3, 4, 5, 6]
    assert not locale_bound('p.read_text("utf-8")\np.open("rb")\nrun(c)\nopen(p, "w", encoding="utf-8")\n')


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_no_text_is_in_the_encoding_of_the_locale(path):
    assert not locale_bound(path.read_text(encoding="utf-8"))
