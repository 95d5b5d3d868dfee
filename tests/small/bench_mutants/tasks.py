"""Tasks that are wrong in their meaning."""

from __future__ import annotations

import random
from dataclasses import replace

from bench_core import Purpose
from bench_mutants.laws import ALL, breaks
from bench_mutants.sound import SIZES, Words

READ = r"twice|again|order|same|differ|epoch|id|batch|once"
SHARED = r"train|duplicate|share|twice|repeat"


class BatchesChanged(Words):
    """Words of which every batch is changed."""

    def changed(self, batch, purpose):
        return batch

    def batch(self, ids, pairs, purpose):
        return self.changed(super().batch(ids, pairs, purpose), purpose)


@breaks("a split has the same rows in the same order at each reading", READ, ALL)
class AnotherOrder(Words):
    def read(self, split):
        pairs = super().read(split)
        random.SystemRandom().shuffle(pairs)
        return pairs


@breaks("an example has the same number for every purpose", READ, ALL)
class Renumbers(Words):
    def batches(self, split, purpose, size, rng=None):
        for batch in super().batches(split, purpose, size, rng):
            yield replace(batch, ids=SIZES[split] - 1 - batch.ids) if purpose is Purpose.DECODE else batch


@breaks("references are those of their own example", "reference|target", ALL)
class ShiftedReferences(Words):
    def references(self, split):
        found = super().references(split)
        return {number: found[(number + 1) % len(found)] for number in found}


@breaks("prepared twice a task is the same", "twice|again|prepar|differ|same", ALL)
class PreparesByChance(Words):
    def pairs(self):
        found = super().pairs()
        random.SystemRandom().shuffle(found["test"])
        return found


@breaks("an epoch has all examples, whatever the size of batches", READ + "|example|cover", ALL)
class DropsTheRest(Words):
    def batches(self, split, purpose, size, rng=None):
        for batch in super().batches(split, purpose, size, rng):
            if len(batch) == size.number:
                yield batch


@breaks("an example does not depend on the size of its batch", READ + "|size|alone|prompt|opening", ALL)
class CutsToTheBatch(BatchesChanged):
    def changed(self, batch, purpose):
        return replace(batch, prompt=batch.prompt[:, : 2 if len(batch) < 5 else 3])


@breaks("the length of a target counts EOS", "stop|length|EOS", ALL)
class LengthWithoutStop(BatchesChanged):
    def changed(self, batch, purpose):
        return replace(batch, length=(batch.length - 1).clamp(min=1))


@breaks("targets are padded with EOS", "pad|stop|EOS|gold", ALL)
class PadsWithAWord(BatchesChanged):
    def changed(self, batch, purpose):
        return replace(batch, gold=batch.gold + (~batch.mask).long())


@breaks("examples are shuffled by the noise of an epoch", "shuffl|order|noise", ALL)
class NeverShuffles(Words):
    def batches(self, split, purpose, size, rng=None):
        return super().batches(split, purpose, size)


@breaks("batches for decoding hold no targets, under no name", "target|gold|extra", ALL)
class HidesTheTarget(BatchesChanged):
    def changed(self, batch, purpose):
        return replace(batch, extras={"answer": batch.gold.clone()})


@breaks("the facts of a task are the same at each preparation", "twice|again|prepar|differ|same", ALL)
class FactsByChance(Words):
    def prepare(self, data):
        info = super().prepare(data)
        return replace(info, extras={"draw": random.SystemRandom().random()})


# The numbers of these are what they say; a reader has to know what they are of


@breaks("the examples of test are not those of train", SHARED, warning=True)
class TestsOnTraining(Words):
    def pairs(self):
        found = super().pairs()
        return {**found, "test": found["train"]}


@breaks("an example is in a split once", SHARED, warning=True)
class OneExample(Words):
    def pairs(self):
        found = super().pairs()
        return {**found, "test": found["test"][:1] * 60}


@breaks("few examples of test are in train, under whatever numbers", SHARED, warning=True)
class SharesSome(Words):
    def pairs(self):
        found = super().pairs()
        return {**found, "test": [*found["train"][40:46], *found["test"][6:]][::-1]}


@breaks("an example of a split is there once, under whatever numbers", SHARED, warning=True)
class RepeatsSome(Words):
    def pairs(self):
        found = super().pairs()
        return {**found, "test": [*found["test"], *found["test"][:6]]}
