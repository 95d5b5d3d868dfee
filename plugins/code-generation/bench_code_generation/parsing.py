"""Normalizes a line of code by parsing and unparsing it; code is never executed."""

import ast
import re
import warnings
from collections.abc import Iterator

MOST_CHARACTERS = 100_000  # longer texts are no lines of code; parsing them takes memory

# What is put around a line that cannot stand alone, by its first word.
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
BODILESS = {"@", "match"}  # contexts that come with the body of the block


def meaning(text: str, newline: str = "_newline_") -> str | None:
    """Return the canonical print of a program, or None if it is none: it does not parse, or does nothing.

    `newline` is the word that ends lines. A header gets `pass` as its body, and one that needs another before or
    after itself, such as `else :` or a decorator, gets that; which one is part of the meaning, so that a `try :` is
    no `finally :`.
    """
    if len(text) > MOST_CHARACTERS:
        return None
    code = "\n".join(" ".join(line) for line in _lines(text.split(), newline))
    for kind, program in _completed(code):
        printed = _printed(program)
        if printed is not None:
            return f"{kind}\n{printed}" if kind else printed
    return None


def _lines(words: list[str], newline: str) -> Iterator[list[str]]:
    """Yield the words of each line; the spaces that a line begins with mean nothing."""
    line: list[str] = []
    for word in [*words, newline]:
        if word != newline:
            line.append(word)
        elif line:
            yield line
            line = []


def _completed(code: str) -> Iterator[tuple[str, str]]:
    """Yield programs that a line may stand for, the simplest first, each with the context that it was given."""
    yield "", code
    body = f"{code} pass" if code.endswith(":") else code
    if body != code:
        yield "", body
    first = re.match(r"@|\w+", code)
    if first and (context := CONTEXTS.get(first[0])):
        yield first[0], context.replace("{}", code if first[0] in BODILESS else body)


def _printed(program: str) -> str | None:
    """Return a program parsed and printed back, None if it does not parse or has no statement.

    Besides SyntaxError, ast raises ValueError for zero bytes, lone surrogates and numbers of too many digits,
    RecursionError and MemoryError where brackets, signs or attributes go too deep; warnings are of no interest.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            tree = ast.parse(program)
            return ast.unparse(tree) if tree.body else None
        except (SyntaxError, ValueError, OverflowError, RecursionError, MemoryError):
            return None
