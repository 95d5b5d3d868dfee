"""Bounds on the activations of a recurrent model for any input, to rule out overflow.

A sum of products is at most the sum of their absolute values, in any order of summation.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from bench_core import STOP, Model
from bench_rnn.api import RecurrentLM

BOUNDED = ("tanh", "gru", "lstm")  # cells whose hidden units lie between -1 and 1


@dataclass(frozen=True)
class Magnitudes:
    """Bounds on absolute values, in float64; NaN or infinite if nothing is proven."""

    units: Tensor  # [H] hidden units that the output layer reads
    largest: float  # maximum over all numbers that the model computes

    def fits(self, dtype: torch.dtype) -> bool:
        """Return whether all bounds are far below the largest number of a dtype, so that nothing overflows."""
        return self.largest < torch.finfo(dtype).max / 8


def magnitudes(model: RecurrentLM, logits: nn.Linear, tokens: int) -> Magnitudes:
    """Return bounds for a model that reads at most `tokens` tokens.

    A GRU unit is an average of numbers between -1 and 1; rounding errors add at most `slack` to its magnitude.
    """
    slack = 8 * rounding(model) * tokens
    inputs, parts = _inputs(model), [torch.tensor([1.0 + tokens], dtype=torch.float64)]  # LSTM cells: 1 per token
    for weight, recurrent, bias, recurrent_bias in model.rnn.layers.all_weights:
        read = _sums(weight, bias, inputs)
        if model.cell in BOUNDED:
            units = read.new_full((recurrent.shape[1],), 1 + slack)
            parts += [inputs, read + _sums(recurrent, recurrent_bias, units)]
        else:
            units = _unrolled(read, recurrent, recurrent_bias, tokens)
            parts += [inputs, units]
        inputs = units
    parts += [inputs, _sums(logits.weight, logits.bias, inputs)]
    return Magnitudes(inputs, float(torch.cat(parts).max()))


def logits_of(model: RecurrentLM) -> nn.Linear | None:
    """Return the linear layer that computes the logits (the head or a part of it), or None if the head has none."""
    layer = getattr(model.head, "logits", model.head)
    return layer if isinstance(layer, nn.Linear) else None


def rounding(model: Model) -> float:
    """Return the machine epsilon (the distance from 1 to the next number) of the coarsest dtype of the weights."""
    types = {weight.dtype for weight in model.parameters()} if isinstance(model, nn.Module) else {torch.float32}
    return max(torch.finfo(dtype).eps for dtype in types)


def min_log_stop(logits: nn.Linear, units: Tensor, temperature: float = 1.0) -> float:
    """Return a lower bound on the computed log p(EOS), for hidden units h with |h| <= `units` [H] (Lemma 3.2).

    A word's logit exceeds the EOS logit by at most |u_v - u_EOS| . units + c_v - c_EOS. The rounding error is
    proportional to the logits: in float32, a sum of H products is off by up to H units in the last place.
    """
    weight, bias = logits.weight.double(), logits.bias.double()
    lead = (weight - weight[STOP]).abs() @ units + bias - bias[STOP]  # [V], 0 for EOS
    log_stop = -(lead / temperature).logsumexp(0)
    tokens, hidden = weight.shape
    size = 1 + (weight.abs() @ units + bias.abs()).max()
    error = (2 * hidden + tokens + 32) * torch.finfo(logits.weight.dtype).eps * size * max(1.0, 1 / temperature)
    return float(log_stop - 2 * error)


def _inputs(model: RecurrentLM) -> Tensor:
    """Return the maximum absolute values of the first layer's inputs [E]."""
    if isinstance(model.embed, nn.Embedding):
        return model.embed.weight.double().abs().amax(0)
    return torch.ones(model.rnn.layers.input_size, dtype=torch.float64)


def _sums(weight: Tensor, bias: Tensor, inputs: Tensor) -> Tensor:
    """Return the maximum absolute values of weight x + bias, including rounding, for |x| <= `inputs`."""
    exact = weight.double().abs() @ inputs + bias.double().abs()
    return exact * (1 + 2 * (len(inputs) + 4) * torch.finfo(weight.dtype).eps)


def _unrolled(read: Tensor, weight: Tensor, bias: Tensor, tokens: int) -> Tensor:
    """Return the maximum absolute values of unbounded units after `tokens` steps from 0."""
    units = torch.zeros_like(read)
    for _ in range(tokens):
        before, units = units, read + _sums(weight, bias, units)
        if torch.equal(units, before) or not units.isfinite().all():
            break
    return units
