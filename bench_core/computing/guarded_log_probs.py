"""Guards on the log-probabilities of each step: NaN, +inf and positive values raise an error.

While a model is `guarded`, its methods are wrapped, so that calls by decoders and by the model itself are checked.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeAlias

import torch
from torch import Tensor

from bench_core.computing.result_checks import are_between, brief, check_hypotheses, gave, named, room
from bench_core.data import Batch, Hypothesis
from bench_core.errors import Fault, PluginError
from bench_core.model import Sampler, State, Stepper

Highest: TypeAlias = tuple[int, Tensor, torch.dtype]  # 1-based step, highest log-probability per row [N], dtype

STEPS_PER_CHECK = 16  #: number of steps checked at once


class RowError(PluginError):
    """A part returned something invalid for one row of the batch."""

    def __init__(self, fault: str, due: str) -> None:
        super().__init__(f"{fault}; {due}")
        self.fault, self.due = fault, due

    def of(self, example: int) -> PluginError:
        """Return an error that names the example."""
        return PluginError(f"{self.fault}, for example {example}; {self.due}")


def checked(log_probs: Tensor, model: object, method: str, step: int = 0, summed: bool = False) -> Tensor:
    """Check that log-probabilities [N, A] of a model are at most 0 and not NaN, and that no row is entirely -inf.

    Raises PluginError with the `method` and the 1-based `step`; with `summed`, also if the probabilities of a row do
    not sum to one. Decoders call it for distributions from methods outside the Stepper interface.
    """
    if not log_probs.numel():
        return log_probs
    _check_highest([(step, log_probs.amax(1), log_probs.dtype)], model, method)
    if summed:
        check_sums(log_probs, model, method, step)
    return log_probs


def _check_highest(steps: Sequence[Highest], model: object, method: str = "") -> None:
    """Raise RowError unless the highest log-probability of every row is above -inf and at most 0.

    Without a `method`, the first step is `start` and all others are `step`.
    """
    low, high = torch.cat([highest for _, highest, _ in steps]).aminmax()  # propagates NaN
    if low.item() > -math.inf and high.item() <= min(map(room, {dtype for _, _, dtype in steps})):
        return
    for step, highest, dtype in steps:
        wrong = highest[~((highest > -math.inf) & (highest <= room(dtype)))]
        if len(wrong):
            gave: Fault = f"{named(model, method or ('start' if step == 1 else 'step'))} gave"
            raise _wrong(wrong[0].item(), gave, _at(step))


def check_sums(log_probs: Tensor, model: object, method: str, step: int) -> None:
    """Raise RowError unless the probabilities of each row sum to one."""
    sums = (log_probs.float() if log_probs.itemsize < 4 else log_probs).exp().sum(1)
    total = sums[(sums - 1).abs().argmax()].item()
    if not abs(total - 1) <= room(log_probs.dtype):
        due: Fault = "they must sum to 1 (is something masked or added after the log_softmax?)."
        raise RowError(f"{named(model, method)} gave probabilities that sum to {total:.6g}{_at(step)}", due)


def _at(step: int) -> Fault:
    return f" at step {step}" if step else ""


def _wrong(worst: float, who: str, at: str) -> RowError:
    """Return the error for a row, given its highest log-probability."""
    due: Fault = "log-probabilities must be at most 0, and -inf for impossible actions"
    if math.isnan(worst):
        return RowError(f"{who} NaN{at}", f"{due} (have weights diverged?).")
    if worst == -math.inf:
        return RowError(f"{who} all actions the probability 0{at}", "at least one must be possible.")
    return RowError(f"{who} log-probabilities up to {worst:.4g}{at}", f"{due} (is a log_softmax missing?).")


class Steps:
    """Checks the distributions of a Stepper.

    The highest log-probability of each row is recorded at the first STEPS_PER_CHECK steps and at every `every`-th
    later step, by a small tensor operation that does not synchronize the device. Records are checked after
    STEPS_PER_CHECK steps and by `settle`. If `thorough`, probabilities are also summed at the first six steps and,
    with decreasing frequency, at later steps.
    """

    def __init__(self, model: Stepper[Any], thorough: bool, every: int = 1) -> None:
        self.model, self.thorough, self.every, self.step = model, thorough, every, 0
        self.ask_start, self.ask_step = model.start, model.step
        self.waiting: list[Highest] = []
        self.seen: tuple[object, ...] = ()  # types of the last result, which need not be checked again

    def start(self, batch: Batch) -> tuple[Tensor, Any]:
        """Call and check the model's `start`."""
        self.step = 0
        return self._check(self.ask_start(batch), "start", len(batch))

    def next(self, state: Any, actions: Tensor) -> tuple[Tensor, Any]:
        """Call and check the model's `step`."""
        return self._check(self.ask_step(state, actions), "step", len(actions))

    def settle(self) -> None:
        """Check all records; raise RowError for the first invalid step."""
        waiting, self.waiting = self.waiting, []
        if waiting:
            _check_highest(waiting, self.model)

    def _check(self, result: Any, method: str, rows: int) -> tuple[Tensor, Any]:
        self.step += 1
        if not (type(result) is tuple and (*map(type, result),) == self.seen and _is_table(result[0], rows)):
            self._check_types(result, method, rows)
            self.seen = (*map(type, result),)
        log_probs, state = result
        if rows and (self.step <= STEPS_PER_CHECK or self.step % self.every == 0):
            self.waiting.append((self.step, log_probs.amax(1), log_probs.dtype))
            if self.thorough and self.step.bit_count() <= 2:
                self.settle()
                check_sums(log_probs, self.model, method, self.step)
            elif len(self.waiting) == STEPS_PER_CHECK:
                self.settle()
        return log_probs, state

    def _check_types(self, result: Any, method: str, rows: int) -> None:
        is_pair = isinstance(result, tuple) and len(result) == 2
        if not (is_pair and isinstance(result[0], torch.Tensor) and _is_table(result[0], rows)):
            due: Fault = f"expected floating-point log-probabilities [{rows}, actions] and a State."
            raise gave(self.model, method, brief(result[0] if is_pair else result), due)
        if not isinstance(result[1], State):
            raise gave(self.model, method, f"{brief(result[1])} as the state", "expected a State.")


def _is_table(tensor: Tensor, rows: int) -> bool:
    shape = tensor.shape
    return len(shape) == 2 and shape[0] == rows and shape[1] > 0 and tensor.is_floating_point()


@contextmanager
def guarded(model: Any, words: int, thorough: bool = False, every: int = 1) -> Iterator[None]:
    """Check the results of a model's methods inside the block: steps, samples, limits and tokens of actions.

    `words` is the vocabulary size. If `thorough`, probabilities of actions are also summed. Checking every `every`-th
    step suffices if log-probabilities of the hypotheses cover the other steps.
    """
    wrapped: dict[str, Callable[..., Any]] = {}
    steps = Steps(model, thorough, every) if isinstance(model, Stepper) else None
    if steps:
        limit, read = partial(_limit, model, model.limit), partial(_read, model, model.read, words)
        wrapped = {"start": steps.start, "step": steps.next, "limit": limit, "read": read}
    if isinstance(model, Sampler):
        wrapped["sample"] = partial(_sample, model, model.sample, words)
    with replaced(vars(model) if wrapped else {}, wrapped):
        try:
            yield
        except Exception:  # perhaps caused by log-probabilities that are not yet checked
            if steps:
                steps.settle()
            raise
        if steps:
            steps.settle()


@contextmanager
def replaced(space: dict[str, Any], values: Mapping[str, Any]) -> Iterator[None]:
    """Replace values in a namespace inside the block; restore them afterwards."""
    before = {name: space[name] for name in values if name in space}
    space.update(values)
    try:
        yield
    finally:
        for name in values:
            del space[name]
        space.update(before)


def _sample(
    model: Sampler, ask: Callable[..., list[Hypothesis]], words: int, batch: Batch, max_tokens: int, rng: Any
) -> list[Hypothesis]:
    samples = ask(batch, max_tokens, rng)
    rows = [[hypothesis] for hypothesis in samples] if isinstance(samples, list) else samples
    check_hypotheses(rows, named(model, "sample"), batch.ids.tolist(), [max_tokens] * len(batch), words)
    return samples


def _limit(model: Stepper[Any], ask: Callable[[Batch], Tensor | None], batch: Batch) -> Tensor | None:
    limit = ask(batch)
    if limit is not None and not are_between(limit, len(batch), 1):
        due: Fault = f"expected the maximum number of tokens for each of {len(batch)} rows, integers >= 1, or None."
        raise gave(model, "limit", brief(limit), due)
    return limit


def _read(model: Stepper[Any], ask: Callable[[list[int]], list[int]], words: int, actions: list[int]) -> list[int]:
    tokens = ask(actions)
    if not isinstance(tokens, list) or not all(type(token) is int and 0 < token < words for token in tokens):
        raise PluginError(
            f"{named(model, 'read')} gave {brief(tokens)} for actions {brief(actions)}; expected a list of "
            f"tokens from 1 to {words - 1}."
        )
    return tokens
