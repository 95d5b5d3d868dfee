"""Opens the files of a corpus as a run would, line by line and without torch."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf
from pathlib import Path
from typing import TypeGuard

from bench_core import DataError, Inspection, Split
from bench_language_modeling import cpython
from bench_language_modeling.corpus import files
from bench_language_modeling.sentences import SPLITTERS
from bench_language_modeling.settings import Corpus, Files, Named
from bench_language_modeling.text import is_paragraph
from bench_text.api import Lengths, check_tokenizer, corpora

FEWEST = 5  #: sentences of a split, or tokens of a stream


def inspect_sentences(
    inspection: Inspection, corpus: Corpus, tokenizer: object, splitter: str, shortest: int, longest: int | None,
    settings: str, fewest: int = FEWEST,
) -> None:  # fmt: skip
    """Note splits with too few sentences of `shortest` to `longest` tokens, as `settings` say; generated ones have enough."""
    seen: dict[Split, set[int]] = {}
    for split, path in _files(inspection, corpus, tokenizer).items():
        with inspection.noting():
            if _is_sampled(inspection, path):
                continue
            cut = "lines" if isinstance(corpus, Named) and corpus.name == "ptb" else splitter
            if cut == "spacy":
                inspection.skipped.append(f"the sentences of {path}, which spaCy cuts")
            found = SPLITTERS["rule" if cut == "spacy" else cut](filter(is_paragraph, _lines(path)))
            lengths, fits, number, hashes = Lengths(tokenizer, inspection.data), 0, 0, set[int]()
            for number, sentence in enumerate(found, 1):
                least, most = lengths.add(sentence)
                if least <= (longest or inf) and most >= shortest:
                    fits += 1
                    hashes.add(hash(sentence))
            if fits < fewest and cut != "spacy":
                raise DataError(
                    f"{path} has {fits} sentences of {shortest} to {longest or 'any number of'} tokens, of {number:,}; at "
                    f"least {fewest} are needed. Change {settings}, or choose a larger corpus."
                )
            seen[split] = hashes
    for split in {*seen} - {"train"}:
        inspection.compare(split, len(seen[split]), len(seen[split] & seen.get("train", set())))


def inspect_stream(inspection: Inspection, corpus: Corpus, tokenizer: object) -> None:
    """Note splits with too few tokens."""
    for path in _files(inspection, corpus, tokenizer).values():
        with inspection.noting():
            if not _is_sampled(inspection, path):
                lengths, number = Lengths(tokenizer, inspection.data), 0.0
                for line in _lines(path):
                    number += 1 + lengths.add(line)[1]
                if number < FEWEST:
                    raise DataError(f"{path} has fewer than {FEWEST} tokens. Choose a larger corpus.")


def _files(inspection: Inspection, corpus: Corpus, tokenizer: object) -> dict[Split, Path]:
    """Return the files of a corpus; none if it is generated, or its tokenizer cannot be read, which is noted."""
    with inspection.noting():
        check_tokenizer(tokenizer, inspection.data)
        if has_files(corpus):
            return files(corpus, inspection.data)
    return {}


def has_files(corpus: Corpus) -> TypeGuard[Named | Files]:
    """Return whether a corpus is read from files."""
    return isinstance(corpus, Files) or (isinstance(corpus, Named) and corpus.name != cpython.NAME)


def _is_sampled(inspection: Inspection, path: Path) -> bool:
    """Return whether a file is too large to be read whole; read its first line."""
    is_small = inspection.are_small([path])
    next(corpora.lines(path), None)
    return not is_small


def _lines(path: Path) -> Iterator[str]:
    return (" ".join(line.split()) for line in corpora.lines(path))
