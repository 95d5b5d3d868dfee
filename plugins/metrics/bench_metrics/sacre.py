"""BLEU, chrF and TER, computed by sacrebleu (Post, 2018, arXiv:1804.08771)."""

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from math import nan
from typing import Any

from sacrebleu.metrics.base import Metric as Scorer
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER

from bench_core import Prediction, TaskInfo
from bench_metrics.languages import has_spaces, tokenizer_of
from bench_metrics.plugin import BleuConfig, ChrfConfig, TerConfig
from bench_metrics.texts import TextMetric, blocks, compared
from bench_metrics.tokenizers import tokenizer

EXAMPLES_PER_BLOCK = 1000


class Sacrebleu(TextMetric[list[float]]):
    """A corpus score, computed from sums of sacrebleu's per-example statistics.

    The score of any subset of examples thus equals sacrebleu's `corpus_score` on them. NaN without examples.
    """

    def __init__(self, config: Any) -> None:
        """Build the scorer for an unknown language; raise SuiteError if it cannot run."""
        super().__init__(config)
        self.begin(TaskInfo(()))

    def begin(self, info: TaskInfo) -> None:
        self.scorer, additions = self._scorer(info)
        self.scorer.num_refs = None  # type: ignore[assignment]  # `prepare` adds it
        self.signature = "|".join([self.scorer.get_signature().format(), *additions])

    @abstractmethod
    def _scorer(self, info: TaskInfo) -> tuple[Scorer, list[str]]:
        """Return sacrebleu's scorer for a task, and the settings that sacrebleu's signature omits."""

    def measure(self, predictions: Sequence[Prediction]) -> Iterator[list[float]]:
        """Yield the statistics of each example; raise if texts or references are missing."""
        for pairs in blocks(compared(predictions), EXAMPLES_PER_BLOCK):
            yield from self._statistics(pairs)

    def _statistics(self, pairs: Sequence[tuple[str, list[str]]]) -> list[list[float]]:
        """Return the statistics of examples, given as pairs of text and references."""
        most = max(len(references) for _, references in pairs)
        streams = [[each[number] if number < len(each) else None for _, each in pairs] for number in range(most)]
        statistics: list[list[float]] = self.scorer._extract_corpus_statistics([text for text, _ in pairs], streams)  # type: ignore[arg-type]
        return statistics

    def from_sums(self, sums: Sequence[float], examples: int) -> float:
        return float(self.scorer._compute_score_from_stats(list(sums)).score) if examples else nan


class Bleu(Sacrebleu):
    """Corpus BLEU (Papineni et al., 2002): clipped n-gram precisions, their geometric mean, and a brevity penalty."""

    label = "BLEU"
    better = 1

    config: BleuConfig

    def _scorer(self, info: TaskInfo) -> tuple[Scorer, list[str]]:
        config, name = self.config, tokenizer_of(self.config.tokenize, info)
        tokenizer(name)
        scorer = BLEU(
            tokenize=name,
            lowercase=config.lowercase,
            smooth_method=config.smooth,
            smooth_value=config.smooth_value,
            max_ngram_order=config.max_order,
            effective_order=config.effective_order,
        )
        return scorer, [f"order:{config.max_order}"] if config.max_order != 4 else []


class Chrf(Sacrebleu):
    """chrF (Popović, 2015), or with `word_order: 2` chrF++ (2017): F-score of character and word n-grams.

    With several references, the best one counts for each example.
    """

    label = "chrF"
    better = 1

    config: ChrfConfig

    def _scorer(self, info: TaskInfo) -> tuple[Scorer, list[str]]:
        beta = self.config.beta
        return CHRF(**self.config.model_dump()), [f"beta:{beta}"] if beta != 2 else []


class Ter(Sacrebleu):
    """Translation edit rate (Snover et al., 2006): edits, including shifts, per reference word.

    With several references, edits are counted to the nearest one, and lengths are averaged over all references.
    """

    label = "TER"
    better = -1

    config: TerConfig

    def _scorer(self, info: TaskInfo) -> tuple[Scorer, list[str]]:
        settings = self.config.model_dump()
        for name in ("normalized", "asian_support"):
            settings[name] = not has_spaces(info) if settings[name] is None else settings[name]
        return TER(**settings), []
