"""Counts the words of a text or of a word list."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench_core import DataError
from bench_language_modeling import api
from bench_text.api import SPLITS, corpora
from bench_word_generation.settings import FOLDER, LISTS, FrequencyList, HiddenMarkovWords

MAX_DIGITS = 15  # digits of a count that is exact in float64
MAX_MISTAKES = 5  # mistakes per message


@dataclass(frozen=True)
class WordCounts:
    """The words of a corpus and their counts."""

    name: str
    counts: Mapping[str, int]
    about: Mapping[str, Any]  # for reports: whether the text is embedded, and its notice
    file: Path | None = None  # None for a text


def count(corpus: Any, data: Path) -> WordCounts:
    """Count the words of a list, or of all splits of a text; raise DataError with the place of the error."""
    if isinstance(corpus, FrequencyList):
        path = locate(corpus, data)
        name = path.name if path.name in LISTS else corpora.label(path)
        return WordCounts(name, read_list(path), {"embedded": False}, path)
    if isinstance(corpus, HiddenMarkovWords):
        from bench_word_generation.hidden_words import sample_word_counts  # imports numpy

        return WordCounts(_label(corpus), sample_word_counts(corpus), {"embedded": True})
    text = api.text(corpus, data)
    counts = Counter[str]()
    for split in SPLITS:
        for line in text.paragraphs(split):
            counts.update(line.split())
    notice = {"notice": text.notice} if text.notice else {}
    return WordCounts(text.name, counts, {"embedded": text.embedded, **notice})


def reads(corpus: Any, data: Path) -> Mapping[str, str]:
    """Return the digests of all files that are read; raise DataError if a file is missing or empty."""
    if isinstance(corpus, HiddenMarkovWords):
        return {}
    if not isinstance(corpus, FrequencyList):
        return api.digests(corpus, data)
    path = locate(corpus, data)
    return {str(corpus.file): corpora.digest(path)}


def files(corpus: Any, data: Path) -> list[Path]:
    """Return the files of a list or text; an empty list for a generated text."""
    if isinstance(corpus, HiddenMarkovWords):
        return []
    return [locate(corpus, data)] if isinstance(corpus, FrequencyList) else api.files(corpus, data)


def _label(corpus: HiddenMarkovWords) -> str:
    settings = corpus.model_dump(exclude={"name"}, exclude_none=True)
    return f"hmm ({', '.join(f'{key} {value}' for key, value in settings.items())})"


def locate(corpus: FrequencyList, data: Path) -> Path:
    """Return the path of a list; raise DataError if it is missing or empty."""
    if corpus.file.parent == Path(FOLDER) and corpus.file.name in LISTS:
        return corpora.locate(FOLDER, [corpus.file.name], data)[0]
    if not corpus.file.is_file() or not corpus.file.stat().st_size:
        raise DataError(
            f"{corpus.file} is missing or empty. Relative paths start from {Path.cwd()}. Correct `corpus:`, or use "
            f"a known list: {' or '.join(LISTS)}."
        )
    return corpus.file


def read_list(path: Path) -> dict[str, int]:
    """Return the counts of a list with `word<TAB>count` or `word count` per line; empty lines are ignored."""
    counts: dict[str, int] = {}
    mistakes: list[str] = []
    lines = corpora.read_lines(path)
    for number, line in enumerate(lines, 1):
        word, digits = entry(line)
        if word and word not in counts and digits.isdigit() and digits.isascii() and len(digits) <= MAX_DIGITS:
            counts[word] = int(digits)
        elif line.strip():
            mistakes.append(f"line {number}: {_mistake(line, lines)}")
    if mistakes:
        more = [f"and {len(mistakes) - MAX_MISTAKES:,} more lines"] if len(mistakes) > MAX_MISTAKES else []
        raise DataError(f"{path} is not a list of words and counts. {' '.join([*mistakes[:MAX_MISTAKES], *more])}")
    if not counts:
        raise DataError(f"{path} has no words. Each line should have a word and its count, such as `the 22761659`.")
    return counts


def entry(line: str) -> tuple[str, str]:
    """Return the word and the count in a line; both are empty unless it has exactly two fields."""
    fields = line.strip(" \t").split("\t" if "\t" in line.strip(" \t") else " ")
    return (fields[0].strip(), fields[1].strip()) if len(fields) == 2 else ("", "")


def _mistake(line: str, lines: list[str]) -> str:
    """Return the error in a line."""
    word, digits = entry(line)
    if not word:
        return f"{line.strip()[:60]!r} is not a word and its count, such as `the 22761659`."
    if digits.isdigit() and digits.isascii():
        if len(digits) > MAX_DIGITS:
            return f"the count of {word!r}, {digits[:40]}, has more than {MAX_DIGITS} digits."
        first = next(number for number, other in enumerate(lines, 1) if entry(other)[0] == word)
        return f"{word!r} is already in line {first}. Keep one line with the sum of the counts."
    return f"the count of {word!r} is {digits[:40]!r}, not a non-negative whole number."
