"""Normalizes lines of code by parsing and unparsing; code is never executed."""

import ast
import re
import warnings
from collections.abc import Iterator

MAX_CHARS = 100_000  # longer texts are not lines of code, and parsing them takes memory

# Templates that complete a line that cannot stand alone, by its first word.
CONTEXTS = {
    "else": "if x: pass\n{}",
    "elif": "if x: pass\n{}",
    "except": "try: pass\n{}",
    "finally": "try: pass\n{}",
    "try": "{}\nfinally: pass",
    "@": "{}\ndef f(): pass",
    "match": "{}\n case _: pass",
    "case": "match x:\n {}",
}
BODILESS = {"@", "match"}  # contexts that contain the body of the block


def canonical_form(text: str, newline: str = "_newline_") -> str | None:
    """Return the unparsed syntax tree of a program, or None if it does not parse or has no statement.

    `newline` is the word that ends lines. A header is completed by the body `pass`, and by another block before or
    after it where needed, e.g. for `else :` or a decorator. The other block's kind is part of the canonical form, so
    `try :` and `finally :` differ.
    """
    if len(text) > MAX_CHARS:
        return None
    code = "\n".join(" ".join(line) for line in _lines(text.split(), newline))
    for kind, program in _completions(code):
        printed = _unparse(program)
        if printed is not None:
            return f"{kind}\n{printed}" if kind else printed
    return None


def _lines(words: list[str], newline: str) -> Iterator[list[str]]:
    """Yield the words of each nonempty line; indentation is ignored."""
    line: list[str] = []
    for word in [*words, newline]:
        if word != newline:
            line.append(word)
        elif line:
            yield line
            line = []


def _completions(code: str) -> Iterator[tuple[str, str]]:
    """Yield contexts that complete a line ("" for none), each with the completed program, simplest first."""
    yield "", code
    body = f"{code} pass" if code.endswith(":") else code
    if body != code:
        yield "", body
    first = re.match(r"@|\w+", code)
    if first and (context := CONTEXTS.get(first[0])):
        yield first[0], context.replace("{}", code if first[0] in BODILESS else body)


def _unparse(program: str) -> str | None:
    """Parse and unparse a program; return None if it does not parse or has no statement.

    Besides SyntaxError, ast raises ValueError for zero bytes, lone surrogates and numbers with too many digits, and
    RecursionError and MemoryError if brackets, operators or attributes are nested too deeply.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            tree = ast.parse(program)
            return ast.unparse(tree) if tree.body else None
        except (SyntaxError, ValueError, OverflowError, RecursionError, MemoryError):
            return None
