"""Turns errors of the YAML parser into plain sentences with advice."""

import re
from collections.abc import Sequence

from ruamel.yaml.error import MarkedYAMLError

#: Patterns of the parser's context and problem, with messages; the first match counts.
ADVICE: Sequence[tuple[str, str]] = (
    (
        r"mapping values are not allowed",
        "a key with its `:` does not belong here. Put it on a separate line, indented like its neighbours, or "
        "quote text that contains `: `",
    ),
    (r"'\\t' that cannot start", "tab found. Indent with spaces"),
    (r"character '([^']+)' that cannot start", "text cannot begin with {0}. Quote it"),
    (
        r"flow sequence.*(?:expected ','|did not find|but got)",
        "the `[` at {place} is not closed, or a comma is missing",
    ),
    (
        r"flow mapping.*(?:expected|did not find|but got)",
        "the `{{` at {place} is not closed, or a comma is missing",
    ),
    (r"flow node.*stream end", "a `[` or `{{` is not closed"),
    (r"quoted scalar.*unexpected end of stream", "the quote at {place} is not closed"),
    (r"quoted scalar.*unknown escape character (.+)", "{0} has no meaning after a backslash. Use single quotes"),
    (r"quoted scalar.*expected escape sequence", "a backslash is not allowed here. Use single quotes"),
    (r"quoted scalar.*document separator", "the quote at {place} is not closed"),
    (r"undefined alias .([^']+)", "no anchor &{0} is defined before it. Define it, or correct the name"),
    (r"duplicate anchor .([^']+)", "the anchor &{0} is defined twice. Rename one"),
    (
        r"could not find expected ':'",
        "there is no key with a `:` at {place}. Write `KEY: VALUE`, or indent it as text",
    ),
    (
        r"block (?:mapping|collection).*expected <block end>",
        "this line is not indented like the other entries of the mapping or list at {place}, or a quote, "
        "bracket or `:` before it is missing",
    ),
    (r"another document", "`---` begins a second document. Keep only one document per file"),
    (r"sequence entries are not allowed", "a list cannot begin here. Put `- ` on a separate line"),
    (r"expected the node content, but found (.+)", "expected a value, found {0}"),
)


def explain(error: MarkedYAMLError) -> str:
    """Return a message with the problem and advice."""
    text = " ".join(str(part) for part in (error.context, error.problem) if part)
    mark = error.context_mark or error.problem_mark
    place = f"{mark.line + 1}:{mark.column + 1}" if mark else "the text"
    for pattern, advice in ADVICE:
        if match := re.search(pattern, text):
            return f"invalid YAML: {advice.format(*match.groups(), place=place)}."
    return f"invalid YAML: {text}."
