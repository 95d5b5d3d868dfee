"""Counts words of a text or list."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench_core import DataError
from bench_language_modeling import api
from bench_text.api import SPLITS, corpora
from bench_word_generation.settings import FOLDER, LISTS, FrequencyList

MOST_DIGITS = 15  # of a count, so that floats hold it
MOST_TOLD = 5  # mistakes in one message


@dataclass(frozen=True)
class Counted:
    """The words of a corpus."""

    name: str  # in reports
    counts: Mapping[str, int]
    about: Mapping[str, Any]  # whether reports may show its text, and what their readers should know
    file: Path | None = None  # of a list


def count(corpus: Any, data: Path) -> Counted:
    """Return the words of all splits of a text, or of a list; raise DataError that names what is wrong, and where."""
    if isinstance(corpus, FrequencyList):
        path = located(corpus, data)
        name = path.name if path.name in LISTS else corpora.label(path)
        return Counted(name, read_list(path), {"embedded": False}, path)
    text = api.text(corpus, data)
    counts = Counter[str]()
    for split in SPLITS:
        for line in text.paragraphs(split):
            counts.update(line.split())
    notice = {"notice": text.notice} if text.notice else {}
    return Counted(text.name, counts, {"embedded": text.embedded, **notice})


def reads(corpus: Any, data: Path) -> Mapping[str, str]:
    """Return the digest of all that is read; raise DataError if files are missing or empty."""
    if not isinstance(corpus, FrequencyList):
        return api.digests(corpus, data)
    path = located(corpus, data)
    return {str(corpus.file): corpora.digest(path)}


def files(corpus: Any, data: Path) -> list[Path]:
    """Return the files of a list or a text; none of a generated one."""
    return [located(corpus, data)] if isinstance(corpus, FrequencyList) else api.files(corpus, data)


def located(corpus: FrequencyList, data: Path) -> Path:
    """Return where a list is."""
    if corpus.file.parent == Path(FOLDER) and corpus.file.name in LISTS:
        return corpora.locate(FOLDER, [corpus.file.name], data)[0]
    if not corpus.file.is_file() or not corpus.file.stat().st_size:
        raise DataError(
            f"{corpus.file} is missing or empty, looked for from {Path.cwd()}. Correct `corpus:`; lists known by "
            f"name are {' and '.join(LISTS)}."
        )
    return corpus.file


def read_list(path: Path) -> dict[str, int]:
    """Return the counts of a list, `word<TAB>count` or `word count` a line, empty lines left out."""
    counts: dict[str, int] = {}
    wrong: list[str] = []
    lines = corpora.read_lines(path)
    for number, line in enumerate(lines, 1):
        word, digits = entry(line)
        if word and word not in counts and digits.isdigit() and digits.isascii() and len(digits) <= MOST_DIGITS:
            counts[word] = int(digits)
        elif line.strip():
            wrong.append(f"line {number}: {_mistake(line, lines)}")
    if wrong:
        more = [f"and {len(wrong) - MOST_TOLD:,} more lines"] if len(wrong) > MOST_TOLD else []
        raise DataError(f"{path} is no list of words and counts. {' '.join([*wrong[:MOST_TOLD], *more])}")
    if not counts:
        raise DataError(f"{path} has no words. Each line should hold a word and its count, such as `the 22761659`.")
    return counts


def entry(line: str) -> tuple[str, str]:
    """Return the word and the count that a line should hold, both empty if it holds less or more."""
    fields = line.strip(" \t").split("\t" if "\t" in line.strip(" \t") else " ")
    return (fields[0].strip(), fields[1].strip()) if len(fields) == 2 else ("", "")


def _mistake(line: str, lines: list[str]) -> str:
    """Return what is wrong with a line."""
    word, digits = entry(line)
    if not word:
        return f"{line.strip()[:60]!r} is not a word and its count, such as `the 22761659`."
    if digits.isdigit() and digits.isascii():
        if len(digits) > MOST_DIGITS:
            return f"the count of {word!r}, {digits[:40]}, has more than {MOST_DIGITS} digits."
        first = next(number for number, other in enumerate(lines, 1) if entry(other)[0] == word)
        return f"{word!r} stands there again, after line {first}. Let it stand once, with the sum of its counts."
    return f"the count of {word!r} is {digits[:40]!r}, not a whole number of at least 0."
