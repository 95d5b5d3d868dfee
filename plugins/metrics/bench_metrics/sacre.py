"""BLEU, chrF and TER as sacrebleu computes them (Post, 2018, arXiv:1804.08771)."""

from __future__ import annotations

from collections.abc import Sequence
from math import nan
from typing import Any

from sacrebleu.metrics.base import Metric as Scorer
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER

from bench_core import Outcome
from bench_metrics.plugin import BleuConfig, ChrfConfig, TerConfig
from bench_metrics.texts import TextMetric, compared
from bench_metrics.tokenizers import tokenizer


class Sacrebleu(TextMetric[list[float]]):
    """A score of a corpus, from the statistics that sacrebleu keeps of each example and sums before it computes.

    So the score of any choice of examples is what `corpus_score` gives for them. Undefined (nan) without examples.
    """

    def __init__(self, config: Any, scorer: Scorer, *unsaid: str) -> None:
        """Wrap a scorer; `unsaid` are the settings that its own signature does not tell."""
        super().__init__(config)
        self.scorer = scorer
        self.scorer.num_refs = None  # type: ignore[assignment]  # `prepare` tells it
        self.signature = "|".join([self.scorer.get_signature().format(), *unsaid])

    def measure(self, outcomes: Sequence[Outcome]) -> list[list[float]]:
        """Return the statistics of each example; raise where there is nothing to compare."""
        pairs = compared(outcomes)
        if not pairs:
            return []
        most = max(len(references) for _, references in pairs)
        streams = [[each[number] if number < len(each) else None for _, each in pairs] for number in range(most)]
        found: list[list[float]] = self.scorer._extract_corpus_statistics([text for text, _ in pairs], streams)  # type: ignore[arg-type]
        return found

    def total(self, sums: Sequence[float], examples: int) -> float:
        return float(self.scorer._compute_score_from_stats(list(sums)).score) if examples else nan


class Bleu(Sacrebleu):
    """Corpus BLEU (Papineni et al., 2002): clipped n-gram precisions, their geometric mean, a brevity penalty."""

    better = 1

    def __init__(self, config: BleuConfig) -> None:
        """Build the scorer; raise SuiteError if its tokenizer cannot run."""
        tokenizer(config.tokenize)
        scorer = BLEU(
            tokenize=config.tokenize,
            lowercase=config.lowercase,
            smooth_method=config.smooth,
            smooth_value=config.smooth_value,
            max_ngram_order=config.max_order,
            effective_order=config.effective_order,
        )
        super().__init__(config, scorer, *([f"order:{config.max_order}"] if config.max_order != 4 else []))


class Chrf(Sacrebleu):
    """chrF (Popović, 2015), or with `word_order: 2` chrF++ (2017): F-score of character and word n-grams.

    Of several references, each example counts with the one for which it scores best.
    """

    better = 1

    def __init__(self, config: ChrfConfig) -> None:
        scorer = CHRF(**config.model_dump())
        super().__init__(config, scorer, *([f"beta:{config.beta}"] if config.beta != 2 else []))


class Ter(Sacrebleu):
    """Translation edit rate (Snover et al., 2006): edits, shifts included, per word of the references.

    Of several references, the edits are those to the nearest, the words the average.
    """

    better = -1

    def __init__(self, config: TerConfig) -> None:
        super().__init__(config, TER(**config.model_dump()))
