"""English text that comes with Python: docstrings of the standard library and the topics of `help()`."""

import ast
import gc
import os
import platform
import re
import sysconfig
import warnings
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from hashlib import blake2b, sha256
from pathlib import Path

from bench_language_modeling.text import Text

NAME = "cpython-docs"
VERSION = platform.python_version()
TOPICS = "pydoc_data/topics.py"
EXCLUDED = {"test", "tests", "idle_test", "site-packages", "dist-packages", "__pycache__", "encodings", "lib2to3"}

_WORD = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)?|\d+|[^\w\s]|_")
_QUOTES = str.maketrans("‘’“”", "''\"\"")
_BLOCKS = (ast.stmt, ast.ExceptHandler, ast.match_case)
_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def label() -> str:
    """Return the name of the corpus in reports, with Python's version and a digest of the files read."""
    return f"{NAME} {VERSION} ({digest()[:8]})"


@cache
def digest() -> str:
    """Return the SHA-256 of the names and contents of all files read."""
    hasher = sha256()
    for name, path in sources():
        content = path.read_bytes()
        hasher.update(f"{name} {len(content)} ".encode())
        hasher.update(content)
    return hasher.hexdigest()


@cache
def sources() -> list[tuple[str, Path]]:
    """Return the files of the standard library, sorted by name, without tests and generated tables."""
    root = sysconfig.get_path("stdlib")
    modules = []
    for folder, folders, files in os.walk(root):
        folders[:] = [name for name in folders if name not in EXCLUDED]
        paths = [Path(folder, name) for name in files if name.endswith(".py") and not name.startswith("_sysconfig")]
        modules += [(path.relative_to(root).as_posix(), path) for path in paths]
    return sorted(modules)


def text() -> Text:
    """Return one paragraph per line, with spaces between words and punctuation; each document is in a single split.

    Documents are assigned by a hash of their names: valid and test each have about a tenth. Paragraphs that occur in
    an earlier document are omitted.
    """
    splits: dict[str, list[str]] = {"train": [], "valid": [], "test": []}
    seen: set[str] = set()
    with _without_garbage_collection():
        for name, prose in documents():
            lines = [line for line in dict.fromkeys(paragraphs(prose)) if line not in seen]
            seen.update(lines)
            splits[split(name)] += lines
    return Text(label(), splits.__getitem__)


@contextmanager
def _without_garbage_collection() -> Iterator[None]:
    """Disable garbage collection: syntax trees contain no garbage, and searching them would take most of the time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def split(name: str) -> str:
    """Return the split of a document."""
    return {0: "valid", 1: "test"}.get(blake2b(name.encode(), digest_size=8).digest()[0] % 10, "train")


def documents() -> Iterator[tuple[str, str]]:
    """Yield the name and the prose of each document: the docstrings of a file, or a topic."""
    for name, path in sources():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # invalid escapes in strings
            tree = ast.parse(path.read_bytes())
        if name == TOPICS:
            yield from sorted(_topics(tree).items())
        else:
            docstrings = [ast.get_docstring(node) for node in _statements(tree) if isinstance(node, _DOCUMENTED)]
            yield name, "\n\n".join(filter(None, docstrings))


def _statements(tree: ast.Module) -> Iterator[ast.AST]:
    """Yield a module and its statements in the order of `ast.walk`, without visiting expressions, which is slow."""
    waiting: deque[ast.AST] = deque([tree])
    while waiting:
        node = waiting.popleft()
        yield node
        for name in node._fields:
            if isinstance(inside := getattr(node, name), list):
                waiting.extend(child for child in inside if isinstance(child, _BLOCKS))


def _topics(tree: ast.Module) -> dict[str, str]:
    tables = [node.value for node in tree.body if isinstance(node, ast.Assign)]
    return dict(ast.literal_eval(tables[0])) if tables else {}


def paragraphs(prose: str) -> Iterator[str]:
    """Yield English paragraphs as words, without indented code, doctests, grammar rules, tables and bare signatures.

    Words are runs of letters (which may contain an apostrophe), runs of digits, and other single characters:
    `os.path.join_all` has seven words.
    """
    for block in re.split(r"\n\s*\n", prose.translate(_QUOTES)):
        if block[:1].isspace() or ">>>" in block or "::=" in block:
            continue
        words = _WORD.findall(block)
        if sum(word[0].isalpha() for word in words) >= max(3, 0.6 * len(words)):
            yield " ".join(words)
