"""Must decoding end? What theory says of a model and a decoder, its premises checked on the trained weights."""

from __future__ import annotations

import sys
from dataclasses import replace

import torch
from torch import nn

from bench_core import STOP, Batch, Certificate, DecoderConfig, Finding, Model, Noise, Premise, Stepper
from bench_decoders.plugin import (
    AncestralConfig,
    BeamConfig,
    GreedyConfig,
    NucleusConfig,
    SamplingConfig,
    TopKConfig,
)
from bench_rnn.api import RecurrentLM, Softmax
from bench_strlm import bounds
from bench_strlm.plugin import ConsistencyConfig
from bench_strlm.survival import SelfTerminatingLM

PAPER = "Welleck et al. (2020)"
ALMOST_SURE = "every output ends with probability 1"
ROWS, STEPS = 8, 64  # of the random sequences on which p(stop) is watched
ROUNDING = 1e-5  # of float32, as a share of p(stop)


class Consistency(Certificate):
    """Which theorem of the paper covers a model and a decoder, and how soon decoding must end."""

    config: ConsistencyConfig

    def check(self, model: Model, decoder: DecoderConfig) -> Finding:
        finding = self._finding(model, decoder)
        return finding if finding.holds else replace(finding, bound="", promises=None)

    def _finding(self, model: Model, decoder: DecoderConfig) -> Finding:
        """Return what follows where every premise holds."""
        if isinstance(model, SelfTerminatingLM) and isinstance(model, Stepper):
            return self._self_terminating(model, model.epsilon, decoder)
        if isinstance(model, RecurrentLM) and isinstance(model.output, Softmax):
            return self._softmax(model, model.output.logits, decoder)
        return Finding("", "no theorem is about this kind of model")

    def _self_terminating(self, model: Stepper, epsilon: float, decoder: DecoderConfig) -> Finding:
        last, first = last_step(epsilon, decoder), open_from(epsilon, decoder)
        if last is None and first is None:
            return Finding("", "no theorem is about this decoder")
        premises = (_finite(model), _growth(model, epsilon))
        if last is not None:
            theorem = f"Theorem 4.{2 if isinstance(decoder, GreedyConfig) else 3}, {PAPER}"
            most = min(self.config.limit, decoder.max_tokens, room(model, watched()))
            promises = (0.0, 0.0) if last <= most else None
            return Finding(theorem, "every output ends", premises, f"by step {last:,}", promises)
        endless = bounds.log_endless(epsilon, self.config.limit, first or 1)
        bound = f"P(no stop in {self.config.limit:,}) < {bounds.power_of_ten(endless, up=True)}"
        return Finding(f"Definition 4.3, {PAPER}", ALMOST_SURE, premises, bound)

    def _softmax(self, model: RecurrentLM, logits: nn.Linear, decoder: DecoderConfig) -> Finding:
        theorem = sampling_theorem(decoder, logits.out_features)
        if theorem is None:
            return Finding(f"Theorem 3.4, {PAPER}", "nothing is guaranteed: such a model may never end")
        bounded = Premise(
            "hidden units lie between -1 and 1 (tanh, GRU, LSTM)", model.cell in ("tanh", "gru", "lstm")
        )
        finding = Finding(f"{theorem}, {PAPER}", ALMOST_SURE, (_finite(model), bounded))
        if not finding.holds:
            return finding  # of such weights there may be no bound to compute
        least = log_least_stop(logits, getattr(decoder, "temperature", 1.0))
        return replace(finding, bound=f"p(stop) > {bounds.power_of_ten(least, up=False)}")


def last_step(epsilon: float, decoder: DecoderConfig) -> int | None:
    """Return the last step at which a search over a self-terminating model ends, or None if none is proven.

    Of beams, those of Definition A.2: one that does not count stop passes over an output of stop alone.
    """
    if isinstance(decoder, GreedyConfig):
        return bounds.greedy_steps(epsilon)
    if not isinstance(decoder, BeamConfig) or decoder.finish == "exhausted":
        return None
    if decoder.candidates != "finished" or not decoder.count_stop:
        return None
    return bounds.beam_steps(epsilon, 1 if decoder.finish == "first" else decoder.width)


def open_from(epsilon: float, decoder: DecoderConfig) -> int | None:
    """Return the first step from which sampling stops at least as often as a self-terminating model itself would.

    From the start where nothing else is cut off, otherwise once p(stop) exceeds one half: then stop is in every
    set, and a temperature below 1 only makes it more probable. None above 1, which no theorem covers.
    """
    if isinstance(decoder, AncestralConfig):
        return 1
    if not isinstance(decoder, SamplingConfig) or decoder.temperature > 1:
        return None
    whole = decoder.consistent and decoder.temperature == 1
    return 1 if whole else bounds.greedy_steps(epsilon)


def sampling_theorem(decoder: DecoderConfig, tokens: int) -> str | None:
    """Return which statement covers sampling from a bounded softmax, or None where stop may be cut off."""
    if not isinstance(decoder, (AncestralConfig, SamplingConfig)):
        return None
    if isinstance(decoder, SamplingConfig) and decoder.consistent:
        return "Theorem 4.1"
    cuts = (isinstance(decoder, TopKConfig) and decoder.k < tokens) or (
        isinstance(decoder, NucleusConfig) and decoder.mass < 1
    )
    return None if cuts else "Lemma 3.2"


def log_least_stop(logits: nn.Linear, temperature: float = 1.0) -> float:
    """Return the bound of Lemma 3.2 on log p(stop), for units between -1 and 1.

    Of dual norms, inf of the units and 1 of the rows: no other pair gives a better one.
    """
    weight, bias = logits.weight.double() / temperature, logits.bias.double() / temperature
    norm = float(weight.norm(1, dim=1).max())
    return bounds.log_least_stop_of_softmax(1.0, norm, float(bias.max()), float(bias[STOP]), len(weight))


def _finite(model: Model) -> Premise:
    weights = model.parameters() if isinstance(model, nn.Module) else ()
    return Premise("every weight is a finite number", all(bool(weight.isfinite().all()) for weight in weights))


def _growth(model: Stepper, epsilon: float) -> Premise:
    """Watch p(stop) on random sequences: it must never fall, nor lie below its bound."""
    batch, noise = watched(), Noise(0).fork("consistency")
    steps = min(STEPS, room(model, batch))
    log_probs, state = model.start(batch)
    stops = [log_probs[:, STOP]]
    for step in range(1, steps):
        words = 1 + (noise.uniform(batch.ids, step) * (log_probs.shape[1] - 1)).long()
        log_probs, state = model.step(state, words)
        stops.append(log_probs[:, STOP])
    stop = torch.stack(stops, 1).double().exp()  # [ROWS, steps]
    least = stop.new_tensor([bounds.least_stop(epsilon, step) for step in range(1, steps + 1)])
    holds = bool((stop.diff() >= 0).all()) and bool((stop >= (1 - ROUNDING) * least).all())
    return Premise(f"p(stop) grows and exceeds 1 - (1 - ε)^n, watched on {ROWS} random sequences of {steps}", holds)


def watched() -> Batch:
    """Return the openings of the sequences on which p(stop) is watched: stop and a word."""
    ids = torch.arange(ROWS)
    return Batch(ids, torch.tensor([[STOP, STOP + 1]]).expand(ROWS, -1), ids.new_zeros(ROWS, 1), ids.new_ones(ROWS))


def room(model: Stepper, batch: Batch) -> int:
    """Return the most target tokens for which a model has room, such as positions."""
    limit = model.limit(batch)
    return sys.maxsize if limit is None else int(limit.min())
