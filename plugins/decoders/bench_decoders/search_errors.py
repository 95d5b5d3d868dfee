"""The probe of search errors: whether wrong outputs are the fault of the search or of the model.

If a reference is more probable than the output, the search missed it: a search error. If it is not, no better search
would prefer it: a model error (Stahlberg and Byrne, 2019, arXiv:1908.10090).
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from math import fsum
from typing import Any

from bench_core import (
    Batch,
    DecoderConfig,
    Finding,
    Hypothesis,
    Model,
    OwnVocabulary,
    Probe,
    Rng,
    Scorer,
    Scoring,
    Statement,
    Stepper,
    limits,
)
from bench_decoders.plugin import SearchErrorsConfig

SEQUENCE = "best-order"  #: value of a score that is the log-probability of a single sequence of actions
TOLERANCE = 1e-4  #: nats per action; smaller differences are rounding


@dataclass(frozen=True)
class OutputComparison:
    """The output and the reference of an example, and their log-probabilities in nats."""

    is_correct: bool
    is_reachable: bool  # the reference is not longer than decoding permits
    output: float
    reference: float
    margin: float  # differences below it are rounding

    @property
    def is_search_error(self) -> bool:
        """Whether the search missed the reference, which is more probable than the output."""
        return not self.is_correct and self.reference > self.output + self.margin


class SearchErrors(Probe):
    """Compares the log-probability of each output with that of its reference.

    Both are of single sequences of actions, in a model with several orders those of the best order found. Only
    outputs with a log-probability are compared.
    """

    config: SearchErrorsConfig

    def ask(self, model: Model, decoder: DecoderConfig | None, batches: Iterable[Batch]) -> Finding:
        if reason := _refusal(model):
            return Finding(statements=(Statement("", reason),))
        assert decoder is not None, "the Config sets `with_decoder`"
        compared = [*islice(self._compare(model, decoder, batches), self.config.examples)]
        if not compared:
            return Finding(statements=(Statement("", "outputs have no log-probabilities"),))
        return Finding(summary(compared))

    def _compare(self, model: Any, decoder: DecoderConfig, batches: Iterable[Batch]) -> Iterator[OutputComparison]:
        """Yield the comparison of each example whose output has a log-probability."""
        search, left = decoder.load()(decoder), self.config.examples
        for whole in batches:
            batch = whole.select(whole.ids.new_ones(min(left, len(whole))).cumsum(0) - 1)
            left -= len(batch)
            outputs = [row[0] for row in search.decode(model, batch, Rng(0).fork("search errors"))]
            scores = model.score(batch, Scoring(self._likelihood(model), Rng(0).fork("score")))
            references = scores.values.get(SEQUENCE, scores.log_probs).double().tolist()
            most = limits(model, batch, decoder.max_tokens).tolist()
            yield from _rows(batch, outputs, references, most, model.actions_per_token)
            if not left:
                return

    def _likelihood(self, model: Any) -> str:
        """Return the likelihood of the settings, or the first of the model."""
        config = getattr(model, "config", None)
        return self.config.by or next(iter(getattr(config, "likelihoods", ())), "")


def summary(compared: Sequence[OutputComparison]) -> dict[str, float]:
    """Return the shares of correct outputs, search errors and model errors, and mean log-probabilities."""
    missed, number = [each for each in compared if each.is_search_error], len(compared)
    reachable = [each for each in missed if each.is_reachable]
    correct = sum(each.is_correct for each in compared)
    return {
        "correct, %": 100 * correct / number,
        "search errors, %": 100 * len(reachable) / number,
        "references beyond the limit, %": 100 * (len(missed) - len(reachable)) / number,
        "model errors, %": 100 * (number - correct - len(missed)) / number,
        "mean log p of outputs, nats": fsum(each.output for each in compared) / number,
        "mean log p of references, nats": fsum(each.reference for each in compared) / number,
    }


def _rows(
    batch: Batch, outputs: Sequence[Hypothesis], references: Sequence[float], most: Sequence[int], per_token: int
) -> Iterator[OutputComparison]:
    """Yield the comparisons of a batch, given its outputs, log-probabilities of references, and length limits."""
    lengths, golds = batch.length.tolist(), batch.gold.tolist()
    for output, reference, limit, length, gold in zip(outputs, references, most, lengths, golds, strict=True):
        if output.log_prob is None:
            continue
        target = gold[: length - 1] if gold[length - 1] == 0 else gold[:length]
        is_correct = output.finished and output.tokens == target
        margin = TOLERANCE * per_token * max(length, len(output.tokens) + 1)
        yield OutputComparison(is_correct, length <= limit, output.log_prob, reference, margin)


def _refusal(model: Model) -> str:
    """Return why outputs and references of a model cannot be compared; empty if they can be."""
    if isinstance(model, OwnVocabulary) or not isinstance(model, Stepper):
        return "search errors are defined for models that generate the task's tokens step by step"
    return "" if isinstance(model, Scorer) else "the model has no likelihood of references"
