"""Decoders that are wrong in their meaning."""

from __future__ import annotations

from dataclasses import replace
from math import log

import torch

from bench_core import STOP, Decoder, Sampler, Stepper, generate
from bench_mutants.laws import OUTPUTS, breaks
from bench_mutants.sound import Beam, Greedy

COST = r"log_prob|probab|cost|chain|sum|score"
ALIKE = r"alone|batch|order|twice|again|rows|place|same|differ|cost|log_prob|probab"
FINISHED = r"finish|stop|EOS|chain|log_prob|probab|cost"


class EachChanged(Greedy):
    """Greedy decoding of which every hypothesis is changed."""

    def changed(self, one):
        return one

    def decode(self, model, batch, rng):
        return [[self.changed(one) for one in row] for row in super().decode(model, batch, rng)]


@breaks("outputs are not the targets", "gold|target", OUTPUTS)
class ReturnsTheTarget(Greedy):
    def decode(self, model, batch, rng):
        targets = [[token for token in row if token != STOP] for row in batch.gold.tolist()]
        return [
            [replace(one, tokens=target, actions=target, finished=True)]
            for (one,), target in zip(super().decode(model, batch, rng), targets, strict=True)
        ]


@breaks("every row has its own output", ALIKE, OUTPUTS)
class FirstForAll(Greedy):
    def decode(self, model, batch, rng):
        first, *_ = super().decode(model, batch, rng)
        return [first] * len(batch)


@breaks("the output of a row is at its place", ALIKE, OUTPUTS)
class SwapsRows(Greedy):
    def decode(self, model, batch, rng):
        first, second, *rest = [*super().decode(model, batch, rng), None]
        return [second, first, *rest][:-1] if second else [first]


@breaks("a log-probability is the model's own", COST, OUTPUTS)
class ClaimsToBeSure(EachChanged):
    def changed(self, one):
        return replace(one, log_prob=-0.001)


@breaks("an output that was cut has not finished", FINISHED, OUTPUTS)
class CutsAndFinishes(Greedy):
    def decode(self, model, batch, rng):
        shorter = self.config.model_copy(update={"max_tokens": 3})
        return [[replace(one, finished=True) for one in row] for row in Greedy(shorter).decode(model, batch, rng)]


@breaks("an output that stopped by itself has finished", FINISHED, OUTPUTS)
class NeverFinishes(EachChanged):
    def changed(self, one):
        return replace(one, finished=False)


@breaks("a log-probability is not normalized by length", COST, OUTPUTS)
class CostsPerToken(EachChanged):
    def changed(self, one):
        return replace(one, log_prob=one.log_prob / one.length)


@breaks("a log-probability includes EOS", COST, OUTPUTS)
class CostsWithoutStop(Greedy):
    def decode(self, model, batch, rng):
        last = {}

        def pick(log_probs, ids, step):
            best, actions = log_probs.max(1)
            last.update(zip(ids.tolist(), (best * (actions == STOP)).tolist(), strict=True))
            return actions

        found = generate(model, batch, pick, self.config.max_tokens)
        ids = batch.ids.tolist()
        return [[replace(one, log_prob=one.log_prob - last[i])] for i, one in zip(ids, found, strict=True)]


@breaks("a log-probability is in nats", COST, OUTPUTS)
class CostsInBits(EachChanged):
    def changed(self, one):
        return replace(one, log_prob=one.log_prob / log(2))


@breaks("a log-probability has no bonus for length", COST, OUTPUTS)
class LengthBonus(EachChanged):
    def changed(self, one):
        return replace(one, log_prob=min(0.0, one.log_prob + 0.3 * one.length))


@breaks("a log-probability is that of the model, not of the distribution after processing", COST, OUTPUTS)
class OfTheProcessed(Greedy):
    def decode(self, model, batch, rng):
        totals = dict.fromkeys(batch.ids.tolist(), 0.0)

        def pick(log_probs, ids, step):
            best, actions = (log_probs / 0.5).log_softmax(1).max(1)
            for example, gain in zip(ids.tolist(), best.tolist(), strict=True):
                totals[example] += gain
            return actions

        found = generate(model, batch, pick, self.config.max_tokens)
        return [[replace(one, log_prob=total)] for one, total in zip(found, totals.values(), strict=True)]


@breaks("a log-probability is added up in double or single precision", COST, OUTPUTS)
class CostsInHalves(EachChanged):
    def changed(self, one):
        return replace(one, log_prob=torch.tensor(one.log_prob * 16, dtype=torch.float16).item() / 16)


@breaks("hypotheses are ordered, the best first", "order|best|first|rank|probab", OUTPUTS)
class WorstFirst(Beam):
    def ranked(self, done):
        return super().ranked(done)[::-1]


@breaks("a beam that goes on from another chain goes on from its state", COST, OUTPUTS)
class KeepsOldStates(Beam):
    def kept(self, state, rows):
        return state.select((torch.arange(len(rows)) % len(state.trace)).to(rows))


@breaks("decoding ends at EOS", FINISHED + "|actions", OUTPUTS)
class GoesOnAfterStop(Greedy):
    def decode(self, model, batch, rng):
        def pick(log_probs, ids, step):
            return log_probs[:, 1:].argmax(1) + 1

        found = generate(model, batch, pick, min(6, self.config.max_tokens - 1))
        return [[replace(one, finished=True)] for one in found]


@breaks("random choices come from the noise that a decoder is given", ALIKE, OUTPUTS)
class DrawsUnseeded(Decoder[Stepper]):
    def decode(self, model, batch, rng):
        def pick(log_probs, ids, step):
            return log_probs.exp().multinomial(1)[:, 0]

        return [[one] for one in generate(model, batch, pick, self.config.max_tokens)]


@breaks("random choices depend on the example, not on its place in the batch", ALIKE, OUTPUTS)
class DrawsByPlace(Decoder[Sampler]):
    def decode(self, model, batch, rng):
        places = replace(batch, ids=torch.arange(len(batch), device=batch.ids.device))
        return [[one] for one in model.sample(places, self.config.max_tokens, rng)]


@breaks("a row does not end because another does", ALIKE + "|" + FINISHED, OUTPUTS)
class EndsWithTheFirst(Greedy):
    def decode(self, model, batch, rng):
        found = super().decode(model, batch, rng)
        most = 1 + min(len(one.tokens) for (one,) in found)
        return [[one if len(one.tokens) <= most else self.cut(one, most)] for (one,) in found]

    def cut(self, one, most):
        return replace(one, tokens=one.tokens[:most], actions=one.actions[:most], finished=False, log_prob=None)


@breaks("an output does not depend on the batches before it", ALIKE, OUTPUTS)
class RemembersRows(Greedy):
    known = None

    def decode(self, model, batch, rng):
        found = super().decode(model, batch, rng)
        before, self.known = self.known or found[0], found[-1]
        return [before, *found[1:]]


@breaks("the tokens of an output are what its actions say", "actions|tokens|read|chain", OUTPUTS)
class SortsTokens(EachChanged):
    def changed(self, one):
        return replace(one, tokens=sorted(one.tokens))


@breaks("an output is not longer than its limit", "most|limit|long|max_tokens", OUTPUTS)
class TooLong(Greedy):
    def decode(self, model, batch, rng):
        longer = self.config.model_copy(update={"max_tokens": self.config.max_tokens + 5})
        return Greedy(longer).decode(model, batch, rng)


@breaks("an output does not depend on outputs of other rows", ALIKE, OUTPUTS)
class RemovesRepeats(Greedy):
    def decode(self, model, batch, rng):
        seen, found = set(), []
        for row in super().decode(model, batch, rng):
            repeated = tuple(row[0].tokens) in seen
            seen.add(tuple(row[0].tokens))
            found.append([replace(row[0], tokens=[], actions=[], log_prob=None)] if repeated else row)
        return found
