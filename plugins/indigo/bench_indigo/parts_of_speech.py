"""A metric of which parts of speech are generated first, according to the tags of a treebank."""

import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Self

from bench_core import Prediction, SuiteError, TaskInfo
from bench_indigo.agreement import UNKNOWN, Ratio
from bench_indigo.plugin import FirstPartsConfig
from bench_indigo.trajectory import orders
from bench_text.api import join

WORD_START = "Ġ"  # prefix of byte pairs that begin a word


class FirstParts(Ratio):
    """Share of a part of speech among the words generated first, or among all words.

    Pooled over outputs; shorter outputs have fewer first words. The pieces of the finished output are joined into
    words, which are tagged; a word counts as generated when its first piece is generated.
    """

    label = "First parts of speech"
    unit, factor = "%", 100.0

    def __init__(
        self, config: FirstPartsConfig, vocabulary: Sequence[str] = (), tags: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(config)
        self.vocabulary, self.tags = vocabulary, tags or {}
        source = f"|tags:{tags['name']}" if tags else ""
        self.signature = f"part:{config.part}|first:{config.first or 'all'}{source}"

    def prepare(self, info: TaskInfo, references: Mapping[int, Sequence[str]]) -> Self:
        """Read the task's tags; raise SuiteError if it has none."""
        tags = info.extras.get("tags")
        if not tags:
            raise SuiteError(
                "first-parts needs the parts of speech of words, which this task does not provide. For translation, "
                "add a treebank to the task, such as `tags: ud-english-ewt`; otherwise leave this metric out "
                "for this task."
            )
        return type(self)(self.config, info.vocabulary, tags)

    def measure(self, predictions: Sequence[Prediction]) -> Iterator[Sequence[float]]:
        """Yield the number of first words with the part of speech, and the number of first words."""
        first = map(self._first, predictions, orders(predictions))
        return (
            [sum(part(word, self.tags["words"]) == self.config.part for word in words), len(words)] for words in first
        )

    def _first(self, prediction: Prediction, order: Sequence[int]) -> list[str]:
        """Return the first words in generation order."""
        tokens = [self.vocabulary[token] for token in prediction.hypotheses[0].tokens]
        groups = generation_groups(self.tags["kind"], tokens, order)[: self.config.first]
        return [self._word([tokens[place] for place in places]) for places in groups]

    def _word(self, pieces: Sequence[str]) -> str:
        return join(self.tags["kind"], pieces).strip()


def generation_groups(kind: str, tokens: Sequence[str], order: Sequence[int]) -> list[list[int]]:
    """Return the token positions of each word; words are ordered by when their first token was generated."""
    turns = {place: turn for turn, place in enumerate(order)}
    return sorted(group_tokens(kind, tokens), key=lambda places: min(turns[place] for place in places))


def group_tokens(kind: str, tokens: Sequence[str]) -> list[list[int]]:
    """Return the token positions of each word; spaces between characters belong to no word."""
    if kind == "word":
        return [[place] for place in range(len(tokens))]
    words: list[list[int]] = []
    fresh = True
    for place, token in enumerate(tokens):
        if kind == "char" and token == " ":
            fresh = True
            continue
        if fresh or token == UNKNOWN or (kind == "bpe" and token.startswith(WORD_START)):
            words.append([])
        words[-1].append(place)
        fresh = token == UNKNOWN
    return words


def part(word: str, known: Mapping[str, str]) -> str:
    """Return the part of speech of a word: the tag of its form or lower-cased form, or a guess from its spelling.

    Unknown words with letters are PROPN if they begin with a capital, and X otherwise. Without letters, they are NUM
    if they have digits, PUNCT if they consist of punctuation, and SYM otherwise. `<unk>` is X.
    """
    tag = known.get(word) or known.get(word.lower())
    if tag:
        return tag
    kinds = {unicodedata.category(sign) for sign in word}
    if word == UNKNOWN or not kinds:
        return "X"
    if any(kind[0] == "L" for kind in kinds):
        return "PROPN" if word[0].isupper() else "X"
    if any(kind[0] == "N" for kind in kinds):
        return "NUM"
    return "PUNCT" if all(kind[0] == "P" for kind in kinds) else "SYM"
