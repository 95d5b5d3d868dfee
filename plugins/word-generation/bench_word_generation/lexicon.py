"""The lexicon: which words count, and their split."""

import unicodedata
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from bench_core import DataError, Split
from bench_text.api import corpora
from bench_word_generation.plugin import WordGenerationConfig
from bench_word_generation.word_counts import Counted, entry

Counts: TypeAlias = NDArray[np.int64]

MOST_TOKENS = 2**53  # all of which a float can count


@dataclass(frozen=True)
class Lexicon:
    """Word types, the most frequent first."""

    words: list[str]
    counts: Counts  # [W]
    alphabet: str
    left_out: int  # other types of the corpus


def lexicon(found: Counted, config: WordGenerationConfig) -> Lexicon:
    """Return the words that settings keep, those of one frequency in order of their signs.

    Words are brought to Unicode's composed form, so that letters are single signs, then to lower case, and counted
    together if they are then the same. Raises DataError if none is left, or for one that `outside: error` forbids.
    """
    counts = _folded(found.counts, config.lowercase)
    of_letters = str.isalpha if config.alphabet is None else set(config.alphabet).issuperset
    spelt = {word: number for word, number in counts.items() if of_letters(word)}
    if config.outside == "error" and len(spelt) < len(counts):
        raise DataError(_outside(found, config, [word for word in counts if word not in spelt]))
    lengths = range(config.shortest, config.longest + 1)
    kept = [(-number, word) for word, number in spelt.items() if number >= config.min_count and len(word) in lengths]
    if not kept:
        raise DataError(_nothing(found, config, counts, len(spelt)))
    kept = sorted(kept)[: config.types]
    words, numbers = [word for _, word in kept], [-number for number, _ in kept]
    if sum(numbers) >= MOST_TOKENS:
        raise DataError(f"{found.name} has {sum(numbers):,} tokens, more than can be counted exactly.")
    alphabet = "".join(sorted(set().union(*words))) if config.alphabet is None else config.alphabet
    return Lexicon(words, np.array(numbers, np.int64), alphabet, len(found.counts) - len(words))


def _folded(counts: Mapping[str, int], lowercase: bool) -> Mapping[str, int]:
    folded = Counter[str]()
    for word, number in counts.items():
        folded[_fold(word, lowercase)] += number
    return folded


def _fold(word: str, lowercase: bool) -> str:
    word = word if word.isascii() else unicodedata.normalize("NFC", word)
    return unicodedata.normalize("NFC", word.lower()) if lowercase else word


def _outside(found: Counted, config: WordGenerationConfig, words: list[str]) -> str:
    """Return what to say of words with characters that are not of the alphabet, and where the first one is."""
    word, others = words[0], f", as {len(words) - 1:,} other words do" if len(words) > 1 else ""
    place = found.name
    for number, line in enumerate(corpora.read_lines(found.file) if found.file else (), 1):
        if _fold(entry(line)[0], config.lowercase) == word:
            place = f"{found.file}, line {number}"
            break
    letters = set(config.alphabet or ())
    strange = "".join(dict.fromkeys(c for c in word if not (c in letters if letters else c.isalpha())))
    return (
        f"{place}: {word!r} has {strange!r} outside of the alphabet{others}. Correct it, choose another `alphabet`, "
        "or leave such words out by `outside: drop`."
    )


def _nothing(found: Counted, config: WordGenerationConfig, counts: Mapping[str, int], spelt: int) -> str:
    seen = Counter[str]()
    for word, number in counts.items():
        seen.update(dict.fromkeys(word, number))
    most = "".join(sign for sign, _ in seen.most_common(30))
    return (
        f"{found.name} has no word to keep: of {len(counts):,} words, {spelt:,} have letters of "
        f"{'some alphabet' if config.alphabet is None else repr(config.alphabet)} alone, and none of these has "
        f"{config.shortest} to {config.longest} letters and occurs {config.min_count} times or more. Its most "
        f"frequent characters are {most!r}. Choose another `alphabet`, other lengths, or a smaller `min_count`."
    )


def drawn(whole: Counts, tokens: int, seed: int) -> Counts:
    """Return how often each type occurs in a corpus of so many tokens, drawn from the distribution of `whole`."""
    found: Counts = _generator(seed, "tokens").multinomial(tokens, whole / whole.sum()).astype(np.int64)
    return found


def divided(counts: Counts, config: WordGenerationConfig) -> dict[Split, Counts]:
    """Return how often each type occurs in each split.

    Each token falls to test by a chance of its own, `config.test`, and of those that do not, to valid by
    `config.valid`: a rare type may be missing in any of the three. In the vocabulary split, test has all tokens of a
    share of the types, all of which are equally likely to be chosen, and no others.
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
    """Return the types that occur by other counts, the most frequent first."""
    order = np.argsort(-counts, kind="stable")[: int((counts > 0).sum())]
    left_out = words.left_out + len(counts) - len(order)
    return Lexicon([words.words[place] for place in order], counts[order], words.alphabet, left_out)


def counted_splits(found: Counted, config: WordGenerationConfig) -> tuple[Lexicon, dict[Split, Counts]]:
    """Return the words that settings keep, and how often each is in each split; raise DataError for one without."""
    words = lexicon(found, config)
    if config.tokens is not None:
        words = with_counts(words, drawn(words.counts, config.tokens, config.seed))
    splits = divided(words.counts, config)
    for split, numbers in splits.items():
        if not numbers.any():
            raise DataError(
                f"the {split} split of {found.name} has no words, of {len(words.counts):,} types and "
                f"{words.counts.sum():,} tokens. Choose a larger corpus, a smaller `min_count`, or another share."
            )
    return words, splits


def _generator(seed: int, use: str) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64([seed, *use.encode()]))


def entropy(counts: Counts) -> float:
    """Return the entropy of the words, in nats."""
    probs = counts[counts > 0] / counts.sum()
    return float(-(probs * np.log(probs)).sum())


def repetitive(counts: Counts, share: float) -> int:
    """Return how many words must be drawn so that the different ones among them are, on average, such a share.

    The average share in M draws is sum_w (1 - (1 - p_w)^M) / M, which falls from 1 as M grows; M is the last at which
    it is not below `share`.
    """
    with np.errstate(divide="ignore"):  # a single word misses no draw
        missed = np.log1p(-counts[counts > 0] / counts.sum())

    def enough(number: int) -> bool:
        return bool(-np.expm1(number * missed).sum() >= share * number)

    low, high = 1, 2
    while enough(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if enough(middle) else (low, middle)
    return low
