"""Computes some results of a stage again: a row must give the same result alone, in any batch, and each time.

Eight rows of one batch, chosen by a hash of their ids, are decoded or scored again, two of them alone, and compared
with the steps of the model. Outputs that differ are refused only if they still differ in double precision.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Self, TypeAlias

import torch
from torch import Tensor

from bench_authors.looks.rows import Chosen, Outputs, apart, float64, is_close, one_row, padded, replay
from bench_core.computing.guarded_log_probs import RowError, check_sums
from bench_core.computing.hidden_targets import without_targets
from bench_core.computing.laws import Laws
from bench_core.computing.result_checks import named
from bench_core.config import ModelConfig
from bench_core.data import STOP, Batch, Hypothesis, Kind
from bench_core.errors import Fault
from bench_core.generation_loop import limits
from bench_core.model import Scorer, Scoring, Stepper
from bench_core.random_numbers import Noise

MOST_STEPS = 200  #: of rows that are followed step by step, where there are shorter ones
MANY = 2_000  #: rows of a stage from which on the second look is to be a small part of it, with
FEWER_STEPS = 16  #: steps at most
PERTURBATIONS, LAST_DIGITS = 8, 1e-9  #: of weights, by which share of them
CANNOT_COMPUTE_SO = (RuntimeError, TypeError, MemoryError, NotImplementedError)  #: in double precision
ROOM = 1e-4  #: share by which rounding may change sums of log-probabilities
ROOM_OF_HALF = {"torch.float16": 0.01, "torch.bfloat16": 0.05}  #: likewise, for weights of these types

#: Laws, named after the contracts that say the same if there are any.
ALIKE, SUM = "a_row_scores_alike_alone_and_in_a_batch", "the_score_is_the_sum_of_its_steps"
DECODED_ALIKE, COST = "a_row_decodes_alike_alone_and_in_a_batch", "a_hypothesis_costs_what_its_chain_costs"
BEST_FIRST, READS = "the_best_come_first", "reading_a_chain_gives_gold_back"
SUMS_TO_ONE, FINISHED = "probabilities_sum_to_one_at_every_step", "finished_means_that_the_chain_stopped"

Decode: TypeAlias = Callable[[Any, Batch], list[list[Hypothesis]]]  #: what a decoder makes of rows with a model
Score: TypeAlias = Callable[[Any, Batch], Tensor]  #: the log-probabilities [N] that a model gives rows


@dataclass(frozen=True)
class SecondLook:
    """Compares repeated results of a model, and of a decoder if there is one, with the first results."""

    model: Any
    settings: ModelConfig  # of the model
    laws: Laws
    decoder: Any = None
    noise: Noise = field(default_factory=lambda: Noise(0))
    device: torch.device | str = "cpu"
    salt: str = ""  # of the stage, for what is chosen
    rows: int = 0  # that the stage has

    @cached_property
    def _chosen(self) -> Chosen:
        return Chosen(self.salt)

    def offer(self, batch: Batch, found: Outputs | Tensor) -> None:
        """Keep a batch and its results for a second look, if it is the one to look at."""
        self._chosen.offer(batch, found)

    def at_decoded(self, decode: Decode, rows: int) -> None:
        """Raise PluginError unless the chosen rows, of so many, decode as they did before; see `at_outputs`."""
        if kept := self._chosen.kept:
            replace(self, rows=rows).at_outputs(decode, kept[0], self._chosen.rows(kept[0]), kept[1])

    def at_scored(self, score: Score, by: str) -> None:
        """Raise PluginError unless the chosen rows score as they did before; see `at_scores`."""
        if kept := self._chosen.kept:
            self.at_scores(score, kept[0], self._chosen.rows(kept[0]), kept[1], by)

    def at_outputs(self, decode: Decode, batch: Batch, rows: Sequence[int], found: Outputs) -> None:
        """Raise PluginError unless rows of a batch decode as they did before, in another batch and alone.

        Tokens, log-probabilities and order of the outputs must also agree with the steps of the model.
        """
        some, before = batch.select(torch.tensor(rows)), [found[row] for row in rows]
        if DECODED_ALIKE not in self.laws.exempt:
            alone = apart(some, before)[: 1 if self.rows >= MANY else None]
            seen = _Seen.of(decode, self.model, some, before, alone)
            wrong = seen.differing(self._room)
            if wrong is not None and not self._is_rounding(decode, batch, rows):
                twice = "" if seen.again == decode(self.model, some) else ", and differs when decoded twice"
                here, there, where = seen.told(wrong, self._room)
                self.laws.broken(
                    DECODED_ALIKE,
                    f"{self._both()} gave example {some.ids[wrong]} {here} in its batch and {there} {where}{twice}; "
                    "a row must decode the same alone, in any batch, and each time.",
                )
        if isinstance(self.model, Stepper):
            self._follow(some, before)

    def at_scores(self, score: Score, batch: Batch, rows: Sequence[int], found: Tensor, by: str) -> None:
        """Raise PluginError unless rows have the log-probabilities [N] of before, in another batch and alone.

        An exact one must also be the sum of the model's steps along its target.
        """
        some, before = batch.select(torch.tensor(rows)), found[list(rows)].double().tolist()
        if ALIKE not in self.laws.exempt:
            wrong = self._scored_otherwise(score, self.model, some, before)
            if wrong is not None and not self._is_rounding_of_scores(score, batch, rows):
                row, value, where = wrong
                nats: Fault = f"{before[row]:.6g} nats in its batch and {value:.6g} {where}"
                due: Fault = "a row must score the same alone, in any batch, and each time."
                self.laws.broken(ALIKE, f"{named(self.model, 'score')} gave example {some.ids[row]} {nats}; {due}")
        if isinstance(self.model, Stepper) and by == self._exact:
            self._add_up(some, before)

    def _scored_otherwise(
        self, score: Score, model: Any, some: Batch, before: Sequence[float]
    ) -> tuple[int, float, Fault] | None:
        """Return the first row that has another score elsewhere, which one, and where."""
        others: list[tuple[int, float, Fault]] = []
        others += [(row, one, "in another batch") for row, one in enumerate(score(model, some).double().tolist())]
        others += [(row, score(model, one_row(some, row)).item(), "alone") for row in apart(some)]
        return next((one for one in others if not self._close(before[one[0]], one[1])), None)

    def _is_rounding_of_scores(self, score: Score, batch: Batch, rows: Sequence[int]) -> bool:
        """Return whether rows score alike in double precision, as `_is_rounding`."""
        with float64(), suppress(*CANNOT_COMPUTE_SO):
            other, wide = deepcopy(self.model).double(), _wide(batch)
            before = score(other, wide)[list(rows)].double().tolist()
            return self._scored_otherwise(score, other, wide.select(torch.tensor(rows)), before) is None
        return True

    @cached_property
    def _exact(self) -> str | None:
        """The default likelihood of the model, if it is exact."""
        by = next(iter(self.settings.likelihoods), None)
        return by if by is not None and self.settings.likelihoods[by] is Kind.EXACT else None

    def _add_up(self, some: Batch, scores: Sequence[float]) -> None:
        """Compare scores with the sums of the steps along `chain`."""
        lengths, inside = some.length.tolist(), some.gold.tolist()
        most, fits = max(MOST_STEPS, min(lengths)), self._fits(some, lengths)
        rows = [
            row for row, end in enumerate(lengths) if end <= most and fits[row] and STOP not in inside[row][: end - 1]
        ]
        if not rows:  # all windows of a stream go on after a stop, or none is short enough for the steps
            return
        some, model = some.select(torch.tensor(rows)).to(self.device, copy=True), self.model
        chain = model.chain(some, self.noise)
        for actions, gold, length in zip(chain.tolist(), some.gold.tolist(), some.length.tolist(), strict=True):
            taken = actions[: (length - 1) * model.actions_per_token]
            if gold[length - 1] == STOP and (read := model.read(taken)) != gold[: length - 1]:
                due: Fault = f"the tokens {gold[: length - 1]}; it must return these tokens."
                self.laws.broken(READS, f"{named(model, 'read')} gave {read} for {taken}, the actions of {due}")
        steps = (some.length * model.actions_per_token).clamp(max=chain.shape[1])
        _, totals = self._summed(some, chain, steps)
        for row, total, example in zip(rows, totals, some.ids.tolist(), strict=True):
            if not self._close(scores[row], total):
                self.laws.broken(
                    SUM,
                    f"{named(model, 'score')} gave example {example} {scores[row]:.6g} nats by the exact "
                    f"likelihood {self._exact!r}, but the steps along its target sum to {total:.6g}, EOS included.",
                )

    def _follow(self, some: Batch, found: Outputs) -> None:
        """Compare up to two hypotheses of each row with the model's steps along their actions."""
        most = FEWER_STEPS if self.rows >= MANY else MOST_STEPS
        every = [(row, one) for row, own in enumerate(found) for one in own[:2]]
        told = [(row, one, one.actions) for row, one in every if one.actions is not None and len(one.actions) <= most]
        for _, one, actions in told:
            if (read := self.model.read(actions)) != one.tokens:
                self.laws.broken(
                    FINISHED,
                    f"{self._both()} gave the tokens {one.tokens}, but the actions {actions} read as {read}.",
                )
        if not told:
            return
        batch = some.select(torch.tensor([row for row, _, _ in told]))
        chain, lengths = padded([actions for _, _, actions in told])
        blind = without_targets(batch)
        fits = self._fits(blind, ((lengths - 1) // self.model.actions_per_token + 1).tolist())
        steps = lengths.where(torch.tensor(fits), lengths - 1)  # an output that fills its row has no room for EOS
        without, whole = self._summed(blind.to(self.device, copy=True), chain, steps)
        without = [cut if fit else ended for cut, ended, fit in zip(without, whole, fits, strict=True)]
        for (row, one, _), cut, ended in zip(told, without, whole, strict=True):
            cost, what = (ended, "EOS included") if one.finished else (cut, "without EOS, as it is unfinished")
            if one.log_prob is not None and not self._close(one.log_prob, cost):
                self.laws.broken(
                    COST,
                    f"{self._both()} gave example {some.ids[row]} the log_prob {one.log_prob:.6g} for {one.tokens}, "
                    f"but the steps along its actions sum to {cost:.6g}, {what}.",
                )
        self._check_order([(row, one) for row, one, _ in told], without)
        if isinstance(self.model, Scorer) and self._exact and SUM not in self.laws.exempt:
            kept = [place for place, fit in enumerate(fits) if fit]
            some = batch.select(torch.tensor(kept, dtype=torch.long))
            self._score_outputs(some, [told[place][1] for place in kept], [whole[place] for place in kept])

    def _check_order(self, told: Sequence[tuple[int, Hypothesis]], costs: Sequence[float]) -> None:
        """Compare neighbours of a row that are alike in length and end: the more probable comes first."""
        for (row, one), cost, (next_row, other), less in zip(told, costs, told[1:], costs[1:], strict=False):
            if (row, one.length, one.finished) != (next_row, other.length, other.finished):
                continue
            if self._is_less(one.log_prob, other.log_prob) and self._is_less(cost, less):
                self.laws.broken(
                    BEST_FIRST,
                    f"{self._both()} gave {one.tokens} before {other.tokens}, which is as long and more probable; "
                    "hypotheses must be sorted, the best first.",
                )

    def _score_outputs(self, batch: Batch, told: Sequence[Hypothesis], totals: Sequence[float]) -> None:
        """Compare the sums of the steps along outputs, EOS included, with the exact scores of the same tokens."""
        if not told or not {*batch.extras} <= {"weight"} or any(one.actions != one.tokens for one in told):
            return  # what else a batch holds may depend on its targets
        gold, length = padded([one.tokens for one in told])
        there = replace(batch, gold=gold, length=length).to(self.device, copy=True)
        scores = self.model.score(there, Scoring(str(self._exact), self.noise)).log_probs.double().tolist()
        for one, score, total in zip(told, scores, totals, strict=True):
            if not self._close(score, total):
                self.laws.broken(
                    SUM,
                    f"{type(self.model).__name__}: the steps along {one.tokens} and EOS sum to {total:.6g}, but "
                    f"`score` gives {score:.6g} by the exact likelihood {self._exact!r}.",
                )

    def _fits(self, batch: Batch, tokens: Sequence[int]) -> list[bool]:
        """Return whether the model has room in each row [N] for so many target tokens, EOS included."""
        fits: list[bool] = (torch.tensor(tokens) <= limits(self.model, batch, max(tokens)).cpu()).tolist()
        return fits

    def _summed(self, batch: Batch, chain: Tensor, lengths: Tensor) -> tuple[list[float], list[float]]:
        """Return the log-probability of each chain [N] of `lengths` steps, without the last one and with it."""
        chain, lengths = chain.to(self.device), lengths.to(self.device)
        without, whole = (torch.zeros(len(batch), dtype=torch.float64, device=self.device) for _ in range(2))
        for step, (rows, log_probs, actions) in enumerate(replay(self.model, batch, chain, lengths), 1):
            try:
                check_sums(log_probs, self.model, "start" if step == 1 else "step", step)
            except RowError as error:
                self.laws.broken(SUMS_TO_ONE, str(error))
            without[rows] = whole[rows]
            whole[rows] += log_probs.gather(1, actions[:, None])[:, 0].double()
        return without.tolist(), whole.tolist()

    def _is_rounding(self, decode: Decode, batch: Batch, rows: Sequence[int]) -> bool:
        """Return whether rows decode alike in double precision, or where choices are tied.

        Also if the model cannot compute in that. A choice is tied if it changes with the last digits of weights.
        """
        with float64(), suppress(*CANNOT_COMPUTE_SO):
            other, wide = deepcopy(self.model).double(), _wide(batch)
            whole = decode(other, wide)
            some, before = wide.select(torch.tensor(rows)), [whole[row] for row in rows]
            seen = _Seen.of(decode, other, some, before, apart(some, before))
            wrong = {row for row in range(len(rows)) if seen.differs(row, ROOM)}
            if not wrong or decode(other, some) != seen.again:
                return not wrong
            intact = [weights.clone() for weights in other.parameters()]
            for turn in range(PERTURBATIONS):
                for place, (weights, before_it) in enumerate(zip(other.parameters(), intact, strict=True)):
                    drawn = Noise(turn).shared(f"{place}", tuple(weights.shape)).to(weights) - 0.5
                    weights.copy_(before_it * (1 + LAST_DIGITS * drawn))
                found = decode(other, some)
                wrong -= {row for row in wrong if not _alike(found[row], seen.again[row], ROOM)}
            return not wrong
        return True

    def _both(self) -> Fault:
        return f"{named(self.decoder, 'decode')} with {type(self.model).__name__}"

    @cached_property
    def _room(self) -> float:
        return max((ROOM_OF_HALF.get(str(one.dtype), ROOM) for one in self.model.parameters()), default=ROOM)

    def _close(self, one: float, other: float) -> bool:
        return is_close(one, other, self._room)

    def _is_less(self, one: float | None, other: float | None) -> bool:
        return one is not None and other is not None and one < other and not self._close(one, other)


@dataclass(frozen=True)
class _Seen:
    """What became of rows in their batch, in another one, and of some alone."""

    before: Outputs
    again: Outputs
    alone: Mapping[int, Sequence[Hypothesis]]

    @classmethod
    def of(cls, decode: Decode, model: Any, some: Batch, before: Outputs, alone: Sequence[int]) -> Self:
        again = decode(model, some)
        return cls(before, again, {row: decode(model, one_row(some, row))[0] for row in alone})

    def differing(self, room: float) -> int | None:
        """Return the first row whose hypotheses differ."""
        return next((row for row in range(len(self.before)) if self.differs(row, room)), None)

    def differs(self, row: int, room: float) -> bool:
        """Return whether the hypotheses of a row differ."""
        own = self.before[row]
        return not (_alike(own, self.again[row], room) and _alike(own, self.alone.get(row, own), room))

    def told(self, row: int, room: float) -> tuple[Fault, Fault, Fault]:
        """Return what became of a row in its batch and elsewhere, and where."""
        if _alike(self.before[row], self.again[row], room):
            return _said(self.before[row]), _said(self.alone[row]), "alone"
        return _said(self.before[row]), _said(self.again[row]), "in another batch"


def _wide(batch: Batch) -> Batch:
    return batch.change(lambda tensor: tensor.double() if tensor.is_floating_point() else tensor)


def _alike(one: Sequence[Hypothesis], other: Sequence[Hypothesis], room: float) -> bool:
    return len(one) == len(other) and all(
        (a.tokens, a.actions, a.finished) == (b.tokens, b.actions, b.finished) and _cost_alike(a, b, room)
        for a, b in zip(one, other, strict=True)
    )


def _cost_alike(one: Hypothesis, other: Hypothesis, room: float) -> bool:
    if one.log_prob is None or other.log_prob is None:
        return one.log_prob is other.log_prob
    return is_close(one.log_prob, other.log_prob, room)


def _said(own: Sequence[Hypothesis]) -> Fault:
    first = own[0]
    cost = "" if first.log_prob is None else f" at {first.log_prob:.6g} nats"
    return f"{first.tokens}{', finished' if first.finished else ''}{cost}"


LOOK = SecondLook  #: at what is decoded or scored
