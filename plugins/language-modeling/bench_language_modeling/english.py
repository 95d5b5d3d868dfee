"""Generated sentences that resemble English.

A small grammar has relative clauses, prepositional phrases and coordination, so that lengths are unbounded. Subjects
and verbs agree in number at any distance; words of each kind follow Zipf's law. Random numbers come from
`random.Random.random`, whose results are the same in all versions of Python.
"""

from bisect import bisect
from itertools import accumulate
from random import Random

from bench_core import Split
from bench_language_modeling.settings import English
from bench_language_modeling.text import Text

LEXICON = """
nouns: king queen dog cat horse bird river mountain garden house door window table road village teacher doctor
farmer sailor painter writer student soldier neighbor friend stranger brother sister letter book song picture ship
train bridge tower market forest field lake island cloud storm star lamp clock mirror key coat basket kettle violin
lantern harbor orchard meadow valley castle temple museum engine wheel ladder hammer needle thread feather shadow
puzzle riddle secret promise journey

adjectives: old new small great young good quiet red green white black blue cold warm bright dark long tall short
strong gentle clever proud honest famous curious silent broken hidden golden wooden ancient narrow distant heavy
hollow faithful restless crooked

transitive: see know find follow like remember help call paint visit admire draw open guard lift borrow describe
mention discover protect ignore greet mend praise question collect deliver measure order prefer repair return reward
support trust warn welcome

intransitive: sleep sing wait work rest travel listen smile tremble whisper wander stumble shiver

reporting: say believe hope claim suspect explain

adverbs: often never always slowly quickly quietly sometimes gladly rarely suddenly carefully bravely

places: near in behind with beside under above across from against beyond without

names: Anna John Maria Peter Clara Tom Ruth Ivan Lena Oscar Nora Hugo Edith Felix Bruno Greta

singular: the this every another

plural: the some many these

joining: and but because while
"""
WORDS = {kind: words for kind, *words in map(str.split, LEXICON.split("\n\n"))}
_ZIPF = list(accumulate(1 / rank for rank in range(1, 101)))  # cumulative weights of the first, second, ... word


def text(settings: English, name: str, notice: str = "") -> Text:
    """Return generated sentences, one per line."""

    def read(split: Split) -> list[str]:
        grammar = EnglishGrammar(Random(f"{settings.seed}/{split}"))
        number = settings.sentences if split == "train" else max(1, settings.sentences // 10)
        return [grammar.sentence() for _ in range(number)]

    return Text(name, read, sentences=True, notice=notice)


class EnglishGrammar:
    """Generates sentences; further phrases become less probable with `depth`, the number of enclosing phrases."""

    def __init__(self, random: Random) -> None:
        self.random = random

    def sentence(self) -> str:
        """Return a statement or a question."""
        if self._happens(0.05):
            return " ".join(["does", *self._noun_phrase(False, 0), *self._verb_phrase(True, 0), "?"])
        return " ".join([*self._clause(0), "."])

    def _clause(self, depth: int) -> list[str]:
        plural = self._happens(0.35)
        words = [*self._noun_phrase(plural, depth), *self._verb_phrase(plural, depth)]
        if self._happens(0.3 / (depth + 1)):
            words += [",", self._word("joining"), *self._clause(depth + 1)]
        return words

    def _noun_phrase(self, plural: bool, depth: int) -> list[str]:
        if not plural and self._happens(0.15):
            return [self._word("names")]
        words = [self._word("plural" if plural else "singular")]
        while self._happens(0.3):
            words.append(self._word("adjectives"))
        words.append(self._word("nouns") + ("s" if plural else ""))
        if self._happens(0.3 / (depth + 1)):
            words += [self._word("places"), *self._noun_phrase(self._happens(0.35), depth + 1)]
        if self._happens(0.2 / (depth + 1)):
            words += ["that", *self._verb_phrase(plural, depth + 1)]
        return words

    def _verb_phrase(self, plural: bool, depth: int) -> list[str]:
        ending = "" if plural else "s"
        words = [self._word("adverbs")] if self._happens(0.15) else []
        kind = self.random.random()
        if kind < 0.3:
            return [*words, self._word("intransitive") + ending]
        if kind < 0.4:
            return [*words, self._word("reporting") + ending, "that", *self._clause(depth + 1)]
        return [*words, self._word("transitive") + ending, *self._noun_phrase(self._happens(0.35), depth + 1)]

    def _happens(self, probability: float) -> bool:
        return self.random.random() < probability

    def _word(self, kind: str) -> str:
        words = WORDS[f"{kind}:"]
        return words[bisect(_ZIPF, self.random.random() * _ZIPF[len(words) - 1])]
