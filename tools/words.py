"""Check the words of this repository: names in code, and the English of code and pages.

`python tools/words.py` prints every finding with file and line, and fails if there is any; `make lint` runs it. Names
are checked in product code, tools and benchmarks; English in docstrings, comments, messages, pages and suites.
Generated pages are exempt because they follow docstrings; committed reports and the changelog are records.
"""

from __future__ import annotations

import ast
import io
import re
import subprocess
import sys
import tokenize
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
PARTICIPLES = frozenset(
    [
        "told",
        "shown",
        "listed",
        "kept",
        "found",
        "given",
        "made",
        "known",
        "asked",
        "said",
        "taken",
        "written",
        "counted",
        "heard",
        "held",
        "meant",
    ]
)  #: words that must not name functions
VAGUE = frozenset({"one", "found", "own"})  #: words that must not name variables or parameters
#: Former words of this project -> the term of the field, for variables and parameters.
TERMS = {
    "opening": "prompt", "openings": "prompts", "outcome": "prediction", "outcomes": "predictions"
}  # fmt: skip
LIMITS = re.compile(
    r"_?(LONGEST|SHORTEST|LARGEST|SMALLEST|MOST|LEAST|MANY|FEW|FEWEST|SOME|SHOWN|ENOUGH|DEEPEST|MUCH)"
)
FIELD = re.compile(
    r"\s+\w+: [^#]*[^#\s]\s+# (?:of|by|for|from|that|which|whose|to|at) (?:the|its|a|an|all|each) \w+\.?$"
)
OVERRIDDEN = {("encoders", "found")}  #: (function, parameter) of interfaces that other distributions implement
#: Forms of English that native readers stumble over -> what to write instead.
FORMS = {
    r"(?:is|are|was|were|be|been) told": "reported, printed, raised",
    r"(?:is|are|was|were|be|been) said": "reported, stated",
    r"tells? apart|told apart": "distinguish",
    r"what (?:it|they) (?:was|were|is|are|has|had|have) (?:been )?\w+(?:ed|en|ade|ept) (?:of|from|by|to)": "a noun",
    r"those of (?:one|another) \w+": "a noun",
    r"(?:as|just as) (?:it|they) (?:is|are)(?= *[.,;:)\"])": "unchanged",
    r"likewise": "also, similarly",
    r"(?:by|of) (?:itself|themselves)(?= *[.,;:)])": "automatically, alone",
    r"if (?:so )?wished": "optionally",
    r"(?:is|are) (?:to be )?had": "is available",
    r"(?:is|are) held to": "is checked by",
    r"(?<!there )(?<!if )(?:is|are) (?-i:none)(?= *[.;])": "a statement without negation",
    r"but for (?:the|those|its)": "except",
    r"heed(?:s|ed)?": "respects, uses",
    r"by so (?:many|much)": "by that number",
    r"(?:numbered|made|drawn|computed|read) anew": "again",
    r"thereof|therein|hitherto|whereof|wherefore|insofar": "a plain word",
    r"none is (?:better|worse) than every": "no entry is better than all others",
    r"learnt|spelt|spoilt (?!\")": "learned, spelled, spoiled",
    r"(?:answers?|responses?|results?) (?:are|is) (?:kept|remembered)": "cached",
    r"such (?:a )?one|a such": "a noun",
    r"(?:has|have) no say": "has no effect",
    r"open actions?|chains? of (?:actions|tokens)": "candidate tokens; hypothesis, sequence",
    r"is (?:worth )?nothing(?= *[.;])": "has no effect",
}
ENGLISH = {re.compile(rf"\b(?:{form})(?!\w)", re.IGNORECASE): advice for form, advice in FORMS.items()}
GENERATED = re.compile(r"docs/(api|code)/|docs/(api|code|parts|suites|commands|quality|simulations)\.md")
RECORDS = re.compile(r"reports/|CHANGELOG\.md|suites/.*references/|.*/tests/|tests/|tools/words\.py")


class Text(NamedTuple):
    """A text and the number of its first line."""

    line: int
    text: str


def main(paths: Iterable[str]) -> int:
    """Print findings; return the exit code."""
    findings = [*check(tracked(paths))]
    print(*findings, sep="\n")
    return bool(findings)


def tracked(paths: Iterable[str]) -> list[str]:
    """Return the files to check, relative to the root of the repository."""
    command = ["git", "ls-files", "--", *(paths or ("*.py", "*.md", "*.j2", "*.yaml"))]
    listing = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [name for name in listing.splitlines() if not RECORDS.match(name) and not GENERATED.match(name)]


def check(files: Iterable[str]) -> Iterator[str]:
    """Yield all findings."""
    classes: dict[str, list[str]] = defaultdict(list)
    for name in files:
        content = (ROOT / name).read_text(encoding="utf-8")
        if name.endswith(".py"):
            tree = ast.parse(content)
            for line, problem in bad_names(tree, content):
                yield f"{name}:{line}: {problem}"
            for node in ast.walk(tree):
                if isinstance(node, ast.ClassDef):
                    classes[node.name].append(f"{name}:{node.lineno}")
        for line, problem in bad_english(texts(name, content)):
            yield f"{name}:{line}: {problem}"
    for class_name, places in classes.items():
        if len(places) > 1 and not class_name.startswith("_"):
            yield f"{places[-1]}: the class name {class_name} is also at {', '.join(places[:-1])}"


def bad_names(tree: ast.Module, content: str) -> Iterator[tuple[int, str]]:
    """Yield the line and description of each name or field comment that breaks a rule."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            if node.name.strip("_") in PARTICIPLES:
                yield node.lineno, f"the function {node.name} is named with a participle; use a verb or a noun"
            arguments = node.args
            for parameter in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
                if parameter.arg in VAGUE and (node.name, parameter.arg) not in OVERRIDDEN:
                    yield parameter.lineno, f"the parameter {parameter.arg} of {node.name} says nothing; use a noun"
                elif parameter.arg in TERMS:
                    yield (
                        parameter.lineno,
                        f"the parameter {parameter.arg} is called {TERMS[parameter.arg]} in the field",
                    )
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            if node.id in VAGUE:
                yield node.lineno, f"the variable {node.id} says nothing; use a noun"
            elif node.id in TERMS:
                yield node.lineno, f"the variable {node.id} is called {TERMS[node.id]} in the field"
            elif LIMITS.fullmatch(node.id):
                yield node.lineno, f"the constant {node.id} does not say what it limits, such as MAX_PROMPT_TOKENS"
    for number, line in enumerate(content.splitlines(), 1):
        if FIELD.match(line):
            yield number, "the comment only continues the name of the field; use a better name or a unit"


def bad_english(sources: Iterable[Text]) -> Iterator[tuple[int, str]]:
    """Yield the line and description of each form to avoid."""
    for source in sources:
        for form, advice in ENGLISH.items():
            for match in form.finditer(source.text):
                line = source.line + source.text.count("\n", 0, match.start())
                yield line, f"{match.group()!r}: write {advice}"


def texts(name: str, content: str) -> Iterator[Text]:
    """Yield the prose of a file: docstrings, messages and comments of Python, text of pages and suites."""
    if name.endswith(".py"):
        for token in tokenize.generate_tokens(io.StringIO(content).readline):
            if token.type in (tokenize.STRING, tokenize.COMMENT):
                yield Text(token.start[0], token.string)
    else:
        plain = re.sub(r"(?m)[*&][\w-]+", "", content) if name.endswith(".yaml") else content
        yield Text(1, re.sub(r"(?ms)^ *```.*?^ *```|`[^`\n]*`", lambda code: "\n" * code[0].count("\n"), plain))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
