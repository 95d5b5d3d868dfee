"""The probe of estimators of P(w): trajectories and particle filters on words of the model, against their cost."""

from collections.abc import Iterable
from math import hypot, log

import torch
from torch import Tensor

from bench_core import (
    QUARTERS,
    Batch,
    DecoderConfig,
    Finding,
    Model,
    Premise,
    Probe,
    Rng,
    Scores,
    Statement,
    sampling_error,
)
from bench_ssm.model import DeepSSM
from bench_ssm.plugin import EstimatorsConfig

LIMIT = 1.959964  # standard errors of a difference within which estimates agree
MAX_ERROR = 0.1  # of the difference, in nats: about the deviation of cross entropies over trainings
SOURCE = "unbiased estimates of P(w)"


class Estimators(Probe):
    """Estimates the entropy of a model's words, -E ln P(w), with increasing numbers of trajectories and particles.

    The cost of an estimate is the number of states that are sampled for all words; trajectories are shared by them.
    """

    config: EstimatorsConfig

    def ask(self, model: Model, decoder: DecoderConfig | None, batches: Iterable[Batch]) -> Finding:
        if not isinstance(model, DeepSSM):
            return Finding(statements=(Statement("", "the model has a single estimate of P(w)"),))
        words = sampled_words(model, self.config.words)
        if not len(words):
            return Finding(statements=(Statement("", "no sampled word ends"),))
        numbers, last = dict[str, float](), []
        for by, sizes in (("trajectories", self.config.trajectories), ("particles", self.config.particles)):
            for size in sizes:
                nats, error, states = estimate(model, words, by, size)
                label = f"{size:,} {by}: "
                numbers |= {f"{label}nats": nats, f"{label}error": error, f"{label}million states": states / 1e6}
            last.append((nats, error))
        (first, first_error), (second, second_error) = last
        gap, error = abs(first - second), hypot(first_error, second_error)
        premises = (
            Premise(
                "the largest numbers of trajectories and particles agree within their errors", gap <= LIMIT * error
            ),
            Premise(f"the error of their difference is at most {MAX_ERROR:g} nats", error <= MAX_ERROR),
        )
        says = "both estimates of cross entropy can be compared with those of other models"
        numbers |= {"difference": first - second, "error of the difference": error}
        return Finding(numbers, (Statement(SOURCE, says, premises),))


def sampled_words(model: DeepSSM, number: int) -> Batch:
    """Return the words that end within the model's steps, of `number` samples."""
    ids, steps = torch.arange(number), model.config.steps
    empty = torch.zeros(number, 1, dtype=torch.long)
    samples = model.sample(Batch(ids, empty, empty, torch.ones_like(ids)), steps, Rng(0).fork("words"))
    targets = [[*sample.tokens, 0] for sample in samples if sample.finished]
    gold = torch.tensor([[*target, *[0] * (steps - len(target))] for target in targets], dtype=torch.long)
    gold = gold.view(len(targets), steps)
    length = torch.tensor([len(target) for target in targets], dtype=torch.long)
    return Batch(torch.arange(len(targets)), gold[:, :1] * 0, gold, length)


def estimate(model: DeepSSM, words: Batch, by: str, size: int) -> tuple[float, float, int]:
    """Return the mean of -ln P^(w) in nats, its standard error, and the number of sampled states."""
    before, cached = model.config, model.cached
    try:
        model.cached, model.config = None, before.model_copy(update={by: size})
        rng = Rng(0).fork(by)
        scores = model.average(words, rng) if by == "trajectories" else model.filtered(words, rng)
    finally:
        model.config, model.cached = before, cached
    states = size * (model.config.steps if by == "trajectories" else int(words.length.sum()))
    nats, error = _mean(scores)
    return nats, error, states


def _mean(scores: Scores) -> tuple[float, float]:
    """Return the mean of -ln P^(w), and its error from the four parts of the samples."""
    quarters = torch.stack([scores.values[name] for name in QUARTERS])  # [4, N]
    halves = [_log_mean(quarters[i], quarters[j]) for i in range(4) for j in range(i)]
    estimates = [-float(each.mean()) for each in quarters]
    estimates.append(-float(torch.stack(halves).mean()))
    nats = -float(scores.log_probs.mean())
    return nats, sampling_error(nats, estimates)


def _log_mean(first: Tensor, second: Tensor) -> Tensor:
    return torch.logaddexp(first, second) - log(2)
