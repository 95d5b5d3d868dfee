"""A generated parallel language: English-like sentences and their exact translations.

Sources are subject-verb-object, with articles, prepositions, auxiliaries and relative clauses after the noun. Targets
are subject-object-verb: no definite article, cases in place of prepositions, adjectives that agree with the class and
number of their noun, verbs that agree with their subject in the past too, participles before the noun, and no plural
after a numeral. Some words are read in their context: `with` a person is a companion and `with` a thing a tool; to
know, to draw and to leave are other verbs for persons than for things. A source has one translation and a translation
one source. Numbers come from `random.Random.random`, which is the same in all versions of Python.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain
from math import log
from random import Random

from bench_core import Split
from bench_translation.settings import Invented

LEXICON = {
    "persons": "king queen farmer sailor doctor teacher soldier painter sister brother singer baker hunter girl",
    "things": "book letter lamp key coat basket mirror ladder apple ring boat chair drum song",
    "places": "garden forest river market castle island tower bridge",
    "adjectives": "old young small great quiet red green cold bright long clever angry",
    "adverbs": "often quietly today always gladly",
    "joining": "and but while",
    "singular": "the a every",
    "plural": "the some two three",
    "intransitive": "sleep/sleeps/slept work/works/worked sing/sings/sang wait/waits/waited dance/dances/danced "
    "travel/travels/traveled",
    "transitive": "see/sees/saw find/finds/found follow/follows/followed paint/paints/painted like/likes/liked "
    "watch/watches/watched carry/carries/carried hear/hears/heard know/knows/knew draw/draws/drew leave/leaves/left",
    "ditransitive": "give/gives/gave show/shows/showed send/sends/sent bring/brings/brought sell/sells/sold",
}
WORDS = {kind: words.split() for kind, words in LEXICON.items()}
NUMERALS = ("two", "three")
AMBIGUOUS = ("know", "draw", "leave")  # of which persons and things make different verbs
CASES = {"subject": "", "object": "n", "to": "le", "in": "sta", "persons": "kun", "things": "mi"}
VOWELS = {"a": ("a", "i"), "o": ("o", "u")}  # singular and plural of each class of nouns


@dataclass(frozen=True)
class Sentence:
    """A sentence in both languages, and how surprising it is."""

    source: str
    target: str
    nats: float  # -log p


@dataclass(frozen=True)
class Phrase:
    """A determiner, perhaps an adjective, and a noun."""

    determiner: str
    adjective: str | None
    noun: str
    plural: bool

    @property
    def english(self) -> list[str]:
        """Return its English words."""
        rest = [*([self.adjective] if self.adjective else []), self.noun + "s" * self.plural]
        vowel = self.determiner == "a" and rest[0][0] in "aeiou"
        return ["an" if vowel else self.determiner, *rest]

    def translated(self, role: str) -> list[str]:
        """Return its words in the case of a role."""
        stems, plural = lexicon(), self.plural and self.determiner not in NUMERALS
        ending = VOWELS[classes()[self.noun]][plural]
        before = [] if self.determiner == "the" else [stems[self.determiner]]
        middle = [stems[self.adjective] + ending] if self.adjective else []
        return [*before, *middle, stems[self.noun] + ending + CASES[role]]


class Speaker:
    """Says one sentence after the other, and counts the nats of its choices."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.nats = 0.0

    def sentence(self) -> Sentence:
        """Return a question, a statement, or two."""
        self.nats, stems = 0.0, lexicon()
        if self._chance(0.1):
            source, target = self._clause(question=True)
            return Sentence(" ".join([*source, "?"]), " ".join([*target, stems["does"], "?"]), self.nats)
        source, target = self._clause()
        if self._chance(0.15):
            word, (more, translated) = self._one("joining"), self._clause()
            source, target = [*source, word, *more], [*target, stems[word], *translated]
        return Sentence(" ".join([*source, "."]), " ".join([*target, "."]), self.nats)

    def _clause(self, question: bool = False) -> tuple[list[str], list[str]]:
        """Return a clause in both languages."""
        subject = self._phrase("persons")
        whose, relative = self._relative(subject.plural) if self._chance(0.12) else ([], [])
        past, negated = self._chance(0.4), self._chance(0.15)
        adverb = [self._one("adverbs")] if self._chance(0.2) else []
        verb, stem, after, objects = self._action()
        base, *finite = verb.split("/")
        helper = "did" if past else "do" if subject.plural else "does"
        who, how = [*subject.english, *whose], ["not"] * negated + adverb
        if question:
            source = [helper, *who, *how, base, *after]
        elif negated:
            source = [*who, helper, *how, base, *after]
        else:
            source = [*who, *how, finite[1] if past else base if subject.plural else finite[0], *after]
        ending = ("t" if past else "s") + ("en" if subject.plural else "e")
        stems = lexicon()
        first = [stems[word] for word in adverb]
        target = [
            *first,
            *relative,
            *subject.translated("subject"),
            *objects,
            *[stems["not"]] * negated,
            stem + ending,
        ]
        return source, target

    def _relative(self, plural: bool) -> tuple[list[str], list[str]]:
        """Return what the subject does besides: a clause after it, and a participle before it."""
        verb, kind = self._one("transitive"), self._one_of(("persons", "things"))
        whom, past = self._phrase(kind), self._chance(0.4)
        base, present, gone = verb.split("/")
        finite = gone if past else base if plural else present
        participle = _stem(base, kind) + ("tand" if past else "sand")
        return ["that", finite, *whom.english], [*whom.translated("object"), participle]

    def _action(self) -> tuple[str, str, list[str], list[str]]:
        """Return the verb, its stem, and what stands after the verb in English, before it in the other language."""
        source: list[str] = []
        target: list[str] = []
        kind = self._one_of(("intransitive", "transitive", "transitive", "transitive", "ditransitive"))
        verb, what = self._one(kind), "things"
        if kind == "transitive":
            what = self._one_of(("persons", "things"))
        if kind != "intransitive":
            whom = self._phrase(what)
            source, target = whom.english, whom.translated("object")
        for preposition, kinds in {"to": ("persons",), "with": ("persons", "things"), "in": ("places",)}.items():
            if kind == "ditransitive" if preposition == "to" else self._chance(0.2):
                group = self._one_of(kinds)
                more = self._phrase(group)
                role = group if preposition == "with" else preposition
                source, target = [*source, preposition, *more.english], [*more.translated(role), *target]
        return verb, _stem(verb.split("/")[0], what), source, target

    def _phrase(self, kind: str) -> Phrase:
        plural = self._chance(0.35)
        determiner = self._one("plural" if plural else "singular")
        adjective = self._one("adjectives") if self._chance(0.35) else None
        return Phrase(determiner, adjective, self._one(kind), plural)

    def _chance(self, probability: float) -> bool:
        happens = self.random.random() < probability
        self.nats -= log(probability if happens else 1 - probability)
        return happens

    def _one(self, kind: str) -> str:
        return self._one_of(WORDS[kind])

    def _one_of(self, words: Sequence[str]) -> str:
        word = words[int(self.random.random() * len(words))]
        self.nats -= log(words.count(word) / len(words))
        return word


def _stem(base: str, kind: str) -> str:
    return lexicon()[f"{base} {kind}" if base in AMBIGUOUS else base]


@cache
def lexicon() -> dict[str, str]:
    """Return the stem of each English word, none like another; long ones inflect, short ones do not."""
    bases = [verb.split("/")[0] for kind in ("intransitive", "transitive", "ditransitive") for verb in WORDS[kind]]
    verbs = [[f"{base} persons", f"{base} things"] if base in AMBIGUOUS else [base] for base in bases]
    names = [word for kind in ("persons", "things", "places", "adjectives") for word in WORDS[kind]]
    short = ["a", "every", "some", *NUMERALS, "not", "does", *WORDS["adverbs"], *WORDS["joining"]]
    syllables = _syllables(Random("invented"))
    long = {word: next(syllables) + next(syllables) for word in [*names, *chain.from_iterable(verbs)]}
    return long | {word: next(syllables) for word in short}


@cache
def classes() -> dict[str, str]:
    """Return the class of each noun."""
    random = Random("classes")
    return {noun: "ao"[random.random() < 0.5] for kind in ("persons", "things", "places") for noun in WORDS[kind]}


def _syllables(random: Random) -> Iterator[str]:
    """Yield consonant, vowel, consonant, never the same again."""
    every = [first + vowel + last for first in "bdfgkmnprtvz" for vowel in "aeiou" for last in "klmnrst"]
    while every:
        yield every.pop(int(random.random() * len(every)))


@cache
def pairs(settings: Invented, split: Split) -> tuple[Sentence, ...]:
    """Return the sentences of a split; those of valid and test occur in no split before."""
    before = {"train": (), "valid": ("train",), "test": ("train", "valid")}[split]
    known = {sentence.source for earlier in before for sentence in pairs(settings, earlier)}
    number = settings.sentences if split == "train" else max(1, settings.sentences // 10)
    speaker = Speaker(Random(f"{settings.seed}/{split}"))
    found: list[Sentence] = []
    while len(found) < number:
        sentence = speaker.sentence()
        if sentence.source not in known:
            found.append(sentence)
    return tuple(found)
