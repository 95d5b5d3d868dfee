"""Bounds on the activations of a recurrent model for any input, to rule out overflow.

Every sum of products is at most the sum of their absolute values, in whatever order it is added up.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from bench_core import STOP, Model
from bench_rnn.api import RecurrentLM

BOUNDED = ("tanh", "gru", "lstm")  # cells whose hidden units lie between -1 and 1


@dataclass(frozen=True)
class Magnitudes:
    """Bounds on absolute values, in float64; NaN or infinite where nothing is proven."""

    units: Tensor  # [H] of the hidden units that the output layer reads
    largest: float  # of all numbers that the model computes

    def fit(self, dtype: torch.dtype) -> bool:
        """Return whether all of them are far from the largest number of a type, so that nothing overflows."""
        return self.largest < torch.finfo(dtype).max / 8


def magnitudes(model: RecurrentLM, logits: nn.Linear, tokens: int) -> Magnitudes:
    """Return how large numbers can become while the model reads at most so many tokens.

    Rounding takes a unit of a GRU, a mean of numbers between -1 and 1, beyond them by no more than `slack`.
    """
    slack = 8 * rounding(model) * tokens
    inputs, found = _inputs(model), [torch.tensor([1.0 + tokens], dtype=torch.float64)]  # an LSTM's cells: 1 a token
    for weight, recurrent, bias, recurrent_bias in model.rnn.layers.all_weights:
        read = _sums(weight, bias, inputs)
        if model.cell in BOUNDED:
            units = read.new_full((recurrent.shape[1],), 1 + slack)
            found += [inputs, read + _sums(recurrent, recurrent_bias, units)]
        else:
            units = _unrolled(read, recurrent, recurrent_bias, tokens)
            found += [inputs, units]
        inputs = units
    found += [inputs, _sums(logits.weight, logits.bias, inputs)]
    return Magnitudes(inputs, float(torch.cat(found).max()))


def logits_of(model: RecurrentLM) -> nn.Linear | None:
    """Return the linear layer that gives the logits: the head, or a part of it; None if there is no such layer."""
    found = getattr(model.head, "logits", model.head)
    return found if isinstance(found, nn.Linear) else None


def rounding(model: Model) -> float:
    """Return the distance from 1 to the next number, of the coarsest type of the weights."""
    types = {weight.dtype for weight in model.parameters()} if isinstance(model, nn.Module) else {torch.float32}
    return max(torch.finfo(dtype).eps for dtype in types)


def log_least_stop(logits: nn.Linear, units: Tensor, temperature: float = 1.0) -> float:
    """Return a bound on log p(stop) of a softmax over hidden units of at most `units` [H] (Lemma 3.2), as computed.

    A word's logit is above that of stop by at most |u_v - u_stop| . units + c_v - c_stop. What rounding adds is in
    proportion to the logits: in float32 a sum of H products is wrong by up to H units in its last place.
    """
    weight, bias = logits.weight.double(), logits.bias.double()
    ahead = (weight - weight[STOP]).abs() @ units + bias - bias[STOP]  # [V] 0 for stop itself
    least = -(ahead / temperature).logsumexp(0)
    tokens, hidden = weight.shape
    size = 1 + (weight.abs() @ units + bias.abs()).max()
    wrong = (2 * hidden + tokens + 32) * torch.finfo(logits.weight.dtype).eps * size * max(1.0, 1 / temperature)
    return float(least - 2 * wrong)


def _inputs(model: RecurrentLM) -> Tensor:
    """Return the largest absolute values that the first layer reads [E]."""
    if isinstance(model.embed, nn.Embedding):
        return model.embed.weight.double().abs().amax(0)
    return torch.ones(model.rnn.layers.input_size, dtype=torch.float64)


def _sums(weight: Tensor, bias: Tensor, inputs: Tensor) -> Tensor:
    """Return the largest absolute values of weight x + bias, rounding included, for |x| of at most `inputs`."""
    exact = weight.double().abs() @ inputs + bias.double().abs()
    return exact * (1 + 2 * (len(inputs) + 4) * torch.finfo(weight.dtype).eps)


def _unrolled(read: Tensor, weight: Tensor, bias: Tensor, tokens: int) -> Tensor:
    """Return the largest absolute values of units without a bound of their own after so many steps from 0."""
    units = torch.zeros_like(read)
    for _ in range(tokens):
        before, units = units, read + _sums(weight, bias, units)
        if torch.equal(units, before) or not units.isfinite().all():
            break
    return units
