"""The lexicon: the selected words and their splits."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, NamedTuple, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from bench_core import DataError, Split
from bench_text.api import corpora
from bench_word_generation.plugin import WordGenerationConfig
from bench_word_generation.spelling import fold, misplaced
from bench_word_generation.word_counts import WordCounts, entry

Counts: TypeAlias = NDArray[np.int64]
Reason: TypeAlias = Literal["sign", "length", "rare"]  # the first that applies to a word

REASONS: tuple[Reason, ...] = get_args(Reason)
MAX_TOKENS = 2**53  # number of tokens that can be counted exactly in float64


class Excluded(NamedTuple):
    """The number of types and of tokens that a corpus has, but not its lexicon."""

    types: int
    tokens: int

    @classmethod
    def of(cls, numbers: Iterable[int]) -> "Excluded":
        """Count types by their numbers of tokens."""
        tokens = [*numbers]
        return cls(len(tokens), sum(tokens))


@dataclass(frozen=True)
class Lexicon:
    """Word types, most frequent first."""

    words: list[str]
    counts: Counts  # [W]
    alphabet: str
    left_out: Mapping[Reason, Excluded]


def lexicon(corpus: WordCounts, config: WordGenerationConfig) -> Lexicon:
    """Return the words selected by the settings; words of equal frequency are sorted by characters.

    Words are read in NFC and lower-cased with `lowercase`; counts of equal words are added. A type is left out for a
    `sign` that no word has, for its `length`, or because it is `rare`: below `min_count`, or not one of the `types`
    most frequent. Raises DataError if no word is selected, or for a word that `outside: error` forbids.
    """
    counts = _fold_counts(corpus.counts, config)
    letters = None if config.alphabet is None else frozenset(config.alphabet)
    valid = {word: number for word, number in counts.items() if not misplaced(word, letters)}
    if config.outside == "error" and len(valid) < len(counts):
        raise DataError(_outside_message(corpus, config, [word for word in counts if word not in valid]))
    lengths = range(config.shortest, config.longest + 1)
    fitting = {word: number for word, number in valid.items() if len(word) in lengths}
    frequent = [(-number, word) for word, number in fitting.items() if number >= config.min_count]
    if not frequent:
        raise DataError(_no_words_message(corpus, config, counts, len(valid)))
    selected = {word: -number for number, word in sorted(frequent)[: config.types]}
    if (tokens := sum(selected.values())) >= MAX_TOKENS:
        raise DataError(f"{corpus.name} has {tokens:,} tokens, too many to count exactly. Use smaller counts.")
    alphabet = "".join(sorted(set().union(*selected))) if config.alphabet is None else config.alphabet
    stages = counts, valid, fitting, selected
    return Lexicon([*selected], np.array([*selected.values()], np.int64), alphabet, _left_out(stages))


def _left_out(stages: Iterable[Mapping[str, int]]) -> dict[Reason, Excluded]:
    """Return what is left out for each reason, by which each of `stages` has words that the next has not."""
    sizes = [Excluded.of(words.values()) for words in stages]
    return {
        reason: Excluded(before.types - after.types, before.tokens - after.tokens)
        for reason, (before, after) in zip(REASONS, pairwise(sizes), strict=True)
    }


def _fold_counts(counts: Mapping[str, int], config: WordGenerationConfig) -> Mapping[str, int]:
    folded = Counter[str]()
    for word, number in counts.items():
        folded[fold(word, config.lowercase, config.language)] += number
    return folded


def _outside_message(corpus: WordCounts, config: WordGenerationConfig, words: list[str]) -> str:
    """Return the error message for words with characters outside the alphabet, with the place of the first word."""
    word, others = words[0], ""
    if more := len(words) - 1:
        others = f", like {more:,} other word{'' if more == 1 else 's'},"
    place = corpus.name
    for number, line in enumerate(corpora.read_lines(corpus.file) if corpus.file else (), 1):
        if fold(entry(line)[0], config.lowercase, config.language) == word:
            place = f"{corpus.file}, line {number}"
            break
    invalid = misplaced(word, None if config.alphabet is None else frozenset(config.alphabet))
    return (
        f"{place}: {word!r}{others} has characters outside the alphabet: {invalid!r}. Correct it, choose another "
        "`alphabet`, or exclude such words with `outside: drop`."
    )


def _no_words_message(corpus: WordCounts, config: WordGenerationConfig, counts: Mapping[str, int], valid: int) -> str:
    characters = Counter[str]()
    for word, number in counts.items():
        characters.update(dict.fromkeys(word, number))
    frequent = "".join(character for character, _ in characters.most_common(30))
    return (
        f"{corpus.name} has no suitable words: of {len(counts):,} words, {valid:,} consist of letters in "
        f"{'any alphabet' if config.alphabet is None else repr(config.alphabet)}, and none of these has "
        f"{config.shortest} to {config.longest} letters and at least {config.min_count} occurrences. The most "
        f"frequent characters are {frequent!r}. Choose another `alphabet`, other lengths, or a smaller `min_count`."
    )


def sample_counts(counts: Counts, tokens: int, seed: int) -> Counts:
    """Return the counts of types in a corpus of `tokens` tokens, sampled from the distribution of `counts`."""
    samples: Counts = _generator(seed, "tokens").multinomial(tokens, counts / counts.sum()).astype(np.int64)
    return samples


def divide(counts: Counts, config: WordGenerationConfig) -> dict[Split, Counts]:
    """Return the count of each type in each split.

    Each token goes to test with probability `config.test`, and otherwise to valid with probability `config.valid`, so
    any split may lack a rare type. In the vocabulary split, test has all tokens of a uniformly sampled share of the
    types, and no tokens of other types.
    """
    if config.split == "vocabulary":
        order = _generator(config.seed, "types").permutation(len(counts))
        test = counts.copy()
        test[order[max(1, round(config.test * len(counts))) :]] = 0
    else:
        test = _generator(config.seed, "test").binomial(counts, config.test)
    rest = counts - test
    valid = _generator(config.seed, "valid").binomial(rest, config.valid)
    return {"train": rest - valid, "valid": valid, "test": test}


def with_counts(words: Lexicon, counts: Counts) -> Lexicon:
    """Return the types with nonzero `counts`, most frequent first."""
    order = np.argsort(-counts, kind="stable")[: int((counts > 0).sum())]
    types, tokens = words.left_out["rare"]
    never = Excluded.of(words.counts[counts == 0].tolist())
    left_out = {**words.left_out, "rare": Excluded(types + never.types, tokens + never.tokens)}
    return Lexicon([words.words[place] for place in order], counts[order], words.alphabet, left_out)


def make_splits(corpus: WordCounts, config: WordGenerationConfig) -> tuple[Lexicon, dict[Split, Counts]]:
    """Return the words selected by the settings, and their counts by split; raise DataError for an empty split."""
    words = lexicon(corpus, config)
    if config.tokens is not None:
        words = with_counts(words, sample_counts(words.counts, config.tokens, config.seed))
    splits = divide(words.counts, config)
    for split, counts in splits.items():
        if not counts.any():
            raise DataError(
                f"the {split} split of {corpus.name} has no words; all splits have {len(words.counts):,} types and "
                f"{words.counts.sum():,} tokens. Choose a larger corpus, a smaller `min_count`, or other shares."
            )
    return words, splits


def _generator(seed: int, use: str) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64([seed, *use.encode()]))


def entropy(counts: Counts) -> float:
    """Return the entropy of the words, in nats."""
    probs = counts[counts > 0] / counts.sum()
    return float(-(probs * np.log(probs)).sum())


def sample_size(counts: Counts, share: float) -> int:
    """Return the largest number of samples whose expected share of distinct words is at least `share`.

    The expected share in M samples is sum_w (1 - (1 - p_w)^M) / M, which falls from 1 as M grows.
    """
    with np.errstate(divide="ignore"):  # log 0: no sample misses a single word
        missed = np.log1p(-counts[counts > 0] / counts.sum())

    def is_diverse(number: int) -> bool:
        return bool(-np.expm1(number * missed).sum() >= share * number)

    low, high = 1, 2
    while is_diverse(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if is_diverse(middle) else (low, middle)
    return low
