"""Guards on return values of parts: types, shapes, dtypes, finite numbers.

Errors name the distribution, class and method of the part at fault, the returned value and the expected value.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import TYPE_CHECKING, Any

from bench_core.data import STOP, Batch, Hypothesis, Kind, Prediction, TaskInfo
from bench_core.errors import Fault, PluginError
from bench_core.metric import Metric
from bench_core.model import Loss, Scores, State, TextScore
from bench_core.probe import Finding, Statement
from bench_core.registry import IN_SUITES, parts
from bench_core.storage.predictions import References
from plain_files import Spool, to_line

if TYPE_CHECKING:
    import torch

ROUNDING_TOLERANCE = 1e-3  #: tolerance of log-probabilities above 0 (nats), and of sums of probabilities
CERTAINTY_TOLERANCE = 1e-6  #: nats per token; smaller costs count as probability 1
HALF_TOLERANCES = {"torch.bfloat16": 0.1, "torch.float16": 0.02}  # rounding tolerances of 16-bit types


@dataclass(frozen=True)
class named:
    """The name of a part's method in errors, such as "bench-mine: Bigram.step", looked up when formatted."""

    part: object
    method: str

    def __str__(self) -> str:
        package = type(self.part).__module__.partition(".")[0]
        providers = {part.package: part.distribution for kind in IN_SUITES for part in parts(kind).values()}
        return f"{providers.get(package, package)}: {type(self.part).__name__}.{self.method}"


def gave(part: object, method: str, result: str, due: str) -> PluginError:
    """Return the error for an invalid result of a method, with the expected result."""
    return PluginError(f"{named(part, method)} gave {result}; {due}")


def room(dtype: torch.dtype) -> float:
    """Return the rounding tolerance of log-probabilities of a dtype."""
    return HALF_TOLERANCES.get(str(dtype), ROUNDING_TOLERANCE)


def brief(value: object) -> str:
    """Return a short description of a value."""
    if hasattr(value, "dtype") and hasattr(value, "shape"):
        return f"{str(value.dtype).removeprefix('torch.')} {[*value.shape]}"
    text = repr(value)
    return text if len(text) <= 60 and not hasattr(value, "__dict__") else f"a {type(value).__name__}"


def is_number(value: object) -> bool:
    """Return whether a value is a real number, possibly infinite or NaN."""
    # floats first, because isinstance of `Real` runs Python code
    return isinstance(value, float) or (isinstance(value, Real) and not isinstance(value, bool))


def is_tensor(value: object, shape: tuple[int, ...], floating: bool = True) -> bool:
    """Return whether a value is a tensor of this shape, and floating-point if required."""
    import torch

    return isinstance(value, torch.Tensor) and value.shape == shape and (value.is_floating_point() or not floating)


def is_whole(value: Any, dimensions: int) -> bool:
    """Return whether a value is an integer tensor with this number of dimensions."""
    import torch

    return isinstance(value, torch.Tensor) and value.dtype == torch.long and value.dim() == dimensions


def are_between(numbers: Any, rows: int, low: int, high: float = math.inf) -> bool:
    """Return whether a value is an integer tensor [rows] within bounds."""
    if not is_whole(numbers, 1) or len(numbers) != rows:
        return False
    return not rows or bool(numbers.min() >= low and numbers.max() <= high)


def check_info(info: object, task: object) -> None:
    """Raise PluginError unless `info` is a TaskInfo with a vocabulary of strings."""
    if not isinstance(info, TaskInfo):
        raise gave(task, "prepare", brief(info), "expected a TaskInfo.")
    words = info.vocabulary
    if isinstance(words, str) or not words or not all(isinstance(word, str) for word in words):
        vocabulary: Fault = f"the vocabulary {brief(words)}"
        raise gave(task, "prepare", vocabulary, "expected a list of strings, the first for EOS.")


def check_loss(loss: object, model: object, method: str = "loss") -> None:
    """Raise PluginError unless a loss is a Loss of scalars; the trainer checks that they are finite."""
    if wrong := _misfit(loss):
        raise PluginError(f"{named(model, method)} gave {wrong}.")


def _misfit(loss: object) -> Fault:
    """Return what is wrong with a loss and what was expected; empty if the loss is valid."""
    if not isinstance(loss, Loss):
        return f"{brief(loss)}; expected Loss(value, weight)"
    if not is_tensor(loss.value, ()):
        return f"the value {brief(loss.value)}; expected a floating-point tensor []"
    if not is_tensor(loss.weight, (), floating=False):
        return f"the weight {brief(loss.weight)}; expected the number of target tokens, a tensor []"
    for name, part in loss.parts.items():
        if not is_tensor(part, (), floating=False):
            return f"{brief(part)} as the part {name!r}; expected a scalar, a tensor []"
    return _memory(loss.memory)


def _memory(memory: object) -> Fault:
    is_valid = memory is None or isinstance(memory, State)
    return "" if is_valid else f"{brief(memory)} as memory; expected a State or None"


def check_scores(scores: object, model: object, batch: Batch, kind: Kind) -> None:
    """Raise PluginError unless scores are log-probabilities, one per row.

    -inf is valid for impossible targets. Exact log-probabilities must be at most 0; Monte Carlo bounds and estimates
    may exceed 0 by chance.
    """
    if not isinstance(scores, Scores):
        raise gave(model, "score", brief(scores), "expected Scores(log_probs).")
    for name, column in {"log_probs": scores.log_probs, **scores.values}.items():
        if not is_tensor(column, (len(batch),), floating=name == "log_probs"):
            due: Fault = f"expected one number for each of {len(batch)} rows."
            raise gave(model, "score", f"{brief(column)} as {name}", due)
    for name, rows in scores.by_token.items():
        if not is_tensor(rows, tuple(batch.gold.shape), floating=False):
            shape: Fault = f"expected one number for each token of {list(batch.gold.shape)}."
            raise gave(model, "score", f"{brief(rows)} as {name} by token", shape)
    if wrong := _memory(scores.memory):
        raise PluginError(f"{named(model, 'score')} gave {wrong}.")
    examples, log_probs = batch.ids.tolist(), scores.log_probs.tolist()
    most = room(scores.log_probs.dtype) if kind is Kind.EXACT else math.inf
    for example, log_prob in zip(examples, log_probs, strict=True):
        if math.isnan(log_prob) or log_prob == math.inf:
            raise gave(
                model, "score", f"{log_prob} for example {example}", "expected a log-probability, -inf for "
                "probability 0. NaN usually means that weights have diverged."
            )  # fmt: skip
        if log_prob > most:
            below: Fault = "exact log-probabilities must be at most 0 (is a log_softmax missing?)."
            raise gave(model, "score", f"{log_prob:.4g} for example {example}", below)
    for name, column in scores.values.items():
        for example, log_prob, value in zip(examples, log_probs, column.tolist(), strict=True):
            if log_prob > -math.inf and not math.isfinite(value):
                raise gave(model, "score", f"{value} as {name!r} of example {example}", "expected a finite number.")


def check_text_scores(scores: object, model: object, examples: Sequence[int], kind: Kind) -> None:
    """Raise PluginError unless each example has a log-probability; -inf is valid for impossible targets."""
    if not isinstance(scores, Sequence) or len(scores) != len(examples):
        number = f"{len(scores)} scores" if isinstance(scores, Sequence) else brief(scores)
        raise gave(model, "score_texts", f"{number} for {len(examples)} rows", "expected one TextScore per row.")
    for example, score in zip(examples, scores, strict=True):
        if fault := _unfit_score(score, kind):
            raise gave(model, "score_texts", f"{fault} for example {example}", "expected a TextScore in nats.")


def is_certain(tokens: int, log_prob: float) -> bool:
    """Return whether several tokens were scored and each has probability 1."""
    return tokens > 1 and log_prob >= -CERTAINTY_TOLERANCE * tokens


def check_not_certain(model: object, tokens: int, log_prob: float) -> None:
    """Raise PluginError if several tokens were scored and each has probability 1."""
    if is_certain(tokens, log_prob):
        fault: Fault = f"all {tokens:,} tokens of the targets the probability 1"
        cause: Fault = f"{fault}, as if missing log-probabilities had been replaced with 0"
        raise gave(model, "score_texts", cause, "fix the system (and change its `revision`), or disable its scores.")


def _unfit_score(score: object, kind: Kind) -> Fault:
    if not isinstance(score, TextScore):
        return brief(score)
    if type(score.tokens) is not int or score.tokens < 0:
        return f"{brief(score.tokens)} tokens"
    most = ROUNDING_TOLERANCE * (score.tokens + 1) if kind is Kind.EXACT else math.inf
    is_valid = is_number(score.log_prob) and score.log_prob <= most and score.log_prob != math.inf  # false for NaN
    return "" if is_valid else f"the log-probability {brief(score.log_prob)}"


def check_hypotheses(rows: object, who: named, examples: Sequence[int], limits: Sequence[int], words: int) -> None:
    """Raise PluginError unless every row has hypotheses within its limit and a vocabulary of `words` tokens."""
    if not isinstance(rows, Sequence) or len(rows) != len(examples):
        number = f"{len(rows)} lists" if isinstance(rows, Sequence) else brief(rows)
        raise PluginError(f"{who} gave {number} for {len(examples)} rows; expected a list of hypotheses per row.")
    for example, limit, row in zip(examples, limits, rows, strict=True):
        if not isinstance(row, Sequence) or not row:
            raise PluginError(f"{who} gave {brief(row)} for example {example}; expected a list of hypotheses.")
        for hypothesis in row:
            if reason := _unfit(hypothesis, limit, words):
                raise PluginError(f"{who} gave an invalid hypothesis for example {example}: {reason}.")


def _unfit(hypothesis: object, limit: int, words: int) -> Fault:
    """Return what is wrong with a hypothesis and what was expected; empty if the hypothesis is valid."""
    if not isinstance(hypothesis, Hypothesis):
        return f"{brief(hypothesis)}; expected a Hypothesis"
    for name, tokens, most in (("token", hypothesis.tokens, words), ("action", hypothesis.actions, math.inf)):
        if tokens is None and name == "action":
            continue
        if not isinstance(tokens, list) or not {*map(type, tokens)} <= {int}:
            return f"{brief(tokens)} as {name}s; expected a list of integers"
        if STOP in tokens:
            return f"EOS among its {name}s; leave it out, and set `finished` instead"
        if tokens and not STOP < min(tokens) <= max(tokens) < most:
            invalid = min(tokens) if min(tokens) < STOP else max(tokens)
            below: Fault = f" and below {words}" if words < invalid else ""
            return f"the {name} {invalid}; {name}s must be at least 1{below}"
    if type(hypothesis.finished) is not bool:
        return f"a hypothesis with finished={brief(hypothesis.finished)}; expected True or False"
    if len(hypothesis.tokens) + hypothesis.finished > limit:
        stop: Fault = ", including EOS" if hypothesis.finished else ""
        return f"{len(hypothesis.tokens) + hypothesis.finished} tokens{stop}; the maximum is {limit}"
    if not (hypothesis.text is None or isinstance(hypothesis.text, str)):
        return f"{brief(hypothesis.text)} as the text; expected a string or None"
    if not (hypothesis.token_count is None or (type(hypothesis.token_count) is int and hypothesis.token_count >= -1)):
        return f"{brief(hypothesis.token_count)} as the number of tokens; expected at least 0, -1 (unknown), or None"
    if hypothesis.log_prob is not None and not _is_log_prob(hypothesis.log_prob, (hypothesis.length or 0) + 1):
        return f"the log-probability {brief(hypothesis.log_prob)}; expected a finite number, at most 0, or None"
    for name, value in hypothesis.values.items():
        if not isinstance(value, int | float) or not math.isfinite(value):
            return f"{brief(value)} as {name!r}; expected a finite number"
    return ""


def _is_log_prob(value: object, steps: int) -> bool:
    return is_number(value) and isinstance(value, int | float) and -math.inf < value <= ROUNDING_TOLERANCE * steps


def measured(
    metric: Metric[Any], info: TaskInfo, predictions: Sequence[Prediction]
) -> tuple[Metric[Any], Sequence[Any], float]:
    """Return the metric fitted to the data, the statistics of predictions, and the score.

    Raises PluginError unless the score is a number, and finite unless the class sets `may_be_nan` or
    `may_be_infinite`.
    """
    ready = metric.prepare(info, References(predictions))
    if not isinstance(ready, Metric):
        raise gave(metric, "prepare", brief(ready), "expected a metric, such as itself.")
    parts = ready.measure(predictions)
    parts = spool(parts, metric) if isinstance(parts, Iterator) else parts
    if not isinstance(parts, Sequence) or len(parts) != len(predictions):
        number = f"{len(parts)} parts" if isinstance(parts, Sequence) else brief(parts)
        raise gave(metric, "measure", f"{number} for {len(predictions)} examples", "expected one statistic each.")
    value = ready.combine(parts)
    if not is_number(value):
        raise gave(metric, "combine", brief(value), "expected a number.")
    if math.isnan(value) and predictions and not ready.may_be_nan:
        raise gave(metric, "combine", "NaN", "set `may_be_nan = True` in the class if scores may be undefined.")
    if math.isinf(value) and not ready.may_be_infinite:
        due: Fault = "set `may_be_infinite = True` in the class if scores may be infinite."
        raise gave(metric, "combine", f"{value}", due)
    _check_bounds(metric, float(value))
    return ready, parts, float(value)


def _check_bounds(metric: Metric[Any], value: float) -> None:
    """Raise PluginError if a score is out of bounds by more than rounding; percentages default to 0 and 100."""
    low, high = metric.config.bounds() or ((0, 100) if metric.unit == "%" else (-math.inf, math.inf))
    tolerance = ROUNDING_TOLERANCE * max(1.0, abs(value))
    if value < low - tolerance or value > high + tolerance:  # false for NaN
        due: Fault = f"its bounds are {low:g} and {high:g}; override `bounds()` of its Config to change them."
        raise gave(metric, "combine", f"{value}", due)


def spool(parts: Iterable[Any], metric: Metric[Any]) -> Spool[Any]:
    """Return the statistics of examples in a file; raise PluginError if JSON cannot represent them."""
    if isinstance(parts, Spool):
        return parts
    new = Spool[Any](lambda part: part)
    new.extend(_json_lines(parts, metric))
    return new


def _json_lines(parts: Iterable[Any], metric: Metric[Any]) -> Iterator[bytes]:
    """Yield statistics of examples as lines of JSON; raise PluginError if JSON cannot represent them."""
    for part in parts:
        try:
            line = to_line(part)
        except (TypeError, ValueError) as error:
            raise PluginError(f"{named(metric, 'measure')} gave values JSON cannot represent: {error}.") from None
        yield line


def checked_error(metric: Metric[Any], parts: Sequence[Any]) -> float:
    """Return a score's standard error due to sampling in a model; raise PluginError unless it is finite and >= 0."""
    error: object = metric.error(parts)
    if is_number(error) and isinstance(error, int | float) and 0 <= error < math.inf:
        return float(error)
    raise gave(metric, "error", brief(error), "expected a finite standard error of at least 0.")


def check_finding(finding: object, probe: object) -> None:
    """Raise PluginError unless a probe returned a Finding with numbers and Statements."""
    if not isinstance(finding, Finding):
        raise gave(probe, "ask", brief(finding), "expected a Finding.")
    for name, number in finding.numbers.items():
        if not is_number(number):
            raise gave(probe, "ask", f"{brief(number)} as {name!r}", "expected a float.")
    for statement in finding.statements:
        if not isinstance(statement, Statement):
            raise gave(probe, "ask", f"{brief(statement)} among statements", "expected a Statement.")


def diverged(model: Any) -> Fault:
    """Return a message about the first non-finite weight, such as "`table.weight` holds NaN", or an empty string.

    Buffers are also checked, but may contain -inf, the logarithm of 0.
    """
    parameters = {name for name, _ in model.named_parameters(remove_duplicate=False)}
    for name, tensor in model.state_dict().items():
        if tensor.is_floating_point() and not bool(tensor.isfinite().all()):
            if bool(tensor.isnan().any()):
                return f"`{name}` holds NaN"
            if name in parameters or bool(tensor.isposinf().any()):
                return f"`{name}` holds an infinite number"
    return ""
