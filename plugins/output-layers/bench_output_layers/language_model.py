"""Language models with any of this package's output layers."""

from collections.abc import Callable, Iterable, Iterator, Mapping

import torch
from torch import Tensor

from bench_core import Batch, Rng, Scores, Scoring, TaskInfo
from bench_core.kit import LanguageModel
from bench_output_layers.codes import CodedHead
from bench_output_layers.layer import ScoringHead

FITTED_POSITIONS = 2000  # positions of the validation split to which readings are fitted


class OutputLayerLM(LanguageModel):
    """A language model whose output layer may learn from the training split before the first update."""

    head: ScoringHead
    info: TaskInfo

    def fit_statistics(self, batches: Callable[[], Iterator[Batch]], rng: Rng) -> None:
        if self.head.needs_statistics:
            self.head.fit_statistics([row for batch in batches() for row in _sentences(batch)], self.info, rng)

    def notes(self) -> Mapping[str, str]:
        return self.head.notes()

    def fit_on_validation(self, batches: Iterable[Batch], rng: Rng) -> None:
        if not isinstance(self.head, CodedHead):
            return
        units, gold, count, memory = [], [], 0, None
        for batch in batches:
            scoring = Scoring("exact", rng, memory if batch.continues else None)
            states, state = self.predict(batch, scoring)
            memory = self._memory(scoring.memory, state, state.head)
            units.append(batch.at_real(states))
            gold.append(batch.at_real(batch.gold))
            count += len(gold[-1])
            if count >= FITTED_POSITIONS:
                break
        if count:
            order = torch.randperm(count, generator=torch.Generator().manual_seed(rng.key % 2**63))
            chosen = order[:FITTED_POSITIONS].to(gold[0].device)
            self.head.fit_reading(torch.cat(units)[chosen], torch.cat(gold)[chosen])

    def score(self, batch: Batch, scoring: Scoring) -> Scores:
        """Score targets; report values of each row and, unless they are bounds, of each token."""
        states, state = self.predict(batch, scoring)
        values, memory = self._values(states, batch, scoring), self._memory(scoring.memory, state, state.head)
        if scoring.by == "bits":  # a bound has no most probable token
            log_probs, _ = self.head.score(states, batch, state.head, scoring.by)
            return Scores(_by_token(log_probs, batch).sum(1), values, memory)
        read = self.head.read(batch.at_real(states), batch.at_real(batch.gold))
        columns = {name: _by_token(column, batch) for name, column in read.items()}
        by_token = {"gold": batch.gold, **{name: columns.pop(name) for name in ("best", "rank", "log_prob")}}
        values |= {name: column.sum(1) / batch.length for name, column in columns.items()}
        return Scores(by_token["log_prob"].sum(1), values, memory, by_token)

    def _values(self, hidden: Tensor, batch: Batch, scoring: Scoring) -> dict[str, Tensor]:
        """Return the reported values [N] of each row.

        These are the number of output layer parameters, in millions, and the share of wrong bits of codes.
        """
        count = sum(weights.numel() for weights in self.head.parameters())
        values = {"decoder_parameters": batch.ids.new_full(batch.ids.shape, count / 1e6, dtype=torch.float64)}
        if isinstance(self.head, CodedHead):
            wrong = self.head.bit_errors(batch.at_real(hidden), batch.at_real(batch.gold))
            values["bit_error_rate"] = _by_token(wrong, batch).sum(1) / batch.length
        return values


def _by_token(real: Tensor, batch: Batch) -> Tensor:
    """Scatter values of the real tokens [M] into [N, T], float64 or integers, with 0 elsewhere."""
    mask, values = batch.mask, real.double() if real.is_floating_point() else real
    return values.new_zeros(mask.shape).masked_scatter(mask, values)


def _sentences(batch: Batch) -> list[list[int]]:
    """Return the tokens of each row, without the first token of the prompt."""
    rows = torch.cat([batch.prompt[:, 1:], batch.gold], 1).tolist()
    lengths = (batch.length + batch.prompt.shape[1] - 1).tolist()
    return [row[:length] for row, length in zip(rows, lengths, strict=True)]
