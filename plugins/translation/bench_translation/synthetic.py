"""A generated parallel language: English-like sentences and their exact translations.

Sources are subject-verb-object, with articles, prepositions, auxiliaries and relative clauses after the noun. Targets
are subject-object-verb: no definite article, cases instead of prepositions, adjectives that agree with the class and
number of their noun, verbs that agree with their subject in the past too, participles before the noun, and no plural
after a numeral. Some translations depend on context: `with` introduces a companion (a person) or a tool (a thing);
know, draw and leave are different verbs for persons and for things. Each source has one translation, and each
translation one source. Random numbers come from `random.Random.random`, which is the same in all versions of Python.
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
AMBIGUOUS = ("know", "draw", "leave")  # translated by different verbs for persons and things
CASES = {"subject": "", "object": "n", "to": "le", "in": "sta", "persons": "kun", "things": "mi"}
VOWELS = {"a": ("a", "i"), "o": ("o", "u")}  # singular and plural of each noun class


@dataclass(frozen=True)
class SentencePair:
    """A sentence in both languages, and its negative log-probability."""

    source: str
    target: str
    nats: float  # -log p


@dataclass(frozen=True)
class Phrase:
    """A determiner, an optional adjective, and a noun."""

    determiner: str
    adjective: str | None
    noun: str
    plural: bool

    @property
    def english(self) -> list[str]:
        """Return the English words of the phrase."""
        rest = [*([self.adjective] if self.adjective else []), self.noun + "s" * self.plural]
        vowel = self.determiner == "a" and rest[0][0] in "aeiou"
        return ["an" if vowel else self.determiner, *rest]

    def translate(self, role: str) -> list[str]:
        """Return the translated words, in the case that a role requires."""
        stems, plural = lexicon(), self.plural and self.determiner not in NUMERALS
        ending = VOWELS[classes()[self.noun]][plural]
        before = [] if self.determiner == "the" else [stems[self.determiner]]
        middle = [stems[self.adjective] + ending] if self.adjective else []
        return [*before, *middle, stems[self.noun] + ending + CASES[role]]


class SentenceGenerator:
    """Generates sentences, and sums the nats of its choices."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.nats = 0.0

    def sentence(self) -> SentencePair:
        """Return a question, a statement, or two statements."""
        self.nats, stems = 0.0, lexicon()
        if self._chance(0.1):
            source, target = self._clause(question=True)
            return SentencePair(" ".join([*source, "?"]), " ".join([*target, stems["does"], "?"]), self.nats)
        source, target = self._clause()
        if self._chance(0.15):
            word, (more, translation) = self._choose_word("joining"), self._clause()
            source, target = [*source, word, *more], [*target, stems[word], *translation]
        return SentencePair(" ".join([*source, "."]), " ".join([*target, "."]), self.nats)

    def _clause(self, question: bool = False) -> tuple[list[str], list[str]]:
        """Return a clause in both languages."""
        subject = self._phrase("persons")
        whose, relative = self._relative(subject.plural) if self._chance(0.12) else ([], [])
        past, negated = self._chance(0.4), self._chance(0.15)
        adverb = [self._choose_word("adverbs")] if self._chance(0.2) else []
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
            *subject.translate("subject"),
            *objects,
            *[stems["not"]] * negated,
            stem + ending,
        ]
        return source, target

    def _relative(self, plural: bool) -> tuple[list[str], list[str]]:
        """Return a second verb of the subject: as an English relative clause, and as a participle."""
        verb, kind = self._choose_word("transitive"), self._choose(("persons", "things"))
        whom, past = self._phrase(kind), self._chance(0.4)
        base, present, gone = verb.split("/")
        finite = gone if past else base if plural else present
        participle = _stem(base, kind) + ("tand" if past else "sand")
        return ["that", finite, *whom.english], [*whom.translate("object"), participle]

    def _action(self) -> tuple[str, str, list[str], list[str]]:
        """Return a verb, its stem, and the words after it in English and before it in the other language."""
        source: list[str] = []
        target: list[str] = []
        kind = self._choose(("intransitive", "transitive", "transitive", "transitive", "ditransitive"))
        verb, what = self._choose_word(kind), "things"
        if kind == "transitive":
            what = self._choose(("persons", "things"))
        if kind != "intransitive":
            whom = self._phrase(what)
            source, target = whom.english, whom.translate("object")
        for preposition, kinds in {"to": ("persons",), "with": ("persons", "things"), "in": ("places",)}.items():
            if kind == "ditransitive" if preposition == "to" else self._chance(0.2):
                group = self._choose(kinds)
                more = self._phrase(group)
                role = group if preposition == "with" else preposition
                source, target = [*source, preposition, *more.english], [*more.translate(role), *target]
        return verb, _stem(verb.split("/")[0], what), source, target

    def _phrase(self, kind: str) -> Phrase:
        plural = self._chance(0.35)
        determiner = self._choose_word("plural" if plural else "singular")
        adjective = self._choose_word("adjectives") if self._chance(0.35) else None
        return Phrase(determiner, adjective, self._choose_word(kind), plural)

    def _chance(self, probability: float) -> bool:
        happens = self.random.random() < probability
        self.nats -= log(probability if happens else 1 - probability)
        return happens

    def _choose_word(self, kind: str) -> str:
        return self._choose(WORDS[kind])

    def _choose(self, words: Sequence[str]) -> str:
        word = words[int(self.random.random() * len(words))]
        self.nats -= log(words.count(word) / len(words))
        return word


def _stem(base: str, kind: str) -> str:
    return lexicon()[f"{base} {kind}" if base in AMBIGUOUS else base]


@cache
def lexicon() -> dict[str, str]:
    """Return a unique stem for each English word; long stems belong to words that inflect."""
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
    """Yield unique syllables of consonant, vowel, consonant."""
    every = [first + vowel + last for first in "bdfgkmnprtvz" for vowel in "aeiou" for last in "klmnrst"]
    while every:
        yield every.pop(int(random.random() * len(every)))


@cache
def pairs(settings: Invented, split: Split) -> tuple[SentencePair, ...]:
    """Return the sentences of a split; sentences of valid and test occur in no previous split."""
    before = {"train": (), "valid": ("train",), "test": ("train", "valid")}[split]
    known = {sentence.source for earlier in before for sentence in pairs(settings, earlier)}
    number = settings.sentences if split == "train" else max(1, settings.sentences // 10)
    speaker = SentenceGenerator(Random(f"{settings.seed}/{split}"))
    result: list[SentencePair] = []
    while len(result) < number:
        sentence = speaker.sentence()
        if sentence.source not in known:
            result.append(sentence)
    return tuple(result)
