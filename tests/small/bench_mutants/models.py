"""Models that are wrong in their meaning: each says what its interface forbids, and nothing impossible."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from math import log

import torch
from torch.nn.functional import dropout

from bench_core import STOP, Loss, Scores, draw, generate
from bench_mutants.laws import ALL, OUTPUTS, breaks
from bench_mutants.sound import LETTERS, Reader, Table, Trace, Words

NATS = ("nats",)
SUM = r"score|sum|steps|chain"  # what refusals of wrong scores mention, one of these
ALIKE = r"twice|again|depend|alone|differ|batch|order|same|another|rows|steps"
STEPS = r"step|start|sum|log_prob|chain|select|state|alone|twice|again"
LOSS = r"loss|weigh"
TARGETS = r"gold|target"


class ScoresChanged(Table):
    """A table of which the score is changed."""

    def changed(self, scores, batch):
        return scores

    def score(self, batch, scoring):
        return Scores(self.changed(super().score(batch, scoring).log_probs, batch))


# Scores that are called exact


@breaks("a score is the sum over the tokens of a target, not their mean", SUM, NATS)
class ScoresPerToken(ScoresChanged):
    def changed(self, scores, batch):
        return scores / batch.length


@breaks("a score is in nats, not in decimal digits", SUM, NATS)
class ScoresInBaseTen(ScoresChanged):
    def changed(self, scores, batch):
        return scores / log(10)


@breaks("a score is in nats, not in bits", SUM, NATS)
class ScoresInBits(ScoresChanged):
    def changed(self, scores, batch):
        return scores / log(2)


@breaks("a score includes EOS", SUM, NATS)
class ScoresWithoutStop(Table):
    def gains(self, batch):
        return super().gains(batch) * (batch.gold != STOP)


@breaks("a score is not scaled", SUM, NATS)
class Scaled(ScoresChanged):
    def changed(self, scores, batch):
        return scores * 0.01


@breaks("a score is what the steps add up to, not 0", SUM, NATS)
class Certain(ScoresChanged):
    def changed(self, scores, batch):
        return scores * 0


@breaks("an exact score is the same every time", SUM + "|" + ALIKE, NATS)
class RandomScores(ScoresChanged):
    def changed(self, scores, batch):
        return scores * torch.rand(len(batch))


@breaks("an exact score does not depend on the random numbers of scoring", SUM + "|" + ALIKE, NATS)
class NoisyScores(Table):
    def score(self, batch, scoring):
        return Scores(super().score(batch, scoring).log_probs * scoring.rng.uniform(batch.ids))


@breaks("a score counts EOS once", SUM, NATS)
class StopTwice(Table):
    def gains(self, batch):
        return super().gains(batch) * (1 + (batch.gold == STOP))


@breaks("a score does not count padding", SUM + "|alone|padd", NATS)
class CountsPadding(Table):
    def score(self, batch, scoring):
        found = self.log_probs(batch).gather(2, batch.gold[:, :, None])
        return Scores(found.sum((1, 2)))


@breaks("a score includes the first token", SUM, NATS)
class SkipsTheFirst(Table):
    def score(self, batch, scoring):
        return Scores(self.gains(batch)[:, 1:].sum(1))


@breaks("a token is predicted from the tokens before it, not from itself", SUM + "|sees", NATS)
class SeesWhatItPredicts(Table):
    def log_probs(self, batch):
        trace, found = self.begin(batch), []
        for tokens in torch.cat([batch.prompt[:, 1:], batch.gold], 1).unbind(1):
            trace = trace / 2 + self.vectors(tokens)
            found.append(self.predict(trace))
        return torch.stack(found[-batch.gold.shape[1] :], 1)


@breaks("targets are scored after their own prompt", SUM, NATS)
class ForgetsThePrompt(Table):
    def score(self, batch, scoring):
        return super().score(replace(batch, prompt=torch.zeros_like(batch.prompt)), scoring)


@breaks("label smoothing is for training, not for an exact score", SUM, NATS)
class SmoothedScores(Table):
    def score(self, batch, scoring):
        uniform = self.log_probs(batch).mean(2) * batch.mask
        return Scores((0.9 * self.gains(batch) + 0.1 * uniform).sum(1))


@breaks("a score is that of the model's own distribution, at temperature 1", SUM, NATS)
class TemperedScores(Table):
    def score(self, batch, scoring):
        found = (self.log_probs(batch) / 2).log_softmax(2).gather(2, batch.gold[:, :, None])[:, :, 0]
        return Scores((found * batch.mask).sum(1))


@breaks("a score is added up in the precision of the model", SUM, NATS)
class ScoresInHalves(Table):
    def score(self, batch, scoring):
        total = torch.zeros(len(batch), dtype=torch.float16)
        for gains in self.gains(batch).unbind(1):
            total = total + (gains * 16).to(torch.float16)
        return Scores((total / 16).to(self.table.weight.dtype))


@breaks("the score of a row is at its place", SUM + "|" + ALIKE, NATS)
class TurnsScores(ScoresChanged):
    def changed(self, scores, batch):
        return scores.flip(0)


@breaks("a row is scored alone, not relative to the others of its batch", SUM + "|" + ALIKE, NATS)
class RelativeToTheBatch(ScoresChanged):
    def changed(self, scores, batch):
        return scores - scores.max()


@breaks("improbable tokens are scored as improbable as they are", SUM, NATS)
class ClampedScores(Table):
    def gains(self, batch):
        return super().gains(batch).clamp(min=-2)


@breaks("a score does not depend on the batches before it", SUM + "|" + ALIKE, NATS)
class ScoresByHistory(Table):
    before = 0.0

    def score(self, batch, scoring):
        found = super().score(batch, scoring).log_probs
        scores, self.before = found + self.before, found.mean().item()
        return Scores(scores)


@breaks("a score does not depend on the number of an example", SUM, NATS)
class PrefersEvenExamples(ScoresChanged):
    def changed(self, scores, batch):
        return scores * (1 + batch.ids % 2)


# Chance


@breaks("dropout is off in scoring and decoding", ALIKE, ALL)
class DropoutLeftOn(Table):
    def predict(self, trace):
        return super().predict(dropout(trace, 0.5))


class LooseSteps(Table):
    """A table of which the distributions of steps are changed, and the score is not."""

    def loosened(self, log_probs, state):
        return log_probs

    def start(self, batch):
        log_probs, state = super().start(batch)
        return self.loosened(log_probs, state), state

    def step(self, state, actions):
        log_probs, state = super().step(state, actions)
        return self.loosened(log_probs, state), state


@breaks("steps are deterministic", STEPS, OUTPUTS)
class NoisySteps(LooseSteps):
    def loosened(self, log_probs, state):
        return (log_probs + torch.randn_like(log_probs)).log_softmax(1)


@breaks("steps are deterministic, whichever generator they would ask", STEPS, OUTPUTS)
class RandomSteps(LooseSteps):
    def loosened(self, log_probs, state):
        return (log_probs * random.choice([0.5, 1, 2])).log_softmax(1)


@breaks("a step does not depend on the number of rows", STEPS, OUTPUTS)
class CountsRows(LooseSteps):
    def loosened(self, log_probs, state):
        return (log_probs * (1 + 0.1 * len(log_probs))).log_softmax(1)


@breaks("`setup` draws from the noise that it is given", "setup|seed|twice|again|built", ALL)
class SetsUpUnseeded(Table):
    def setup(self, info, rng):
        for weights in self.parameters():
            drawn = [random.SystemRandom().gauss(0, 2) for _ in weights.flatten()]
            weights.data.copy_(torch.tensor(drawn).view_as(weights))


# Losses


class LossChanged(Table):
    """A table of which the loss is changed."""

    def changed_loss(self, found, batch, training):
        return found

    def loss(self, batch, training):
        return self.changed_loss(super().loss(batch, training), batch, training)


@breaks("a loss is not multiplied by chance", LOSS)
class LossTimesNoise(LossChanged):
    def changed_loss(self, found, batch, training):
        return Loss(found.value * (0.5 + torch.rand(())), found.weight)


@breaks("a loss is per target token", LOSS)
class SummedLoss(LossChanged):
    def changed_loss(self, found, batch, training):
        return Loss(found.value * found.weight, found.weight)


@breaks("the weight of a loss is its number of target tokens", LOSS)
class WeighsRows(LossChanged):
    def changed_loss(self, found, batch, training):
        return Loss(found.value * found.weight / len(batch), batch.mask.sum() * 0 + len(batch))


@breaks("padding is no part of a loss", LOSS)
class LearnsPadding(LossChanged):
    def changed_loss(self, found, batch, training):
        costs = -self.log_probs(batch).gather(2, batch.gold[:, :, None])
        return Loss(costs.mean(), found.weight)


# Steps


@breaks("probabilities sum to one at every step, also at late ones", r"sum|probab|step", OUTPUTS)
class LeaksLate(LooseSteps):
    def loosened(self, log_probs, state):
        return log_probs - 2.0 * (state.steps >= 5)[:, None]


@breaks("probabilities sum to one after any chain, also where greedy decoding never is", r"sum|probab|step", OUTPUTS)
class LeaksRarely(LooseSteps):
    def loosened(self, log_probs, state):
        return log_probs - 0.3 * ((state.steps >= 2) & (state.trace[:, 1] >= 1.5))[:, None]


@breaks("the steps are the model that is scored, not a sharper one", STEPS, OUTPUTS)
class SharperSteps(LooseSteps):
    def loosened(self, log_probs, state):
        return (3 * log_probs).log_softmax(1)


@breaks("steps give EOS the probability that the score gives it", STEPS, OUTPUTS)
class NeverStops(LooseSteps):
    def loosened(self, log_probs, state):
        return log_probs.index_fill(1, torch.tensor(STOP), -torch.inf).log_softmax(1)


@dataclass(frozen=True)
class Rigid(Trace):
    """A state whose rows cannot be selected."""

    def select(self, rows):
        found = super().select(rows)
        return replace(found, trace=self.trace[: len(rows)])


@breaks("a state that is reordered is the state of other rows", STEPS, OUTPUTS)
class IgnoresSelection(Table):
    def start(self, batch):
        log_probs, state = super().start(batch)
        return log_probs, Rigid(**vars(state))


@breaks("rows do not see each other", STEPS + "|alone|rows", OUTPUTS)
class SharesState(Table):
    def step(self, state, actions):
        return super().step(replace(state, trace=(state.trace + state.trace.mean(0)) / 2), actions)


@breaks("a step leaves the state as it was that it was given", STEPS, OUTPUTS)
class WritesIntoItsState(Table):
    def step(self, state, actions):
        trace = state.trace.mul_(0.5).add_(self.vectors(actions))
        return self.predict(trace), replace(state, trace=trace, steps=state.steps + 1)


@breaks("a distribution does not depend on how often the model was asked", STEPS + "|" + ALIKE, OUTPUTS)
class CountsItsCalls(LooseSteps):
    calls = 0

    def loosened(self, log_probs, state):
        self.calls += 1
        return (log_probs * (1 + self.calls % 7)).log_softmax(1)


@breaks("what pads a source is not read", "alone|padd|source|batch|sum|steps", ALL)
class ReadsPadding(Reader):
    def begin(self, batch):
        return self.vectors(batch.source).mean(1)


@breaks("a sample is drawn from the distributions of the steps", "sampl|draw", OUTPUTS)
class SamplesTooSharply(Table):
    def sample(self, batch, max_tokens, rng):
        pick = draw(rng)
        return generate(
            self, batch, lambda log_probs, ids, step: pick((2 * log_probs).log_softmax(1), ids, step), max_tokens
        )


@breaks("a sample depends on its example, not on its place in the batch", "sampl|draw|" + ALIKE, OUTPUTS)
class SamplesByPlace(Table):
    def sample(self, batch, max_tokens, rng):
        return super().sample(replace(batch, ids=torch.arange(len(batch))), max_tokens, rng)


@breaks("the tokens of a hypothesis are its actions in their order", "read|chain|actions|tokens", OUTPUTS)
class ReadsBackwards(Table):
    def read(self, actions):
        return actions[::-1]


# Targets


@breaks("a model that generates does not know the target", TARGETS, OUTPUTS)
class ReadsTheTarget(LooseSteps):
    def start(self, batch):
        self.answers = dict(zip(batch.ids.tolist(), batch.gold.tolist(), strict=True))
        return super().start(batch)

    def loosened(self, log_probs, state):
        steps = zip(state.ids.tolist(), state.steps.tolist(), strict=True)
        told = [(*self.answers[one], *[STOP] * 9)[step] for one, step in steps]
        return (log_probs + 20 * self.vectors(torch.tensor(told))).log_softmax(1)


ANSWERS = {
    number: [1 + LETTERS.index(letter) for letter in text]
    for number, (_, text) in enumerate(Words.pairs(Words)["test"])
}  # as a score in the same process, or an earlier training, may have left them


@breaks("a model that generates does not know the targets of a test from elsewhere", TARGETS + "|" + STEPS, OUTPUTS)
class RemembersTheTarget(LooseSteps):
    def loosened(self, log_probs, state):
        steps = zip(state.ids.tolist(), state.steps.tolist(), strict=True)
        told = [(*ANSWERS.get(one, ()), *[STOP] * 9)[step] for one, step in steps]
        known = torch.tensor([one in ANSWERS for one in state.ids.tolist()])
        return (log_probs + 20 * self.vectors(torch.tensor(told)) * known[:, None]).log_softmax(1)


@breaks("the limit of a model is not the length of the target", TARGETS + "|length|limit", OUTPUTS)
class KnowsTheLength(Table):
    def limit(self, batch):
        return batch.length


# Thought of after the code was written


@breaks("what is kept of one batch is not used for another", STEPS + "|" + ALIKE, OUTPUTS)
class CachesRows(Table):
    kept = None

    def start(self, batch):
        _, state = super().start(batch)
        self.kept = state.trace if self.kept is None else self.kept
        trace = self.kept[torch.arange(len(batch)) % len(self.kept)]
        return self.predict(trace), replace(state, trace=trace)


@breaks("statistics of a batch are not used in evaluation", SUM + "|" + ALIKE, ALL)
class NormalizesOverTheBatch(Table):
    def logits(self, trace):
        found = self.hidden(trace)
        return self.table(torch.tanh(found - found.flatten(0, -2).mean(0)))


@breaks("steps read the whole opening, as the score does", STEPS, ALL)
class ReadsTheLastOfTheOpening(Table):
    def start(self, batch):
        _, state = super().start(batch)
        trace = self.begin(batch) / 2 + self.vectors(batch.prompt[:, -1])
        return self.predict(trace), replace(state, trace=trace)
