"""The deep state space model.

A trajectory does not depend on what was generated: no `LanguageModel` of the kit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import log

import torch
from torch import Tensor, nn

from bench_core import (
    AGAIN,
    STOP,
    Batch,
    Hypothesis,
    Loss,
    Noise,
    Scores,
    Scoring,
    TaskInfo,
    Training,
    Vmappable,
    checked,
    invert,
    on_host,
    to_device,
)
from bench_ssm import flows
from bench_ssm.averaging import Averaging, check_apart
from bench_ssm.flows import Flow
from bench_ssm.latent import Latent
from bench_ssm.plugin import DeepSSMConfig
from bench_ssm.posterior import Posterior

BITS = 1 / log(2)
HALVES = "information_by_halves"


@dataclass(frozen=True)
class Bound:
    """What an inferred trajectory says of each target."""

    total: Tensor  # [N] sum_t L_t, in expectation not above ln P(w)
    fit: Tensor  # [N] sum_t ln P(w_t | h_t) along the states that were kept
    entropy: Tensor  # [N] mean over t of H[w_t | h_t] there, in bits


class Emission(nn.Linear):
    """ln P(. | h) = log softmax(Emb h + b)."""

    def forward(self, states: Tensor) -> Tensor:
        """Return log-probabilities [*, V] at states [*, d]."""
        logits = super().forward(states)
        return logits.to(states.dtype).log_softmax(-1)


class DeepSSM(nn.Module, Latent, Averaging, Vmappable):
    """h_t = F_g(h_{t-1}, zeta_t) with zeta_t ~ N(0, I), and w_t ~ softmax(Emb h_t + b).

    No token feeds back, so a prefix has no say. Training draws trajectories h_t = F_q(h_{t-1}, xi_t) with another
    flow, from xi_t ~ N(mu_t, sigma_t^2) inferred from the target (Schmidt and Hofmann, 2018, sections 2.4 to 2.6).
    """

    config: DeepSSMConfig

    def __init__(self, config: DeepSSMConfig, info: TaskInfo) -> None:
        super().__init__()
        check_apart(config.name, info.consecutive)
        self.config = config
        self.origin = nn.Parameter(torch.zeros(config.state))  # h_0
        self.generative: Flow = flows.generative(config)
        self.inference: Flow | None = None if config.shared else flows.inference(config)
        self.posterior = Posterior(config, info)
        self.emission = Emission(config.state, len(info.vocabulary))
        self._compiled: Callable[[Step], tuple[Tensor, Tensor]] | None = None  # `_advance`, while it is trained so

    def loss(self, batch: Batch, training: Training) -> Loss:
        return self._lost(batch, training, self.bound(batch, training.noise, self.config.samples))

    def vmap_loss(self, batch: Batch, training: Training) -> Loss:
        rows = training.rows or (len(batch),) * batch.gold.shape[1]
        return self._lost(batch, training, self.padded_bound(batch, training.noise, self.config.samples, rows))

    def compiled_loss(self) -> Callable[[Batch, Training], Loss]:
        """Return the loss with a compiled step: one graph for all lengths, of which the whole had one each."""
        self._compiled = torch.compile(self._advance, dynamic=True)
        return self.loss

    def _lost(self, batch: Batch, training: Training, bound: Bound) -> Loss:
        tokens = batch.length.sum()
        logged = self._prior_parts(training.noise.fork("log"), tokens) if self._logs(training.step) else {}
        parts = {"fit": -bound.fit.sum() / tokens, **logged}
        return Loss(-bound.total.sum() / tokens, tokens, parts)

    def score(self, batch: Batch, scoring: Scoring) -> Scores:
        if scoring.by == "trajectories":
            return self.averaged(batch, scoring.noise)
        bound = self.bound(batch, scoring.noise, self.config.samples)
        again = self.bound(batch, scoring.noise.fork("again"), self.config.samples)
        values = {"fit": bound.fit, "kl": bound.fit - bound.total, "entropy": bound.entropy, AGAIN: again.total}
        return Scores(bound.total.double(), values)

    def sample(self, batch: Batch, max_tokens: int, noise: Noise) -> list[Hypothesis]:
        def words(log_probs: Tensor) -> Tensor:
            drawn = [invert(each, noise.fork("word").uniform(batch.ids, t)) for t, each in enumerate(log_probs)]
            return torch.stack(drawn)

        return self._sample(batch, max_tokens, noise, words)

    def sample_likeliest(self, batch: Batch, max_tokens: int, noise: Noise) -> list[Hypothesis]:
        return self._sample(batch, max_tokens, noise, lambda log_probs: log_probs.argmax(2))

    @torch.no_grad()
    def _sample(
        self, batch: Batch, max_tokens: int, noise: Noise, choose: Callable[[Tensor], Tensor]
    ) -> list[Hypothesis]:
        """Draw a trajectory for each row, and let `choose` tell tokens [T, N] by log-probabilities [T, N, V]."""
        states = self.prior(batch.ids, noise.fork("state"))
        log_probs = self.emission(states[1:])
        checked(log_probs.flatten(0, 1), self, "sample")
        rows = choose(log_probs[:max_tokens]).T.tolist()
        found = [Hypothesis(row[: row.index(STOP)] if STOP in row else row, STOP in row) for row in rows]
        if not self.config.information_draws:
            return found
        values = self._values(batch.ids, states, log_probs, noise.fork("information"))
        return [replace(one, values=_told(one, each)) for one, each in zip(found, values, strict=True)]

    def _values(
        self, ids: Tensor, states: Tensor, log_probs: Tensor, noise: Noise
    ) -> list[Mapping[str, list[float]]]:
        """Return I(w_t; xi_t | h_{t-1}), that by half of the noise, and H[w_t | h_t], in bits, of each row by name.

        Each is of the first steps.
        """
        draws, steps = self.config.information_draws, min(self.config.positions, self.config.steps)
        size = states.shape[2]
        drawn = [noise.normal(ids, t, draws * size).view(-1, draws, size) for t in range(steps)]
        moved = [self._moved(states[t], each) for t, each in enumerate(drawn)]
        found = {"information": torch.stack([information(each) for each in moved], 1)}  # [N, T]
        found["entropy"] = entropy(log_probs[:steps]).T
        if draws > 1:
            found[HALVES] = torch.stack([_by_halves(each) for each in moved], 1)
        columns = {name: column.tolist() for name, column in found.items()}
        return [{name: column[row] for name, column in columns.items()} for row in range(len(ids))]

    def prior(self, ids: Tensor, noise: Noise, steps: int | None = None) -> Tensor:
        """Return the states h_0, ..., h_T of a trajectory for each number [T + 1, N, d], or so many `steps` of it."""
        states = [self.origin.expand(len(ids), -1)]
        for drawn in _normal(noise, ids, steps or self.config.steps, self.origin).unbind(1):
            states.append(self.generative.at(states[-1]).forward(drawn[:, None])[0][:, 0])
        return torch.stack(states)

    def information(self, states: Tensor, drawn: Tensor) -> Tensor:
        """Return I(w_t; xi_t | h_{t-1}) in bits [*] at states [*, d], by noise [*, K, d]; biased, at most log2 K."""
        return information(self._moved(states, drawn))

    def _moved(self, states: Tensor, drawn: Tensor) -> Tensor:
        """Return log-probabilities [*, K, V] after a step from states [*, d], by noise [*, K, d]."""
        moved, _ = self.generative.at(states).forward(drawn.to(states.dtype))
        log_probs: Tensor = self.emission(moved)
        return log_probs

    def bound(self, batch: Batch, noise: Noise, samples: int) -> Bound:
        """Return bounds by `samples` proposals a step, of which one is kept in proportion to its weight.

        Rows are sorted by length, so that those which go on are always the first ones.
        """
        most = self.longest(batch)
        order, places, rows = _by_length(on_host(batch.length), most)
        order, places = (to_device(one, batch.ids.device) for one in (order, places))
        gold, length, ids = batch.gold[order, :most], batch.length[order], batch.ids[order]
        steps = torch.arange(most, device=length.device)[:, None]
        numbers = (ids * self.config.steps + steps).flatten()[places]  # [M] of all steps of all rows, step by step
        states, total = self._inferred(
            gold, numbers, rows, self.posterior.read(gold, length).unbind(1), noise, samples
        )
        with torch.no_grad():  # nothing below is learnt from
            log_probs = self.emission(states)
            fit = log_probs.gather(1, gold.T.flatten()[places][:, None])[:, 0]

        back = order.argsort()

        def summed(terms: Tensor) -> Tensor:
            table = terms.new_zeros(most * len(ids)).index_copy(0, places, terms)
            return table.view(most, len(ids)).sum(0)[back]

        return Bound(summed(total), summed(fit), summed(entropy(log_probs)) / batch.length)

    def padded_bound(self, batch: Batch, noise: Noise, samples: int, rows: Sequence[int]) -> Bound:
        """Return the same as `bound`, by operations that do not depend on lengths: copies in a stack differ in these.

        Step t is taken by the rows[t] rows with the longest targets, among which are all that have so many tokens;
        what they gain after their end is not counted.
        """
        order = batch.length.argsort(descending=True, stable=True)
        gold, length, ids = batch.gold[order, : len(rows)], batch.length[order], batch.ids[order]
        steps, who = (to_device(one, ids.device) for one in _steps_and_rows(rows))  # [M]
        contexts = torch.split(self.posterior.walk(gold, length, rows, steps, who), [*rows])
        numbers = ids[who] * self.config.steps + steps
        states, total = self._inferred(gold, numbers, rows, contexts, noise, samples, length)
        with torch.no_grad():  # nothing below is learnt from
            log_probs = self.emission(states)
            fit = log_probs.gather(1, gold[who, steps][:, None])[:, 0]

        back, real = order.argsort(), steps < length[who]

        def summed(terms: Tensor) -> Tensor:
            return terms.new_zeros(len(ids)).index_add(0, who, torch.where(real, terms, 0.0))[back]

        return Bound(summed(total), summed(fit), summed(entropy(log_probs)) / batch.length)

    def _inferred(
        self, gold: Tensor, numbers: Tensor, rows: Sequence[int], contexts: Sequence[Tensor], noise: Noise,
        samples: int, length: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        """Return the states [M, d] and L_t [M] of all steps, of which step t is taken by the first rows[t] rows.

        `contexts` are those of each step, of as many rows at least, and `numbers` [M] those of the noise. Where
        lengths [N] are given, a row that has ended stays where it is.
        """
        sizes = [*rows]
        drawn = torch.split(_normal(noise.fork("proposal"), numbers, samples, self.origin), sizes)
        peeks = (
            torch.split(_normal(noise.fork("peek"), numbers, samples, self.origin), sizes) if self.peeks else drawn
        )
        chances = torch.split(noise.fork("survivor").uniform(numbers), sizes)
        advance = self._compiled or self._advance
        state, told = self.origin.expand(len(gold), self.config.state), []
        for t, (number, context) in enumerate(zip(rows, contexts, strict=False)):
            before = state[:number]
            step = Step(before, context[:number], gold[:number, t], drawn[t], peeks[t], chances[t])
            state, gained = advance(step)
            if length is not None:
                state = torch.where((t < length[:number])[:, None], state, before)
            told.append((state.detach(), gained))
        states, total = (torch.cat(parts) for parts in zip(*told, strict=True))
        return states, total

    @property
    def peeks(self) -> bool:
        """Whether proposals see a state that the generative flow might go to."""
        return self.config.samples > 1

    def _advance(self, step: Step) -> tuple[Tensor, Tensor]:
        """Return the next states [N, d] and L_t [N]."""
        state, samples = step.state, step.drawn.shape[1]
        to_state = self.generative.at(state)
        proposing = to_state if self.inference is None else self.inference.at(state)
        peek = to_state.forward(step.peek)[0] if self.peeks else None
        mean, log_std = self.posterior(step.context, state, peek)  # [N, K, d], or [N, 1, d]
        moved, log_det_q = proposing.forward(mean + log_std.exp() * step.drawn)  # [N, K, d]
        origin, log_det_g = to_state.inverse(moved)
        gains = self.emission(moved).gather(2, step.tokens[:, None, None].expand(-1, samples, 1))[:, :, 0]
        density = 0.5 * (step.drawn.square() - origin.square()).sum(2) + log_std.sum(2)  # ln r(zeta) - ln q(xi)
        weights = gains + density + log_det_q - log_det_g  # [N, K]
        if samples == 1:
            return moved[:, 0], weights[:, 0]
        total = weights.logsumexp(1)
        kept = invert((weights - total[:, None]).detach(), step.chance)
        rows = torch.arange(len(state), device=state.device)
        return moved[rows, kept], total - log(samples)

    def drawn_from(self) -> Tensor:
        parts = (self.origin, *self.generative.parameters(), *self.emission.parameters())
        return torch.cat([part.flatten() for part in parts])

    def table(self, number: int, noise: Noise) -> Tensor:
        states = self.prior(torch.arange(number, device=self.origin.device), noise)[1:]
        return torch.stack([self.emission(state).T for state in states])

    def _logs(self, step: int) -> bool:
        """Return whether the log tells of trajectories at an update; evaluations have no log."""
        config = self.config
        told = bool(config.logged and config.information_draws) and step % config.log_every == 0
        return told and torch.is_grad_enabled()

    @torch.no_grad()
    def _prior_parts(self, noise: Noise, like: Tensor) -> dict[str, Tensor]:
        """Return mean mutual information and entropy in bits, over steps of a few trajectories, for the log."""
        rows, draws = self.config.logged, self.config.information_draws
        ids = torch.arange(rows, device=like.device)
        steps, size = min(self.config.positions, self.config.steps), self.config.state
        states = self.prior(ids, noise.fork("state"), steps)
        drawn = noise.fork("information").normal(ids, 0, steps * draws * size)
        told = self.information(states[:-1].transpose(0, 1), drawn.view(rows, steps, draws, size))
        return {"information": told.mean(), "entropy": entropy(self.emission(states[1:])).mean()}


def _by_length(length: Tensor, most: int) -> tuple[Tensor, Tensor, list[int]]:
    """Return the rows by falling length [N], the places of their steps in [T, N] [M], and how many go so far [T]."""
    order = length.argsort(descending=True, stable=True)
    real = torch.arange(most, device=length.device)[:, None] < length[order]  # [T, N]
    return order, real.flatten().nonzero()[:, 0], real.sum(1).tolist()


def _steps_and_rows(rows: Sequence[int]) -> tuple[Tensor, Tensor]:
    """Return the step [M] and the row [M] of each of the first rows[t] rows at every step t."""
    steps = torch.arange(len(rows)).repeat_interleave(torch.tensor(rows))
    return steps, torch.cat([torch.arange(number) for number in rows])


@dataclass(frozen=True)
class Step:
    """What one step of inference is made of."""

    state: Tensor  # h_{t-1} [N, d]
    context: Tensor  # a_t [N, H]
    tokens: Tensor  # w_t [N]
    drawn: Tensor  # of the proposals [N, K, d]
    peek: Tensor  # of what the generative flow might do [N, K, d]
    chance: Tensor  # of the survivor, between 0 and 1 [N]


def _normal(noise: Noise, numbers: Tensor, samples: int, like: Tensor) -> Tensor:
    """Return standard normal numbers [M, K, d] for as many coordinates as `like` has."""
    return noise.normal(numbers, 0, samples * len(like)).view(-1, samples, len(like)).to(like.dtype)


def entropy(log_probs: Tensor) -> Tensor:
    """Return entropies in bits [*] of distributions [*, V]."""
    found: Tensor = torch.special.entr(log_probs.exp()).sum(-1) * BITS
    return found


def information(log_probs: Tensor) -> Tensor:
    """Return the mutual information in bits [*] of tokens and noise, given log-probabilities by noise [*, K, V]."""
    mean = (log_probs.logsumexp(-2) - log(log_probs.shape[-2])).clamp(max=0)
    return (entropy(mean) - entropy(log_probs).mean(-1)).clamp(min=0)


def _by_halves(log_probs: Tensor) -> Tensor:
    """Return the mean information [*] by each half of the noise: its bias is twice as large."""
    half = log_probs.shape[-2] // 2
    return (information(log_probs[..., :half, :]) + information(log_probs[..., half:, :])) / 2


def _told(one: Hypothesis, values: Mapping[str, list[float]]) -> dict[str, float]:
    """Return what metrics may know of the trajectory behind a hypothesis."""
    alive = min(len(one.tokens) + one.finished, len(values["information"]))
    found = {"steps_until_stop": float(alive)}
    for name, steps in values.items():
        found[name] = sum(steps) / len(steps)
        found |= {f"{name}_{t}": value for t, value in enumerate(steps, 1)}
        if name != "entropy":
            found[f"{name}_until_stop"] = sum(steps[:alive])
    return found
