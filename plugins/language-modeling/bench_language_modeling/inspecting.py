"""Reads the files of a corpus as a run would, line by line and without torch."""

from collections import deque
from collections.abc import Iterator
from math import inf
from pathlib import Path
from typing import TypeGuard

from bench_core import DataError, Inspection, Split
from bench_language_modeling import cpython
from bench_language_modeling.corpus import files
from bench_language_modeling.plugin import LanguageModelingConfig, SequenceCompletionConfig
from bench_language_modeling.sentences import SPLITTERS
from bench_language_modeling.settings import Corpus, NamedText, TextFiles
from bench_language_modeling.text import is_paragraph
from bench_text.api import Lengths, check_tokenizer, corpora

MIN_SIZE = 5  #: minimum number of sentences of a split, or of tokens of a stream


def inspect_sentences(
    inspection: Inspection, corpus: Corpus, tokenizer: object, splitter: str, shortest: int, longest: int | None,
    setting_names: str, minimum: int = MIN_SIZE,
) -> None:  # fmt: skip
    """Note splits with fewer than `minimum` sentences that have `shortest` to `longest` tokens."""
    splitter = "lines" if isinstance(corpus, NamedText) and corpus.name == "ptb" else splitter
    seen: dict[Split, set[int]] = {}
    for split, path in _files(inspection, corpus, tokenizer).items():
        with inspection.noting():
            if _is_sampled(inspection, path):
                continue
            if splitter == "spacy":
                inspection.skipped.append(f"the sentences of {path}, which spaCy would split")
                _read_on(corpora.lines(path))
                continue
            lengths, number, fits = Lengths(tokenizer, inspection.data), 0, list[int]()
            for sentence in SPLITTERS[splitter](filter(is_paragraph, _lines(path))):
                number += 1
                least, most = lengths.add(sentence)
                if least <= (longest or inf) and most >= shortest:
                    fits.append(hash(sentence))
            if len(fits) < minimum:
                limit = f" and at most {longest}" if longest else ""
                raise DataError(
                    f"{path} has {len(fits)} sentences with at least {shortest}{limit} tokens (out of {number:,}); "
                    f"{minimum} are needed. Change {setting_names}, or choose a larger corpus."
                )
            seen[split] = {*fits}
    for split in {*seen} - {"train"}:
        inspection.compare(split, len(seen[split]), len(seen[split] & seen.get("train", set())))


def inspect_completion(config: SequenceCompletionConfig, inspection: Inspection) -> None:
    """Note splits with too few sentences to complete."""
    shortest, names = config.prefix + 1 if config.short == "drop" else 0, "`prefix` or `longest`"
    limits = config.sentences, shortest, config.longest
    inspect_sentences(inspection, config.corpus, config.tokenizer, *limits, names)


def inspect_stream(config: LanguageModelingConfig, inspection: Inspection) -> None:
    """Note splits with too few tokens."""
    for path in _files(inspection, config.corpus, config.tokenizer).values():
        with inspection.noting():
            if not _is_sampled(inspection, path):
                lengths, number = Lengths(config.tokenizer, inspection.data), 0.0
                lines = corpora.lines(path)
                while number < MIN_SIZE and (line := next(lines, None)) is not None:
                    number += 1 + lengths.add(" ".join(line.split()))[1]
                _read_on(lines)
                if number < MIN_SIZE:
                    raise DataError(f"{path} has fewer than {MIN_SIZE} tokens. Choose a larger corpus.")


def _files(inspection: Inspection, corpus: Corpus, tokenizer: object) -> dict[Split, Path]:
    """Return the files of a corpus, if it has files; note errors of the tokenizer and of the corpus."""
    with inspection.noting():
        check_tokenizer(tokenizer, inspection.data)
        if has_files(corpus):
            return files(corpus, inspection.data)
    return {}


def has_files(corpus: Corpus) -> TypeGuard[NamedText | TextFiles]:
    """Return whether a corpus is read from files."""
    return isinstance(corpus, TextFiles) or (isinstance(corpus, NamedText) and corpus.name != cpython.NAME)


def _is_sampled(inspection: Inspection, path: Path) -> bool:
    """Return whether a file is too large to be read completely; its first line is always read."""
    is_small = inspection.are_small([path])
    next(corpora.lines(path), None)
    return not is_small


def _read_on(lines: Iterator[str]) -> None:
    """Read all remaining lines, to find invalid text."""
    deque(lines, maxlen=0)


def _lines(path: Path) -> Iterator[str]:
    return (" ".join(line.split()) for line in corpora.lines(path))
