"""Guards on the log-probabilities of each step: NaN, +inf and positive values raise an error.

While a model is `guarded`, its methods are wrapped, so every call is checked, by a decoder or by the model itself.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeAlias

import torch
from torch import Tensor

from bench_core.computing.result_checks import all_whole, are_between, check_hypotheses, gave, named, room, shown
from bench_core.data import Batch, Hypothesis
from bench_core.errors import Fault, PluginError
from bench_core.model import Sampler, State, Stepper

Highest: TypeAlias = tuple[int, Tensor, torch.dtype]  # a step from 1, the highest of each row [N], of which type

TOGETHER = 16  #: steps that are looked at together


class RowError(PluginError):
    """A part returned something invalid for one row of the batch."""

    def __init__(self, found: str, due: str) -> None:
        super().__init__(f"{found}; {due}")
        self.found, self.due = found, due

    def of(self, example: int) -> PluginError:
        """Return an error that names the example."""
        return PluginError(f"{self.found}, for example {example}; {self.due}")


def checked(log_probs: Tensor, model: object, method: str, step: int = 0, summed: bool = False) -> Tensor:
    """Check log-probabilities [N, A] of a model: no NaN, none above 0, and no row with only -inf.

    Raises PluginError that names `method` and the `step`, counted from 1; with `summed`, also if the probabilities of
    a row do not sum to one. Decoders call it for distributions from other methods than those of a Stepper.
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
    low, high = torch.cat([highest for _, highest, _ in steps]).aminmax()  # NaN where there is one
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
        due: Fault = "they sum to 1 (is something masked or added after the log_softmax?)."
        raise RowError(f"{named(model, method)} gave probabilities that sum to {total:.6g}{_at(step)}", due)


def _at(step: int) -> Fault:
    return f" at step {step}" if step else ""


def _wrong(worst: float, who: str, at: str) -> RowError:
    """Return the problem of a row, by its highest log-probability."""
    due: Fault = "log-probabilities are at most 0, and -inf where an action is impossible"
    if math.isnan(worst):
        return RowError(f"{who} NaN{at}", f"{due} (have weights diverged?).")
    if worst == -math.inf:
        return RowError(f"{who} all actions the probability 0{at}", "one at least is possible.")
    return RowError(f"{who} log-probabilities up to {worst:.4g}{at}", f"{due} (is a log_softmax missing?).")


class Steps:
    """Checks the distributions of one Stepper.

    The highest log-probability of each row is recorded at the first TOGETHER steps and every `every` later ones, and
    checked once per TOGETHER steps and by `settle`: one small tensor operation, without synchronizing the device. If
    thorough, the distributions of the first six steps are summed, and fewer and fewer of the later ones.
    """

    def __init__(self, model: Stepper[Any], thorough: bool, every: int = 1) -> None:
        self.model, self.thorough, self.every, self.step = model, thorough, every, 0
        self.ask_start, self.ask_step = model.start, model.step
        self.waiting: list[Highest] = []
        self.seen: tuple[object, ...] = ()  # the types of what came last, which need not be looked at again

    def start(self, batch: Batch) -> tuple[Tensor, Any]:
        """Call `start` of the model."""
        self.step = 0
        return self._looked_at(self.ask_start(batch), "start", len(batch))

    def next(self, state: Any, actions: Tensor) -> tuple[Tensor, Any]:
        """Call `step` of the model."""
        return self._looked_at(self.ask_step(state, actions), "step", len(actions))

    def settle(self) -> None:
        """Check what is recorded; raise RowError for the first invalid step."""
        waiting, self.waiting = self.waiting, []
        if waiting:
            _check_highest(waiting, self.model)

    def _looked_at(self, found: Any, method: str, rows: int) -> tuple[Tensor, Any]:
        self.step += 1
        if not (type(found) is tuple and (*map(type, found),) == self.seen and _is_table(found[0], rows)):
            self._check_types(found, method, rows)
            self.seen = (*map(type, found),)
        log_probs, state = found
        if rows and (self.step <= TOGETHER or self.step % self.every == 0):
            self.waiting.append((self.step, log_probs.amax(1), log_probs.dtype))
            if self.thorough and self.step.bit_count() <= 2:
                self.settle()
                check_sums(log_probs, self.model, method, self.step)
            elif len(self.waiting) == TOGETHER:
                self.settle()
        return log_probs, state

    def _check_types(self, found: Any, method: str, rows: int) -> None:
        pair = isinstance(found, tuple) and len(found) == 2
        if not (pair and isinstance(found[0], torch.Tensor) and _is_table(found[0], rows)):
            due: Fault = f"it is to give log-probabilities, floating-point numbers [{rows}, actions], and a State."
            raise gave(self.model, method, shown(found[0] if pair else found), due)
        if not isinstance(found[1], State):
            raise gave(self.model, method, f"{shown(found[1])} for a state", "it is a State.")


def _is_table(tensor: Tensor, rows: int) -> bool:
    shape = tensor.shape
    return len(shape) == 2 and shape[0] == rows and shape[1] > 0 and tensor.is_floating_point()


@contextmanager
def guarded(model: Any, words: int, thorough: bool = False, every: int = 1) -> Iterator[None]:
    """Check the results of a model's methods inside the block: steps, samples, limits and tokens of chains.

    `words` is the size of the vocabulary. If `thorough`, the probabilities of actions are summed too. Checking every
    `every`-th step suffices if the others are covered by the log-probabilities of what was chosen.
    """
    own: dict[str, Callable[..., Any]] = {}
    steps = Steps(model, thorough, every) if isinstance(model, Stepper) else None
    if steps:
        limit, read = partial(_limit, model, model.limit), partial(_read, model, model.read, words)
        own = {"start": steps.start, "step": steps.next, "limit": limit, "read": read}
    if isinstance(model, Sampler):
        own["sample"] = partial(_sample, model, model.sample, words)
    with replaced(vars(model) if own else {}, own):
        try:
            yield
        except Exception:  # perhaps of a decoder that stumbled over what is still to be looked at
            if steps:
                steps.settle()
            raise
        if steps:
            steps.settle()


@contextmanager
def replaced(space: dict[str, Any], own: Mapping[str, Any]) -> Iterator[None]:
    """Set values of a namespace inside the block."""
    before = {name: space[name] for name in own if name in space}
    space.update(own)
    try:
        yield
    finally:
        for name in own:
            del space[name]
        space.update(before)


def _sample(
    model: Sampler, ask: Callable[..., list[Hypothesis]], words: int, batch: Batch, max_tokens: int, noise: Any
) -> list[Hypothesis]:
    found = ask(batch, max_tokens, noise)
    rows = [[one] for one in found] if isinstance(found, list) else found
    check_hypotheses(rows, named(model, "sample"), batch.ids.tolist(), [max_tokens] * len(batch), words)
    return found


def _limit(model: Stepper[Any], ask: Callable[[Batch], Tensor | None], batch: Batch) -> Tensor | None:
    found = ask(batch)
    if found is not None and not are_between(found, len(batch), 1):
        due: Fault = f"it is the most tokens of each of {len(batch)} rows, whole numbers of 1 at least, or None."
        raise gave(model, "limit", shown(found), due)
    return found


def _read(model: Stepper[Any], ask: Callable[[list[int]], list[int]], words: int, actions: list[int]) -> list[int]:
    found = ask(actions)
    if not isinstance(found, list) or not all_whole(found) or not all(0 < token < words for token in found):
        raise PluginError(
            f"{named(model, 'read')} made {shown(found)} of the chain {shown(actions)}; it is to make a list of "
            f"tokens, from 1 to {words - 1}."
        )
    return found
