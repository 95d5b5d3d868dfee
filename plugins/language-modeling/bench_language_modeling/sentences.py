"""Splits tokenized paragraphs into sentences without changing words."""

from collections.abc import Callable, Iterable, Iterator, Mapping

from bench_core import Split
from bench_language_modeling.text import Text

ENDS = frozenset(".!?")


def by_spacy(paragraphs: Iterable[str]) -> Iterator[str]:
    """Split after spaCy's sentence-final punctuation and the quotes and brackets that follow them.

    Each paragraph becomes a Doc with the given words, so spaCy's tokenizer is not used.
    """
    import spacy
    from spacy.pipeline import Sentencizer
    from spacy.tokens import Doc

    vocabulary, cut = spacy.blank("en").vocab, Sentencizer()
    for paragraph in paragraphs:
        words = paragraph.split(" ")
        for sentence in cut(Doc(vocabulary, words)).sents:
            yield " ".join(words[sentence.start : sentence.end])


def by_rule(paragraphs: Iterable[str]) -> Iterator[str]:
    """Split after every full stop, exclamation mark and question mark that is a separate word."""
    for paragraph in paragraphs:
        words = paragraph.split(" ")
        ends = [place + 1 for place, word in enumerate(words[:-1]) if word in ENDS]
        for start, end in zip([0, *ends], [*ends, len(words)], strict=True):
            yield " ".join(words[start:end])


def by_line(paragraphs: Iterable[str]) -> Iterator[str]:
    """Yield the lines unchanged."""
    return iter(paragraphs)


SPLITTERS: Mapping[str, Callable[[Iterable[str]], Iterator[str]]] = {
    "spacy": by_spacy,
    "rule": by_rule,
    "lines": by_line,
}


def sentences(text: Text, split: Split, splitter: str) -> list[str]:
    """Return the sentences of a split, using a splitter of SPLITTERS; lines that are sentences remain unchanged."""
    return list(SPLITTERS["lines" if text.sentences else splitter](text.paragraphs(split)))
