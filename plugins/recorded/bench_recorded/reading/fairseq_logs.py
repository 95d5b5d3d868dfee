"""Logs of `fairseq-generate`, whose lines are `S-12 TAB source`, `H-12 TAB score TAB text` and so on.

Something may stand before them that has no tabs, such as a time stamp and the name of a logger.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import fsum, log

from bench_recorded.reading.records import Output, OutputFile, Record, contiguous

LINE = re.compile(r"(?:[^\t]*[\s|:>\])])?([SHDP])-(\d+)\t(.*)")
CUT_OFF = re.compile(r"(?:[^\t]*[\s|:>\])])?[HD]-\d+")
SCORE = re.compile(r"[-+]?([\d.]+(e[-+]?\d+)?|inf|nan)(\t|$)", re.IGNORECASE)
BITS = log(2)  # nats of a bit: fairseq prints logarithms to base 2


@dataclass(frozen=True)
class Line:
    """A line that says something of an example."""

    number: int
    kind: str  # S: source; of a hypothesis, H: text, D: detokenized text, P: log-probabilities of its tokens
    id: str
    fields: list[str]


def is_hypothesis(line: str) -> bool:
    """Return whether a line is `H-0 TAB score TAB text`, behind whatever a logger writes."""
    found = LINE.fullmatch(line)
    return found is not None and found[1] == "H" and SCORE.match(found[3]) is not None


def fairseq_records(file: OutputFile) -> list[Record]:
    """Return the outputs of each example: detokenized texts (D) if there are any, else those of H.

    Log-probabilities and numbers of tokens are of the lines P; the score of H, by token, is kept as the value
    `score`.
    """
    lines = [*_lines(file)]
    kind = "D" if any(line.kind == "D" for line in lines) else "H"
    sources = {line.id: line.fields[0] for line in lines if line.kind == "S"}
    found = [replace(one, prompt=sources.get(one.id or "")) for one in contiguous(file, _outputs(file, lines, kind))]
    if not found:
        raise file.error(1, "begins a file without any line `H-0 TAB score TAB text`. Is it the log of a generation?")
    return found


def _lines(file: OutputFile) -> Iterator[Line]:
    for number, line in enumerate(file.lines, 1):
        if found := LINE.fullmatch(line):
            yield Line(number, found[1], str(int(found[2])), found[3].split("\t", 1))
        elif CUT_OFF.fullmatch(line):
            raise file.error(number, "has no score. The log is cut off; generate again.")


def _outputs(file: OutputFile, lines: list[Line], kind: str) -> Iterator[tuple[int, str, Output]]:
    """Yield the hypotheses, each with the P that follows it before another one."""
    held: tuple[int, str, Output] | None = None
    for line in lines:
        if line.kind == kind:
            if held:
                yield held
            score = file.number(line.fields[0], line.number, "score")
            held = line.number, line.id, Output((line.fields[1:] or [""])[0], values={"score": score})
        elif line.kind == "P" and held and held[1] == line.id:
            each = [file.number(one, line.number, "log-probability") for one in line.fields[0].split()]
            log_prob = file.log_prob(BITS * fsum(each), line.number, "the log-probability")
            held = (*held[:2], replace(held[2], log_prob=log_prob, tokens=len(each)))
    if held:
        yield held
