"""Generated sentences that resemble English.

A small grammar with relative clauses, prepositional phrases and joined clauses, so that lengths vary without bound;
subjects and verbs agree in number, however far apart; the words of a kind follow Zipf's law. Numbers come from
`random.Random.random`, which is the same in all versions of Python.
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
_ZIPF = list(accumulate(1 / rank for rank in range(1, 101)))  # summed weights of the first, second, ... word


def text(settings: English, name: str, notice: str = "") -> Text:
    """Return generated sentences, one a line."""

    def read(split: Split) -> list[str]:
        speaker = Speaker(Random(f"{settings.seed}/{split}"))
        number = settings.sentences if split == "train" else max(1, settings.sentences // 10)
        return [speaker.sentence() for _ in range(number)]

    return Text(name, read, sentences=True, notice=notice)


class Speaker:
    """Says one sentence after the other; `deep` counts the phrases around, to end what could go on for ever."""

    def __init__(self, random: Random) -> None:
        self.random = random

    def sentence(self) -> str:
        """Return a statement or a question."""
        if self._chance(0.05):
            return " ".join(["does", *self._somebody(False, 0), *self._action(True, 0), "?"])
        return " ".join([*self._clause(0), "."])

    def _clause(self, deep: int) -> list[str]:
        plural = self._chance(0.35)
        words = [*self._somebody(plural, deep), *self._action(plural, deep)]
        if self._chance(0.3 / (deep + 1)):
            words += [",", self._one("joining"), *self._clause(deep + 1)]
        return words

    def _somebody(self, plural: bool, deep: int) -> list[str]:
        if not plural and self._chance(0.15):
            return [self._one("names")]
        words = [self._one("plural" if plural else "singular")]
        while self._chance(0.3):
            words.append(self._one("adjectives"))
        words.append(self._one("nouns") + ("s" if plural else ""))
        if self._chance(0.3 / (deep + 1)):
            words += [self._one("places"), *self._somebody(self._chance(0.35), deep + 1)]
        if self._chance(0.2 / (deep + 1)):
            words += ["that", *self._action(plural, deep + 1)]
        return words

    def _action(self, plural: bool, deep: int) -> list[str]:
        ending = "" if plural else "s"
        words = [self._one("adverbs")] if self._chance(0.15) else []
        kind = self.random.random()
        if kind < 0.3:
            return [*words, self._one("intransitive") + ending]
        if kind < 0.4:
            return [*words, self._one("reporting") + ending, "that", *self._clause(deep + 1)]
        return [*words, self._one("transitive") + ending, *self._somebody(self._chance(0.35), deep + 1)]

    def _chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def _one(self, kind: str) -> str:
        words = WORDS[f"{kind}:"]
        return words[bisect(_ZIPF, self.random.random() * _ZIPF[len(words) - 1])]
