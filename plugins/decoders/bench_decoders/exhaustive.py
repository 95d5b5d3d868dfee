"""Exhaustive search for small problems."""

import sys

import torch

from bench_core import Batch, Decoder, Hypothesis, Rng, Stepper, SuiteError, limits
from bench_decoders.beam import Beam
from bench_decoders.plugin import BeamConfig, ExhaustiveConfig


class Exhaustive(Decoder[Stepper]):
    """Find the best of all sequences with an unbounded beam, one row at a time to save memory."""

    config: ExhaustiveConfig

    def decode(self, model: Stepper, batch: Batch, rng: Rng) -> list[list[Hypothesis]]:
        ranking = self.config.model_dump(exclude={"most"})
        beam = Beam(BeamConfig(width=sys.maxsize, finish="exhausted", **ranking))
        rows = [batch.select(torch.tensor([row], device=batch.ids.device)) for row in range(len(batch))]
        for row in rows:
            self._check_size(model, row)
        return [beam.decode(model, row, rng)[0] for row in rows]

    def _check_size(self, model: Stepper, row: Batch) -> None:
        """Raise SuiteError if a row has more than `most` sequences."""
        actions = model.start(row)[0].shape[1]
        steps = int(limits(model, row, self.config.max_tokens)) * model.actions_per_token
        if actions**steps > self.config.most:
            raise SuiteError(
                f"exhaustive search would visit {actions}^{steps} sequences ({actions} actions, {steps} steps), more "
                f"than the limit of {self.config.most:,} (`most`). Lower `max_tokens`, or use the decoder `beam`."
            )
