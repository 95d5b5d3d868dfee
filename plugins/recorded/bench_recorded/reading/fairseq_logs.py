"""Logs of `fairseq-generate`, with lines such as `S-12 TAB source` and `H-12 TAB score TAB text`.

Lines may have a prefix without tabs, such as a timestamp and the name of a logger.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import fsum, log

from bench_recorded.reading.records import Output, OutputFile, OutputRecord, group_by_id

LINE = re.compile(r"(?:[^\t]*[\s|:>\])])?([SHDP])-(\d+)\t(.*)")
TRUNCATED = re.compile(r"(?:[^\t]*[\s|:>\])])?[HD]-\d+")
SCORE = re.compile(r"[-+]?([\d.]+(e[-+]?\d+)?|inf|nan)(\t|$)", re.IGNORECASE)
NATS_PER_BIT = log(2)  # fairseq prints logarithms to base 2


@dataclass(frozen=True)
class LogLine:
    """A line about an example."""

    number: int
    kind: str  # S: source; H: text of a hypothesis, D: detokenized text, P: log-probabilities of its tokens
    id: str
    fields: list[str]


def is_hypothesis(line: str) -> bool:
    """Return whether a line is `H-0 TAB score TAB text`, possibly after a logger's prefix."""
    match = LINE.fullmatch(line)
    return match is not None and match[1] == "H" and SCORE.match(match[3]) is not None


def fairseq_records(file: OutputFile) -> list[OutputRecord]:
    """Return the outputs of each example: detokenized texts (D) if there are any, or else the texts of H lines.

    Log-probabilities and token counts are read from P lines. The value `score` is the length-normalized score of the
    D or H line.
    """
    lines = [*_lines(file)]
    kind = "D" if any(line.kind == "D" for line in lines) else "H"
    sources = {line.id: line.fields[0] for line in lines if line.kind == "S"}
    rows = [replace(row, prompt=sources.get(row.id or "")) for row in group_by_id(file, _outputs(file, lines, kind))]
    if not rows:
        raise file.error(1, "starts a file without lines `H-0 TAB score TAB text`. Is it a log of fairseq-generate?")
    return rows


def _lines(file: OutputFile) -> Iterator[LogLine]:
    for number, line in enumerate(file.lines, 1):
        if match := LINE.fullmatch(line):
            yield LogLine(number, match[1], str(int(match[2])), match[3].split("\t", 1))
        elif TRUNCATED.fullmatch(line):
            raise file.error(number, "has no score, so the log is truncated. Generate again.")


def _outputs(file: OutputFile, lines: list[LogLine], kind: str) -> Iterator[tuple[int, str, Output]]:
    """Yield the hypotheses, each with the log-probability from the P line that precedes the next hypothesis."""
    last: tuple[int, str, Output] | None = None
    for line in lines:
        if line.kind == kind:
            if last:
                yield last
            score = file.number(line.fields[0], line.number, "score")
            last = line.number, line.id, Output((line.fields[1:] or [""])[0], values={"score": score})
        elif line.kind == "P" and last and last[1] == line.id:
            bits = [file.number(word, line.number, "log-probability") for word in line.fields[0].split()]
            log_prob = file.log_prob(NATS_PER_BIT * fsum(bits), line.number, "the log-probability")
            last = (*last[:2], replace(last[2], log_prob=log_prob, tokens=len(bits)))
    if last:
        yield last
