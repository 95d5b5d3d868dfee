"""Recomputes some results of a stage: a row must have the same result alone, in any batch, and each time.

Eight rows of a batch, chosen by a hash of their ids, are decoded or scored again, two of them alone, and compared
with the steps of the model. Outputs that differ are rejected only if they still differ in double precision.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Self, TypeAlias

import torch
from torch import Tensor

from bench_authors.looks.rows import Chosen, Outputs, apart, float64, is_close, one_row, pad, replay
from bench_core.computing.guarded_log_probs import RowError, check_sums
from bench_core.computing.hidden_targets import without_targets
from bench_core.computing.laws import Laws
from bench_core.computing.result_checks import named
from bench_core.config import ModelConfig
from bench_core.data import STOP, Batch, Hypothesis, Kind
from bench_core.errors import Fault
from bench_core.generation_loop import limits
from bench_core.model import Scorer, Scoring, Stepper
from bench_core.random_numbers import Rng

MAX_STEPS = 200  #: maximum number of steps of replayed rows, unless all rows are longer
REDUCED_FROM_ROWS = 2_000  #: number of rows in a stage from which the second look is reduced
MAX_STEPS_REDUCED = 16  #: maximum number of steps of replayed rows in a reduced look
PERTURBATIONS, LAST_DIGITS = 8, 1e-9  #: number and relative size of weight perturbations
#: Errors raised by models that do not support double precision.
DOUBLE_ERRORS = (RuntimeError, TypeError, MemoryError, NotImplementedError)
TOLERANCE = 1e-4  #: relative rounding error of sums of log-probabilities
HALF_TOLERANCE = {"torch.float16": 0.01, "torch.bfloat16": 0.05}  #: relative error with half-precision weights

#: Laws, named like the corresponding contracts where these exist.
ALIKE, SUM = "a_row_scores_alike_alone_and_in_a_batch", "the_score_is_the_sum_of_its_steps"
DECODED_ALIKE, COST = "a_row_decodes_alike_alone_and_in_a_batch", "a_hypothesis_costs_what_its_chain_costs"
BEST_FIRST, READS = "the_best_come_first", "reading_a_chain_gives_gold_back"
SUMS_TO_ONE, FINISHED = "probabilities_sum_to_one_at_every_step", "finished_means_that_the_chain_stopped"

Decode: TypeAlias = Callable[[Any, Batch], list[list[Hypothesis]]]  #: decodes rows with a model
Score: TypeAlias = Callable[[Any, Batch], Tensor]  #: scores rows with a model: log-probabilities [N]


@dataclass(frozen=True)
class SecondLook:
    """Compares recomputed results of a model, and of a decoder if given, with the first results."""

    model: Any
    settings: ModelConfig
    laws: Laws
    decoder: Any = None
    rng: Rng = field(default_factory=lambda: Rng(0))
    device: torch.device | str = "cpu"
    salt: str = ""  # seed of the hash that chooses rows, different for each stage
    rows: int = 0  # number of rows in the stage

    @cached_property
    def _selection(self) -> Chosen:
        return Chosen(self.salt)

    def offer(self, batch: Batch, results: Outputs | Tensor) -> None:
        """Keep a batch and its results for the second look if its rows are chosen."""
        self._selection.offer(batch, results)

    def at_decoded(self, decode: Decode, rows: int) -> None:
        """Raise PluginError unless the chosen rows decode as before; the stage has `rows` rows. See `at_outputs`."""
        if kept := self._selection.kept:
            replace(self, rows=rows).at_outputs(decode, kept[0], self._selection.rows(kept[0]), kept[1])

    def at_scored(self, score: Score, by: str) -> None:
        """Raise PluginError unless the chosen rows score as before; see `at_scores`."""
        if kept := self._selection.kept:
            self.at_scores(score, kept[0], self._selection.rows(kept[0]), kept[1], by)

    def at_outputs(self, decode: Decode, batch: Batch, rows: Sequence[int], outputs: Outputs) -> None:
        """Raise PluginError unless rows of a batch decode as before, in another batch and alone.

        Tokens, log-probabilities and order of the outputs must also agree with the steps of the model.
        """
        some, before = batch.select(torch.tensor(rows)), [outputs[row] for row in rows]
        if DECODED_ALIKE not in self.laws.exempt:
            alone = apart(some, before)[: 1 if self.rows >= REDUCED_FROM_ROWS else None]
            repeated = _Repeated.of(decode, self.model, some, before, alone)
            wrong = repeated.first_difference(self._tolerance)
            if wrong is not None and not self._is_rounding(decode, batch, rows):
                twice = "" if repeated.again == decode(self.model, some) else ", and differs when decoded twice"
                here, there, where = repeated.describe(wrong, self._tolerance)
                self.laws.broken(
                    DECODED_ALIKE,
                    f"{self._pair()} gave {here} for example {some.ids[wrong]} in its batch but {there} "
                    f"{where}{twice}; a row must decode the same alone, in any batch, and each time.",
                )
        if isinstance(self.model, Stepper):
            self._follow(some, before)

    def at_scores(self, score: Score, batch: Batch, rows: Sequence[int], scores: Tensor, by: str) -> None:
        """Raise PluginError unless rows have the same log-probabilities [N] as before, in another batch and alone.

        An exact log-probability must also be the sum of the model's steps along the target.
        """
        some, before = batch.select(torch.tensor(rows)), scores[list(rows)].double().tolist()
        if ALIKE not in self.laws.exempt:
            wrong = self._scored_otherwise(score, self.model, some, before)
            if wrong is not None and not self._is_rounding_of_scores(score, batch, rows):
                row, value, where = wrong
                nats: Fault = f"{before[row]:.6g} nats for example {some.ids[row]}"
                due: Fault = "a row must score the same alone, in any batch, and each time."
                text: Fault = f"gave {nats} in its batch but {value:.6g} {where}; {due}"
                self.laws.broken(ALIKE, f"{named(self.model, 'score')} {text}")
        if isinstance(self.model, Stepper) and by == self._exact:
            self._add_up(some, before)

    def _scored_otherwise(
        self, score: Score, model: Any, some: Batch, before: Sequence[float]
    ) -> tuple[int, float, Fault] | None:
        """Return the first row whose score differs in another batch or alone, that score, and where it arose."""
        others: list[tuple[int, float, Fault]] = []
        others += [(row, value, "in another batch") for row, value in enumerate(score(model, some).double().tolist())]
        others += [(row, score(model, one_row(some, row)).item(), "alone") for row in apart(some)]
        return next((other for other in others if not self._close(before[other[0]], other[1])), None)

    def _is_rounding_of_scores(self, score: Score, batch: Batch, rows: Sequence[int]) -> bool:
        """Return whether rows score the same in double precision; see `_is_rounding`."""
        with float64(), suppress(*DOUBLE_ERRORS):
            other, wide = deepcopy(self.model).double(), _wide(batch)
            before = score(other, wide)[list(rows)].double().tolist()
            return self._scored_otherwise(score, other, wide.select(torch.tensor(rows)), before) is None
        return True

    @cached_property
    def _exact(self) -> str | None:
        """The default likelihood of the model, if it is exact."""
        likelihood = next(iter(self.settings.likelihoods), None)
        return likelihood if likelihood is not None and self.settings.likelihoods[likelihood] is Kind.EXACT else None

    def _add_up(self, some: Batch, scores: Sequence[float]) -> None:
        """Compare scores with the summed log-probabilities of the steps along the targets."""
        lengths, inside = some.length.tolist(), some.gold.tolist()
        max_length, fits = max(MAX_STEPS, min(lengths)), self._fits(some, lengths)
        short = [row for row, end in enumerate(lengths) if end <= max_length and fits[row]]
        rows = [row for row in short if STOP not in inside[row][: lengths[row] - 1]]
        if not rows:  # all windows of a stream contain EOS inside, or all are too long
            return
        some, model = some.select(torch.tensor(rows)).to(self.device, copy=True), self.model
        chain = model.chain(some, self.rng)
        for actions, gold, length in zip(chain.tolist(), some.gold.tolist(), some.length.tolist(), strict=True):
            target_actions = actions[: (length - 1) * model.actions_per_token]
            if gold[length - 1] == STOP and (read := model.read(target_actions)) != gold[: length - 1]:
                due: Fault = f"the tokens {gold[: length - 1]}; it must return these tokens."
                self.laws.broken(
                    READS, f"{named(model, 'read')} gave {read} for {target_actions}, the actions of {due}"
                )
        steps = (some.length * model.actions_per_token).clamp(max=chain.shape[1])
        _, totals = self._sum_steps(some, chain, steps)
        for row, total, example in zip(rows, totals, some.ids.tolist(), strict=True):
            if not self._close(scores[row], total):
                self.laws.broken(
                    SUM,
                    f"{named(model, 'score')} gave {scores[row]:.6g} nats for example {example} by the exact "
                    f"likelihood {self._exact!r}, but the steps along its target sum to {total:.6g}, including EOS.",
                )

    def _follow(self, some: Batch, outputs: Outputs) -> None:
        """Compare up to two hypotheses of each row with the model's steps along their actions."""
        max_length = MAX_STEPS_REDUCED if self.rows >= REDUCED_FROM_ROWS else MAX_STEPS
        every = [(row, output) for row, hypotheses in enumerate(outputs) for output in hypotheses[:2]]
        followed = [(row, y, y.actions) for row, y in every if y.actions is not None and len(y.actions) <= max_length]
        for _, output, actions in followed:
            if (read := self.model.read(actions)) != output.tokens:
                self.laws.broken(
                    FINISHED,
                    f"{self._pair()} gave the tokens {output.tokens}, but its actions {actions} are read as {read}.",
                )
        if not followed:
            return
        batch = some.select(torch.tensor([row for row, _, _ in followed]))
        chain, lengths = pad([actions for _, _, actions in followed])
        blind = without_targets(batch)
        fits = self._fits(blind, ((lengths - 1) // self.model.actions_per_token + 1).tolist())
        steps = lengths.where(torch.tensor(fits), lengths - 1)  # EOS does not fit after an output of maximal length
        without, whole = self._sum_steps(blind.to(self.device, copy=True), chain, steps)
        without = [open_cost if fit else cost for open_cost, cost, fit in zip(without, whole, fits, strict=True)]
        for (row, output, _), open_cost, ended in zip(followed, without, whole, strict=True):
            cost, what = (ended, "including EOS") if output.finished else (open_cost, "without EOS (unfinished)")
            if output.log_prob is not None and not self._close(output.log_prob, cost):
                self.laws.broken(
                    COST,
                    f"{self._pair()} gave the log_prob {output.log_prob:.6g} for {output.tokens} "
                    f"(example {some.ids[row]}), but the steps along its actions sum to {cost:.6g}, {what}.",
                )
        self._check_order([(row, output) for row, output, _ in followed], without)
        if isinstance(self.model, Scorer) and self._exact and SUM not in self.laws.exempt:
            fitting = [place for place, fit in enumerate(fits) if fit]
            some = batch.select(torch.tensor(fitting, dtype=torch.long))
            self._score_outputs(some, [followed[place][1] for place in fitting], [whole[place] for place in fitting])

    def _check_order(self, outputs: Sequence[tuple[int, Hypothesis]], costs: Sequence[float]) -> None:
        """Check that consecutive hypotheses with equal `length` and `finished` are sorted, most probable first."""
        for (row, first), cost, (next_row, second), less in zip(outputs, costs, outputs[1:], costs[1:], strict=False):
            if (row, first.length, first.finished) != (next_row, second.length, second.finished):
                continue
            if self._is_less(first.log_prob, second.log_prob) and self._is_less(cost, less):
                self.laws.broken(
                    BEST_FIRST,
                    f"{self._pair()} gave {first.tokens} before {second.tokens}, which is as long and more probable; "
                    "hypotheses must be sorted, best first.",
                )

    def _score_outputs(self, batch: Batch, outputs: Sequence[Hypothesis], totals: Sequence[float]) -> None:
        """Compare the summed log-probabilities of outputs, including EOS, with exact scores of the same tokens."""
        if not outputs or not {*batch.extras} <= {"weight"} or any(y.actions != y.tokens for y in outputs):
            return  # other extras may depend on the targets
        gold, length = pad([output.tokens for output in outputs])
        there = replace(batch, gold=gold, length=length).to(self.device, copy=True)
        scores = self.model.score(there, Scoring(str(self._exact), self.rng)).log_probs.double().tolist()
        for output, score, total in zip(outputs, scores, totals, strict=True):
            if not self._close(score, total):
                self.laws.broken(
                    SUM,
                    f"{type(self.model).__name__}: the steps along {output.tokens} and EOS sum to {total:.6g}, but "
                    f"`score` gives {score:.6g} by the exact likelihood {self._exact!r}.",
                )

    def _fits(self, batch: Batch, tokens: Sequence[int]) -> list[bool]:
        """Return for each row [N] whether the model can generate its number of `tokens`, including EOS."""
        fits: list[bool] = (torch.tensor(tokens) <= limits(self.model, batch, max(tokens)).cpu()).tolist()
        return fits

    def _sum_steps(self, batch: Batch, chain: Tensor, lengths: Tensor) -> tuple[list[float], list[float]]:
        """Sum the log-probabilities of each sequence [N] over `lengths` steps, without and with the last step."""
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
        """Return whether rows decode the same in double precision, or differ only where choices are tied.

        A choice is tied if it changes with the last digits of weights. Returns True without double precision.
        """
        with float64(), suppress(*DOUBLE_ERRORS):
            other, wide = deepcopy(self.model).double(), _wide(batch)
            whole = decode(other, wide)
            some, before = wide.select(torch.tensor(rows)), [whole[row] for row in rows]
            repeated = _Repeated.of(decode, other, some, before, apart(some, before))
            wrong = {row for row in range(len(rows)) if repeated.differs(row, TOLERANCE)}
            if not wrong or decode(other, some) != repeated.again:
                return not wrong
            intact = [weights.clone() for weights in other.parameters()]
            for turn in range(PERTURBATIONS):
                for place, (weights, original) in enumerate(zip(other.parameters(), intact, strict=True)):
                    change = Rng(turn).shared(f"{place}", tuple(weights.shape)).to(weights) - 0.5
                    weights.copy_(original * (1 + LAST_DIGITS * change))
                outputs = decode(other, some)
                wrong -= {row for row in wrong if not _outputs_equal(outputs[row], repeated.again[row], TOLERANCE)}
            return not wrong
        return True

    def _pair(self) -> Fault:
        return f"{named(self.decoder, 'decode')} with {type(self.model).__name__}"

    @cached_property
    def _tolerance(self) -> float:
        tolerances = (HALF_TOLERANCE.get(str(weights.dtype), TOLERANCE) for weights in self.model.parameters())
        return max(tolerances, default=TOLERANCE)

    def _close(self, first: float, second: float) -> bool:
        return is_close(first, second, self._tolerance)

    def _is_less(self, first: float | None, second: float | None) -> bool:
        return first is not None and second is not None and first < second and not self._close(first, second)


@dataclass(frozen=True)
class _Repeated:
    """The outputs of rows in their own batch and in another batch, and the outputs of some rows alone."""

    before: Outputs
    again: Outputs
    alone: Mapping[int, Sequence[Hypothesis]]

    @classmethod
    def of(cls, decode: Decode, model: Any, some: Batch, before: Outputs, alone: Sequence[int]) -> Self:
        again = decode(model, some)
        return cls(before, again, {row: decode(model, one_row(some, row))[0] for row in alone})

    def first_difference(self, tolerance: float) -> int | None:
        """Return the first row with differing outputs, or None."""
        return next((row for row in range(len(self.before)) if self.differs(row, tolerance)), None)

    def differs(self, row: int, tolerance: float) -> bool:
        """Return whether the outputs of a row differ."""
        first = self.before[row]
        others = (self.again[row], self.alone.get(row, first))
        return not all(_outputs_equal(first, other, tolerance) for other in others)

    def describe(self, row: int, tolerance: float) -> tuple[Fault, Fault, Fault]:
        """Describe a row's outputs in its batch, its differing outputs, and where the latter occurred."""
        if _outputs_equal(self.before[row], self.again[row], tolerance):
            return _description(self.before[row]), _description(self.alone[row]), "alone"
        return _description(self.before[row]), _description(self.again[row]), "in another batch"


def _wide(batch: Batch) -> Batch:
    return batch.change(lambda tensor: tensor.double() if tensor.is_floating_point() else tensor)


def _outputs_equal(first: Sequence[Hypothesis], second: Sequence[Hypothesis], tolerance: float) -> bool:
    return len(first) == len(second) and all(
        (a.tokens, a.actions, a.finished) == (b.tokens, b.actions, b.finished) and _costs_equal(a, b, tolerance)
        for a, b in zip(first, second, strict=True)
    )


def _costs_equal(first: Hypothesis, second: Hypothesis, tolerance: float) -> bool:
    if first.log_prob is None or second.log_prob is None:
        return first.log_prob is second.log_prob
    return is_close(first.log_prob, second.log_prob, tolerance)


def _description(hypotheses: Sequence[Hypothesis]) -> Fault:
    first = hypotheses[0]
    cost = "" if first.log_prob is None else f" at {first.log_prob:.6g} nats"
    return f"{first.tokens}{', finished' if first.finished else ''}{cost}"


LOOK = SecondLook  #: the second look at models
