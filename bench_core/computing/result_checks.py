"""Guards on what parts return: types, shapes, dtypes, finite numbers.

An error names distribution, class and method of the invalid part, what it returned and what is expected, instead of
the next part that would fail.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import TYPE_CHECKING, Any

from bench_core.data import STOP, Batch, Hypothesis, Kind, Outcome, TaskInfo
from bench_core.errors import Fault, PluginError
from bench_core.metric import Metric
from bench_core.model import Loss, Scores, State, TextScore
from bench_core.probe import Finding, Statement
from bench_core.registry import IN_SUITES, parts
from bench_core.storage.outcomes import References
from plain_files import Spool, to_line

if TYPE_CHECKING:
    import torch

ROOM = 1e-3  #: nats that rounding may take a log-probability above 0, or the sum of probabilities away from 1
CERTAIN = 1e-6  #: nats of a token above which its probability is 1 but for rounding
ROOM_OF_HALF = {"torch.bfloat16": 0.1, "torch.float16": 0.02}  # in these types


@dataclass(frozen=True)
class named:
    """The name of a method of a part in errors, such as "bench-mine: Bigram.step", looked up when formatted."""

    part: object
    method: str

    def __str__(self) -> str:
        package = type(self.part).__module__.partition(".")[0]
        brought = {found.package: found.distribution for kind in IN_SUITES for found in parts(kind).values()}
        return f"{brought.get(package, package)}: {type(self.part).__name__}.{self.method}"


def gave(part: object, method: str, found: str, due: str) -> PluginError:
    """Return the error for an invalid result of a method, with what is expected."""
    return PluginError(f"{named(part, method)} gave {found}; {due}")


def room(dtype: torch.dtype) -> float:
    """Return the rounding tolerance of log-probabilities of a dtype."""
    return ROOM_OF_HALF.get(str(dtype), ROOM)


def shown(value: object) -> str:
    """Return a short description of a value."""
    if hasattr(value, "dtype") and hasattr(value, "shape"):
        return f"{str(value.dtype).removeprefix('torch.')} {[*value.shape]}"
    text = repr(value)
    return text if len(text) <= 60 and not hasattr(value, "__dict__") else f"a {type(value).__name__}"


def is_number(value: object) -> bool:
    """Return whether a value is a real number, possibly infinite or NaN."""
    # floats first: `Real` asks in Python
    return isinstance(value, float) or (isinstance(value, Real) and not isinstance(value, bool))


def all_whole(values: list[Any]) -> bool:
    """Return whether all values are of type int."""
    return {*map(type, values)} <= {int}


def is_tensor(value: object, shape: tuple[int, ...], floating: bool = True) -> bool:
    """Return whether a value is a tensor of this shape, floating-point if required."""
    import torch

    return isinstance(value, torch.Tensor) and value.shape == shape and (value.is_floating_point() or not floating)


def is_whole(value: Any, dimensions: int) -> bool:
    """Return whether a value is an integer tensor with this number of dimensions."""
    import torch

    return isinstance(value, torch.Tensor) and value.dtype == torch.long and value.dim() == dimensions


def are_between(numbers: Any, rows: int, low: int, high: float = math.inf) -> bool:
    """Return whether a value has an integer within bounds for each row."""
    if not is_whole(numbers, 1) or len(numbers) != rows:
        return False
    return not rows or bool(numbers.min() >= low and numbers.max() <= high)


def check_info(info: object, task: object) -> None:
    """Raise PluginError unless this is a TaskInfo with a vocabulary of strings."""
    if not isinstance(info, TaskInfo):
        raise gave(task, "prepare", shown(info), "it is to give TaskInfo.")
    words = info.vocabulary
    if isinstance(words, str) or not words or not all(isinstance(word, str) for word in words):
        found: Fault = f"the vocabulary {shown(words)}"
        raise gave(task, "prepare", found, "it is a list of words, the first of them stop.")


def check_loss(loss: object, model: object, method: str = "loss") -> None:
    """Raise PluginError unless a loss is a Loss of scalars; the trainer checks that they are finite."""
    wrong = _misfit(loss)
    if wrong:
        raise PluginError(f"{named(model, method)} gave {wrong}.")


def _misfit(loss: object) -> Fault:
    """Return the problem of a loss, and what is expected; the empty string if there is none."""
    if not isinstance(loss, Loss):
        return f"{shown(loss)}; it is to give Loss(value, weight)"
    if not is_tensor(loss.value, ()):
        return f"the value {shown(loss.value)}; it is one floating-point number, a tensor []"
    if not is_tensor(loss.weight, (), floating=False):
        return f"the weight {shown(loss.weight)}; it is the number of target tokens, a tensor []"
    for name, part in loss.parts.items():
        if not is_tensor(part, (), floating=False):
            return f"{shown(part)} as the part {name!r}; parts are single numbers, tensors []"
    return _memory(loss.memory)


def _memory(memory: object) -> Fault:
    return "" if memory is None or isinstance(memory, State) else f"{shown(memory)} as memory; it is a State, or None"


def check_scores(scores: object, model: object, batch: Batch, kind: Kind) -> None:
    """Raise PluginError unless scores are log-probabilities, one per row.

    -inf is valid, for an impossible target. Exact ones are at most 0; a bound or estimate by sampling may exceed 0 by
    chance.
    """
    if not isinstance(scores, Scores):
        raise gave(model, "score", shown(scores), "it is to give Scores(log_probs).")
    for name, column in {"log_probs": scores.log_probs, **scores.values}.items():
        if not is_tensor(column, (len(batch),), floating=name == "log_probs"):
            raise gave(
                model, "score", f"{shown(column)} as {name}", f"it is one number for each of {len(batch)} rows."
            )
    if _memory(scores.memory):
        raise PluginError(f"{named(model, 'score')} gave {_memory(scores.memory)}.")
    examples, found = batch.ids.tolist(), scores.log_probs.tolist()
    most = room(scores.log_probs.dtype) if kind is Kind.EXACT else math.inf
    for example, log_prob in zip(examples, found, strict=True):
        if math.isnan(log_prob) or log_prob == math.inf:
            raise gave(
                model, "score", f"{log_prob} for example {example}", "it is the logarithm of a probability, -inf "
                "where that is 0. NaN mostly means that weights have diverged.",
            )  # fmt: skip
        if log_prob > most:
            raise gave(
                model, "score", f"{log_prob:.4g} for example {example}",
                "exact log-probabilities are at most 0 (is a log_softmax missing?).",
            )  # fmt: skip
    for name, column in scores.values.items():
        for example, log_prob, value in zip(examples, found, column.tolist(), strict=True):
            if log_prob > -math.inf and not math.isfinite(value):
                raise gave(model, "score", f"{value} as {name!r} of example {example}", "it is a finite number.")


def check_text_scores(found: object, model: object, examples: Sequence[int], kind: Kind) -> None:
    """Raise PluginError unless each example has a log-probability; -inf is valid, for an impossible target."""
    if not isinstance(found, Sequence) or len(found) != len(examples):
        number = f"{len(found)} scores" if isinstance(found, Sequence) else shown(found)
        raise gave(model, "score_texts", f"{number} for {len(examples)} rows", "it is one TextScore a row.")
    for example, one in zip(examples, found, strict=True):
        fault = _unfit_score(one, kind)
        if fault:
            raise gave(model, "score_texts", f"{fault} for example {example}", "it is a TextScore, in nats.")


def is_certain(tokens: int, log_prob: float) -> bool:
    """Return whether several tokens were scored and each has probability 1."""
    return tokens > 1 and log_prob >= -CERTAIN * tokens


def check_not_certain(model: object, tokens: int, log_prob: float) -> None:
    """Raise PluginError if several tokens were scored and each has probability 1."""
    if is_certain(tokens, log_prob):
        raise gave(
            model,
            "score_texts",
            f"all {tokens:,} tokens of the targets the probability 1, as a system does that fills in 0 for "
            "log-probabilities which it does not compute",
            "correct that system (and the `revision` that names its state), or switch its scores off.",
        )


def _unfit_score(one: object, kind: Kind) -> Fault:
    if not isinstance(one, TextScore):
        return shown(one)
    if type(one.tokens) is not int or one.tokens < 0:
        return f"{shown(one.tokens)} tokens"
    most = ROOM * (one.tokens + 1) if kind is Kind.EXACT else math.inf
    fine = is_number(one.log_prob) and one.log_prob <= most and one.log_prob != math.inf  # NaN is not
    return "" if fine else f"the log-probability {shown(one.log_prob)}"


def check_hypotheses(found: object, who: named, examples: Sequence[int], limits: Sequence[int], words: int) -> None:
    """Raise PluginError unless every row has hypotheses within the limits and a vocabulary of `words`."""
    if not isinstance(found, Sequence) or len(found) != len(examples):
        number = f"{len(found)} lists" if isinstance(found, Sequence) else shown(found)
        raise PluginError(f"{who} gave {number} for {len(examples)} rows; it is one list of hypotheses a row.")
    for example, limit, row in zip(examples, limits, found, strict=True):
        if not isinstance(row, Sequence) or not row:
            raise PluginError(f"{who} gave no hypothesis for example {example}, but {shown(row)}.")
        for one in row:
            reason = _unfit(one, limit, words)
            if reason:
                raise PluginError(f"{who} gave example {example} {reason}.")


def _unfit(one: object, limit: int, words: int) -> Fault:
    """Return the problem of a hypothesis, and what is expected; the empty string if there is none."""
    if not isinstance(one, Hypothesis):
        return f"{shown(one)}; it is a Hypothesis"
    for name, tokens, most in (("token", one.tokens, words), ("action", one.actions, math.inf)):
        if tokens is None and name == "action":
            continue
        if not isinstance(tokens, list) or not all_whole(tokens):
            return f"{name}s that are no list of whole numbers, but {shown(tokens)}"
        if STOP in tokens:
            return f"stop among its {name}s; what ends by itself is `finished`"
        if tokens and not STOP < min(tokens) <= max(tokens) < most:
            strange = min(tokens) if min(tokens) < STOP else max(tokens)
            return f"the {name} {strange}; {name}s are at least 1" + (
                f" and below {words}" if words < strange else ""
            )
    if type(one.finished) is not bool:
        return f"a hypothesis that is finished: {shown(one.finished)}; that is True or False"
    if len(one.tokens) + one.finished > limit:
        stop: Fault = ", stop included" if one.finished else ""
        return f"{len(one.tokens) + one.finished} tokens{stop}; {limit} is the most that it may have"
    if not (one.text is None or isinstance(one.text, str)):
        return f"{shown(one.text)} as the text; it is a str, or None"
    if not (one.token_count is None or (type(one.token_count) is int and one.token_count >= -1)):
        return f"{shown(one.token_count)} as the number of tokens; it is at least 0, -1 where it is unknown, or None"
    if one.log_prob is not None and not _is_log_prob(one.log_prob, (one.length or 0) + 1):
        return f"the log-probability {shown(one.log_prob)}; it is a finite number, at most 0, or None"
    for name, value in one.values.items():
        if not isinstance(value, int | float) or not math.isfinite(value):
            return f"{shown(value)} as {name!r}; values are finite numbers"
    return ""


def _is_log_prob(value: object, steps: int) -> bool:
    return is_number(value) and isinstance(value, int | float) and -math.inf < value <= ROOM * steps


def measured(
    metric: Metric[Any], info: TaskInfo, outcomes: Sequence[Outcome]
) -> tuple[Metric[Any], Sequence[Any], float]:
    """Return a metric fitted to the data, its statistics of the outcomes, and their score.

    Raises PluginError unless the score is a number, finite unless the class sets `may_be_nan` or `may_be_infinite`.
    """
    ready = metric.prepare(info, References(outcomes))
    if not isinstance(ready, Metric):
        raise gave(metric, "prepare", shown(ready), "it is to give a metric, such as itself.")
    found = _spooled(ready.measure(outcomes), metric)
    if not isinstance(found, Sequence) or len(found) != len(outcomes):
        number = f"{len(found)} parts" if isinstance(found, Sequence) else shown(found)
        raise gave(metric, "measure", f"{number} for {len(outcomes)} examples", "it is one each.")
    value = ready.combine(found)
    if not is_number(value):
        raise gave(metric, "combine", shown(value), "a score is a number.")
    if math.isnan(value) and outcomes and not ready.may_be_nan:
        raise gave(metric, "combine", "NaN", "a class whose scores may be undefined says `may_be_nan = True`.")
    if math.isinf(value) and not ready.may_be_infinite:
        raise gave(metric, "combine", f"{value}", "a class whose scores may be so says `may_be_infinite = True`.")
    _check_bounds(metric, float(value))
    return ready, found, float(value)


def _check_bounds(metric: Metric[Any], value: float) -> None:
    """Raise PluginError if a score is outside its bounds by more than rounding: by default, 0 and 100 in percent."""
    if (bounds := metric.config.bounds() or ((0, 100) if metric.unit == "%" else None)) and not math.isnan(value):
        low, high = bounds
        room = ROOM * max(1.0, abs(value))
        if not low - room <= value <= high + room:
            raise gave(
                metric,
                "combine",
                f"{value}",
                f"its bounds are {low:g} and {high:g}; its Config may declare others by `bounds()`.",
            )


def _spooled(found: Any, metric: Metric[Any]) -> Any:
    """Return statistics that are yielded as a sequence that need not be in memory; all else as it is."""
    if not isinstance(found, Iterator):
        return found
    spool = Spool[Any](lambda part: part)
    spool.extend(_json_lines(found, metric))
    return spool


def _json_lines(parts: Iterable[Any], metric: Metric[Any]) -> Iterator[bytes]:
    """Yield statistics of examples as lines of JSON; raise PluginError if one cannot be."""
    for part in parts:
        try:
            line = to_line(part)
        except (TypeError, ValueError) as error:
            raise PluginError(f"{named(metric, 'measure')} gave parts that JSON cannot hold: {error}.") from None
        yield line


def checked_error(metric: Metric[Any], parts: Sequence[Any]) -> float:
    """Return the standard error of a score's own; raise PluginError unless it is finite and not below 0."""
    error: object = metric.error(parts)
    if is_number(error) and isinstance(error, int | float) and 0 <= error < math.inf:
        return float(error)
    raise gave(metric, "error", shown(error), "a standard error is a finite number, at least 0.")


def check_finding(found: object, probe: object) -> None:
    """Raise PluginError unless a probe returned a Finding with float numbers."""
    if not isinstance(found, Finding):
        raise gave(probe, "ask", shown(found), "it is to give a Finding.")
    for name, number in found.numbers.items():
        if not is_number(number):
            raise gave(probe, "ask", f"{shown(number)} as {name!r}", "numbers of findings are floats.")
    for one in found.statements:
        if not isinstance(one, Statement):
            raise gave(probe, "ask", f"{shown(one)} among statements", "each is a Statement.")


def diverged(model: Any) -> Fault:
    """Return the first weights that are not finite, such as "`table.weight` holds NaN"; else the empty string.

    Buffers are checked too, and may hold -inf, the logarithm of 0.
    """
    parameters = {name for name, _ in model.named_parameters(remove_duplicate=False)}
    for name, tensor in model.state_dict().items():
        if tensor.is_floating_point() and not bool(tensor.isfinite().all()):
            if bool(tensor.isnan().any()):
                return f"`{name}` holds NaN"
            if name in parameters or bool(tensor.isposinf().any()):
                return f"`{name}` holds an infinite number"
    return ""
