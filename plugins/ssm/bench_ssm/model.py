"""The deep state space model.

Trajectories do not depend on generated tokens, so this is not a `LanguageModel` of the kit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import log

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from bench_core import (
    AGAIN,
    STOP,
    Batch,
    Hypothesis,
    Loss,
    Rng,
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
from bench_ssm.averaging import check_separate
from bench_ssm.flows import Flow
from bench_ssm.information import by_halves, entropy, information, summary
from bench_ssm.latent import Latent
from bench_ssm.particles import ParticleScorer
from bench_ssm.plugin import DeepSSMConfig
from bench_ssm.posterior import Posterior
from bench_ssm.proposals import Proposal, Step, effective_number, normal

HALVES = "information_by_halves"


@dataclass(frozen=True)
class Bound:
    """The bound on ln P(w) of each target, and statistics of the inferred trajectory."""

    total: Tensor  # [N] sum_t L_t, whose expectation is at most ln P(w)
    fit: Tensor  # [N] sum_t ln P(w_t | h_t) along the surviving states
    entropy: Tensor  # [N] mean over t of H[w_t | h_t] along these states, in bits
    effective: Tensor  # [N] mean over t of the effective number of proposals, between 1 and K
    kl: Tensor | None = None  # [N, T] ln P(w_t | h_t) - L_t, 0 for padding; only from `bound`


class Emission(nn.Linear):
    """ln P(. | h) = log softmax(Emb h + b), or log softmax(b) unless `reads_state`."""

    reads_state = True

    def forward(self, states: Tensor) -> Tensor:
        """Return log-probabilities [*, V] at states [*, d]."""
        logits = super().forward(states if self.reads_state else torch.zeros_like(states))
        return logits.to(states.dtype).log_softmax(-1)


class DeepSSM(nn.Module, Latent, ParticleScorer, Vmappable):
    """h_t = F_g(h_{t-1}, zeta_t) with zeta_t ~ N(0, I), and w_t ~ softmax(Emb h_t + b).

    States do not depend on tokens, so prompts have no effect. Training samples h_t = F_q(h_{t-1}, xi_t), where
    xi_t ~ N(mu_t, sigma_t^2) is inferred from the target (Schmidt and Hofmann, 2018, sections 2.4 to 2.6).
    """

    config: DeepSSMConfig

    def __init__(self, config: DeepSSMConfig, info: TaskInfo) -> None:
        super().__init__()
        check_separate(config.name, info.consecutive)
        self.config, self.vocabulary = config, info.vocabulary
        self.origin = nn.Parameter(torch.zeros(config.state))  # h_0
        self.generative: Flow = flows.generative(config)
        self.inference: Flow | None = None if config.shared else flows.inference(config)
        self.posterior = Posterior(config, info)
        self.emission = Emission(config.state, len(info.vocabulary))
        self.emission.reads_state = config.reads_state
        self._compiled: Callable[[Step], tuple[Tensor, Tensor, Tensor]] | None = (
            None  # `_advance`, in compiled training
        )

    def loss(self, batch: Batch, training: Training) -> Loss:
        return self._loss(batch, training, self.bound(batch, training.rng, self.config.samples))

    def vmap_loss(self, batch: Batch, training: Training) -> Loss:
        rows = training.rows or (len(batch),) * batch.gold.shape[1]
        return self._loss(batch, training, self.padded_bound(batch, training.rng, self.config.samples, rows))

    def compiled_loss(self) -> Callable[[Batch, Training], Loss]:
        """Compile only the step, with one graph for all lengths; the whole loss would need a graph per length."""
        self._compiled = torch.compile(self._advance, dynamic=True)
        return self.loss

    def _loss(self, batch: Batch, training: Training, bound: Bound) -> Loss:
        tokens = batch.length.sum()
        logged = self._prior_parts(training.rng.fork("log"), tokens) if self._logs(training.step) else {}
        parts = {"fit": -bound.fit.sum() / tokens, **logged}
        if self.peeks:
            parts["effective_proposals"] = (bound.effective.detach() * batch.length).sum() / tokens
        return Loss(-bound.total.sum() / tokens, tokens, parts)

    def score(self, batch: Batch, scoring: Scoring) -> Scores:
        if scoring.by == "trajectories":
            return self.average(batch, scoring.rng)
        if scoring.by == "smc":
            return self.filtered(batch, scoring.rng)
        bound = self.bound(batch, scoring.rng, self.config.samples)
        again = self.bound(batch, scoring.rng.fork("again"), self.config.samples)
        values = {"fit": bound.fit, "kl": bound.fit - bound.total, "entropy": bound.entropy, AGAIN: again.total}
        values["effective_proposals"] = bound.effective
        return Scores(bound.total.double(), values, by_token={} if bound.kl is None else {"kl": bound.kl})

    def log_bounds(self, batch: Batch, rng: Rng) -> Tensor:
        return self.bound(batch, rng, self.config.samples).total

    def sample(self, batch: Batch, max_tokens: int, rng: Rng) -> list[Hypothesis]:
        def choose(log_probs: Tensor) -> Tensor:
            tokens = [invert(each, rng.fork("word").uniform(batch.ids, t)) for t, each in enumerate(log_probs)]
            return torch.stack(tokens)

        return self._sample(batch, max_tokens, rng, choose)

    def sample_likeliest(self, batch: Batch, max_tokens: int, rng: Rng) -> list[Hypothesis]:
        return self._sample(batch, max_tokens, rng, lambda log_probs: log_probs.argmax(2))

    @torch.no_grad()
    def _sample(
        self, batch: Batch, max_tokens: int, rng: Rng, choose: Callable[[Tensor], Tensor]
    ) -> list[Hypothesis]:
        """Sample a trajectory for each row; `choose` maps log-probabilities [T, N, V] to tokens [T, N]."""
        states = self.prior(batch.ids, rng.fork("state"))
        log_probs = self.emission(states[1:])
        checked(log_probs.flatten(0, 1), self, "sample")
        rows = choose(log_probs[:max_tokens]).T.tolist()
        samples = [Hypothesis(row[: row.index(STOP)] if STOP in row else row, STOP in row) for row in rows]
        if not self.config.information_draws:
            return samples
        values = self._values(batch.ids, states, log_probs, rng.fork("information"))
        return [replace(sample, values=summary(sample, each)) for sample, each in zip(samples, values, strict=True)]

    def _values(self, ids: Tensor, states: Tensor, log_probs: Tensor, rng: Rng) -> list[Mapping[str, list[float]]]:
        """Return values of each row's first `positions` steps, by name, in bits.

        These are I(w_t; zeta_t | h_{t-1}), its estimate from halves of the noise samples, and H[w_t | h_t].
        """
        draws, steps = self.config.information_draws, min(self.config.positions, self.config.steps)
        size = states.shape[2]
        zeta = [rng.normal(ids, t, draws * size).view(-1, draws, size) for t in range(steps)]
        by_noise = [self._next_log_probs(states[t], each) for t, each in enumerate(zeta)]
        values = {"information": torch.stack([information(each) for each in by_noise], 1)}  # [N, T]
        values["entropy"] = entropy(log_probs[:steps]).T
        if draws > 1:
            values[HALVES] = torch.stack([by_halves(each) for each in by_noise], 1)
        columns = {name: column.tolist() for name, column in values.items()}
        return [{name: column[row] for name, column in columns.items()} for row in range(len(ids))]

    def prior(self, ids: Tensor, rng: Rng, steps: int | None = None) -> Tensor:
        """Sample a trajectory h_0, ..., h_T [T + 1, N, d] for each id [N], by default with all steps of the model."""
        states = [self.origin.expand(len(ids), -1)]
        for zeta in normal(rng, ids, steps or self.config.steps, self.origin).unbind(1):
            states.append(self.generative.at(states[-1]).forward(zeta[:, None])[0][:, 0])
        return torch.stack(states)

    def information(self, states: Tensor, zeta: Tensor) -> Tensor:
        """Estimate I(w_t; zeta_t | h_{t-1}) in bits [*] at states [*, d] from noise [*, K, d]; at most log2 K."""
        return information(self._next_log_probs(states, zeta))

    def _next_log_probs(self, states: Tensor, zeta: Tensor) -> Tensor:
        """Return log-probabilities [*, K, V] after a step from states [*, d] with noise [*, K, d]."""
        moved, _ = self.generative.at(states).forward(zeta.to(states.dtype))
        log_probs: Tensor = self.emission(moved)
        return log_probs

    def bound(self, batch: Batch, rng: Rng, samples: int) -> Bound:
        """Compute bounds with `samples` proposals per step, of which one survives, sampled by weight.

        Rows are sorted by decreasing length, so that the rows that take a given step always come first.
        """
        longest = self.max_length(batch)
        order, places, rows = _by_length(on_host(batch.length), longest)
        order, places = (to_device(each, batch.ids.device) for each in (order, places))
        gold, length, ids = batch.gold[order, :longest], batch.length[order], batch.ids[order]
        steps = torch.arange(longest, device=length.device)[:, None]
        numbers = (ids * self.config.steps + steps).flatten()[places]  # [M] for all steps of all rows, by step
        contexts = self.posterior.read(gold, length).unbind(1)
        states, total, effective = self._infer(gold, numbers, rows, contexts, rng, samples)
        with torch.no_grad():  # statistics, not trained
            log_probs = self.emission(states)
            fit = log_probs.gather(1, gold.T.flatten()[places][:, None])[:, 0]

        back = order.argsort()

        def by_step(terms: Tensor) -> Tensor:
            table = terms.new_zeros(longest * len(ids)).index_copy(0, places, terms)
            return table.view(longest, len(ids))[:, back]

        sums = [by_step(terms).sum(0) for terms in (total, fit, entropy(log_probs), effective)]
        kl = pad(by_step(fit - total.detach()).T, (0, batch.gold.shape[1] - longest))
        return Bound(sums[0], sums[1], sums[2] / batch.length, sums[3] / batch.length, kl)

    def padded_bound(self, batch: Batch, rng: Rng, samples: int, rows: Sequence[int]) -> Bound:
        """Compute `bound` without operations that depend on lengths, which differ between vmapped seeds.

        The rows[t] rows with the longest targets take step t. They include all rows that have a token at this step;
        terms after the end of a target are not counted.
        """
        order = batch.length.argsort(descending=True, stable=True)
        gold, length, ids = batch.gold[order, : len(rows)], batch.length[order], batch.ids[order]
        steps, index = (to_device(each, ids.device) for each in _steps_and_rows(rows))  # [M]
        contexts = torch.split(self.posterior.walk(gold, length, rows, steps, index), [*rows])
        numbers = ids[index] * self.config.steps + steps
        states, total, effective = self._infer(gold, numbers, rows, contexts, rng, samples, length)
        with torch.no_grad():  # statistics, not trained
            log_probs = self.emission(states)
            fit = log_probs.gather(1, gold[index, steps][:, None])[:, 0]

        back, real = order.argsort(), steps < length[index]

        def sum_steps(terms: Tensor) -> Tensor:
            return terms.new_zeros(len(ids)).index_add(0, index, torch.where(real, terms, 0.0))[back]

        lengths = batch.length.clamp(min=1)  # 0 in rows that only another seed has
        bits, number = (sum_steps(terms) / lengths for terms in (entropy(log_probs), effective))
        return Bound(sum_steps(total), sum_steps(fit), bits, number)

    def _infer(
        self, gold: Tensor, numbers: Tensor, rows: Sequence[int], contexts: Sequence[Tensor], rng: Rng,
        samples: int, length: Tensor | None = None,
    ) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
        """Return states [M, d], L_t [M] and effective numbers of proposals [M] of all steps; rows[t] take step t.

        `contexts` has at least rows[t] rows for step t; `numbers` [M] are the ids of the noise. With `length` [N], a
        row stays in its last state after its end.
        """
        sizes = [*rows]
        eps = torch.split(normal(rng.fork("proposal"), numbers, samples, self.origin), sizes)
        peeks = torch.split(normal(rng.fork("peek"), numbers, samples, self.origin), sizes) if self.peeks else eps
        uniform = torch.split(rng.fork("survivor").uniform(numbers), sizes)
        advance = self._compiled or self._advance
        state, results = self.origin.expand(len(gold), self.config.state), []
        for t, (number, context) in enumerate(zip(rows, contexts, strict=False)):
            before = state[:number]
            step = Step(before, context[:number], gold[:number, t], eps[t], peeks[t], uniform[t])
            state, gain, effective = advance(step)
            if length is not None:
                state = torch.where((t < length[:number])[:, None], state, before)
            results.append((state.detach(), gain, effective))
        states, total, numbers = (torch.cat(parts) for parts in zip(*results, strict=True))
        return states, total, numbers

    @property
    def peeks(self) -> bool:
        return self.config.samples > 1

    def proposal(self, step: Step) -> Proposal:
        """Return the distributions p and q of the next states."""
        prior = self.generative.at(step.state)
        inferred = prior if self.inference is None else self.inference.at(step.state)
        peek = prior.forward(step.peek)[0] if self.peeks else None
        return Proposal(prior, inferred, *self.posterior(step.context, step.state, peek))

    def emitted(self, states: Tensor, tokens: Tensor) -> Tensor:
        """Return ln P(w_t | h_t) [*, K] of tokens [*] at states [*, K, d]."""
        log_probs: Tensor = self.emission(states)
        return log_probs.gather(-1, tokens[..., None, None].expand(*states.shape[:-1], 1))[..., 0]

    def _advance(self, step: Step) -> tuple[Tensor, Tensor, Tensor]:
        """Return the next states [N, d], L_t [N] and the effective number of proposals [N]."""
        moved, ratios = self.proposal(step).sample(step.eps)
        weights = self.emitted(moved, step.tokens) + ratios  # [N, K]
        samples = weights.shape[1]
        if samples == 1:
            return moved[:, 0], weights[:, 0], torch.ones_like(weights[:, 0])
        total = weights.logsumexp(1)
        shares = (weights - total[:, None].clamp(min=torch.finfo(total.dtype).min)).detach()
        survivor = invert(shares, step.uniform).clamp(max=samples - 1)  # weights may be NaN
        rows = torch.arange(len(moved), device=moved.device)
        return moved[rows, survivor], total - log(samples), effective_number(shares)

    def table_weights(self) -> Tensor:
        parts = (self.origin, *self.generative.parameters(), *self.emission.parameters())
        return torch.cat([part.flatten() for part in parts])

    def table(self, number: int, rng: Rng) -> Tensor:
        states = self.prior(torch.arange(number, device=self.origin.device), rng)[1:]
        return torch.stack([self.emission(state).T for state in states])

    def _logs(self, step: int) -> bool:
        """Return whether statistics of trajectories are logged at an update; evaluations do not log."""
        config = self.config
        logs = bool(config.logged and config.information_draws) and step % config.log_every == 0
        return logs and torch.is_grad_enabled()

    @torch.no_grad()
    def _prior_parts(self, rng: Rng, like: Tensor) -> dict[str, Tensor]:
        """Return the mean mutual information and entropy, in bits, over steps of `logged` trajectories."""
        rows, draws = self.config.logged, self.config.information_draws
        ids = torch.arange(rows, device=like.device)
        steps, size = min(self.config.positions, self.config.steps), self.config.state
        states = self.prior(ids, rng.fork("state"), steps)
        zeta = rng.fork("information").normal(ids, 0, steps * draws * size)
        bits = self.information(states[:-1].transpose(0, 1), zeta.view(rows, steps, draws, size))
        return {"information": bits.mean(), "entropy": entropy(self.emission(states[1:])).mean()}


def _by_length(length: Tensor, longest: int) -> tuple[Tensor, Tensor, list[int]]:
    """Return rows by decreasing length [N], flat indices [M] of their steps in [T, N], and rows per step [T]."""
    order = length.argsort(descending=True, stable=True)
    real = torch.arange(longest, device=length.device)[:, None] < length[order]  # [T, N]
    return order, real.flatten().nonzero()[:, 0], real.sum(1).tolist()


def _steps_and_rows(rows: Sequence[int]) -> tuple[Tensor, Tensor]:
    """Return steps [M] and row indices [M], ordered by step, if the first rows[t] rows take step t."""
    steps = torch.arange(len(rows)).repeat_interleave(torch.tensor(rows))
    return steps, torch.cat([torch.arange(number) for number in rows])
