"""What is wrong with a text that is not YAML, in plain words: the errors of the parser as advice."""

import re
from collections.abc import Sequence

from ruamel.yaml.error import MarkedYAMLError

#: Patterns of the parser's context and problem, and what to do; the first that matches counts.
ADVICE: Sequence[tuple[str, str]] = (
    (
        r"mapping values are not allowed",
        "a key with its `:` does not belong here. Put it on a line of its own, indented like its neighbours, or "
        "quote text that contains `: `",
    ),
    (r"'\\t' that cannot start", "there is a tab. Indent with spaces"),
    (r"character '([^']+)' that cannot start", "text cannot begin with {0}. Quote it"),
    (
        r"flow sequence.*(?:expected ','|did not find|but got)",
        "the `[` of {place} is not closed, or a comma is missing",
    ),
    (
        r"flow mapping.*(?:expected|did not find|but got)",
        "the `{{` of {place} is not closed, or a comma is missing",
    ),
    (r"flow node.*stream end", "a `[` or `{{` is not closed"),
    (r"quoted scalar.*unexpected end of stream", "the quote of {place} is not closed"),
    (r"quoted scalar.*unknown escape character (.+)", "{0} has no meaning after a backslash. Use single quotes"),
    (r"quoted scalar.*expected escape sequence", "a backslash has no meaning here. Use single quotes"),
    (r"quoted scalar.*document separator", "the quote of {place} is not closed"),
    (r"undefined alias .([^']+)", "there is no anchor &{0} before it. Define it, or correct the name"),
    (r"duplicate anchor .([^']+)", "the anchor &{0} is defined twice. Rename one"),
    (
        r"could not find expected ':'",
        "there is no key with a `:` at {place}. Write `KEY: VALUE`, or indent it as text",
    ),
    (
        r"block (?:mapping|collection).*expected <block end>",
        "this line is not indented like its neighbours of the mapping or list that begins at {place}, or a quote, "
        "bracket or `:` before it is missing",
    ),
    (r"another document", "`---` begins a second document. Keep one in a file"),
    (r"sequence entries are not allowed", "a list cannot begin here. Put `- ` on a line of its own"),
    (r"expected the node content, but found (.+)", "there should be a value, and there is {0}"),
)


def explained(error: MarkedYAMLError) -> str:
    """Return what is wrong, and what to do."""
    text = " ".join(str(part) for part in (error.context, error.problem) if part)
    mark = error.context_mark or error.problem_mark
    place = f"{mark.line + 1}:{mark.column + 1}" if mark else "the text"
    for pattern, advice in ADVICE:
        if found := re.search(pattern, text):
            return f"invalid YAML: {advice.format(*found.groups(), place=place)}."
    return f"invalid YAML: {text}."
