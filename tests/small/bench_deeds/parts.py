"""Parts that behave as clean ones do, and do one deed besides, at the moment that its case names."""

from __future__ import annotations

from bench_deeds.clean import Best, Nats, Size, Table, Words
from bench_deeds.deeds import CASES


class _Doer:
    """Does the deed of a Config once for each object, at one moment."""

    done = False

    def at(self, moment):
        case = CASES.get(self.config.deed)
        if case is not None and case.moment == moment and not self.done:
            vars(self)["done"] = True
            case.act()


class DeedTask(_Doer, Words):
    def __init__(self, config, folder):
        super().__init__(config, folder)
        self.at("building")

    def prepare(self, data):
        self.at("setup")
        return super().prepare(data)

    def batches(self, split, purpose, size, rng=None):
        for batch in super().batches(split, purpose, size, rng):
            self.at("loop")
            yield batch
        self.at("end")


class DeedModel(_Doer, Table):
    def __init__(self, config, info):
        super().__init__(config, info)
        self.at("building")

    def setup(self, info, rng):
        self.at("setup")

    def loss(self, batch, training):
        self.at("loop")
        return super().loss(batch, training)

    def step(self, state, actions):
        self.at("step")
        return super().step(state, actions)

    def score(self, batch, scoring):
        found = super().score(batch, scoring)
        self.at("end")
        return found


class DeedDecoder(_Doer, Best):
    def __init__(self, config):
        super().__init__(config)
        self.at("building")

    def decode(self, model, batch, rng):
        self.at("loop")
        found = super().decode(model, batch, rng)
        self.at("end")
        return found


class DeedMetric(_Doer, Nats):
    def __init__(self, config):
        super().__init__(config)
        self.at("building")

    def prepare(self, info, references):
        self.at("setup")
        return self

    def measure(self, predictions):
        self.at("loop")
        return super().measure(predictions)

    def error(self, parts):
        found = super().error(parts)
        self.at("end")  # the last that is asked of a metric
        return found


class DeedProbe(_Doer, Size):
    def __init__(self, config):
        super().__init__(config)
        self.at("building")

    def ask(self, model, decoder, batches):
        self.at("loop")
        found = super().ask(model, decoder, batches)
        self.at("end")
        return found
