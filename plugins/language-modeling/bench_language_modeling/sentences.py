"""Splits tokenized paragraphs into sentences; words are never changed."""

from collections.abc import Callable, Iterable, Iterator, Mapping

from bench_core import Split
from bench_language_modeling.text import Text

ENDS = frozenset(".!?")


def by_spacy(paragraphs: Iterable[str]) -> Iterator[str]:
    """Cut after spaCy's sentence-ending signs and the quotes and brackets that follow them.

    Each paragraph becomes a Doc of its own words, so that spaCy's tokenizer has no say.
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
    """Cut after every full stop, exclamation and question mark that is a word of its own."""
    for paragraph in paragraphs:
        words = paragraph.split(" ")
        ends = [place + 1 for place, word in enumerate(words[:-1]) if word in ENDS]
        for start, end in zip([0, *ends], [*ends, len(words)], strict=True):
            yield " ".join(words[start:end])


def by_line(paragraphs: Iterable[str]) -> Iterator[str]:
    """Take each line as it is."""
    return iter(paragraphs)


SPLITTERS: Mapping[str, Callable[[Iterable[str]], Iterator[str]]] = {
    "spacy": by_spacy,
    "rule": by_rule,
    "lines": by_line,
}


def sentences(text: Text, split: Split, splitter: str) -> list[str]:
    """Return the sentences of a split, by a name in `SPLITTERS`; lines that are sentences stay as they are."""
    return list(SPLITTERS["lines" if text.sentences else splitter](text.paragraphs(split)))
