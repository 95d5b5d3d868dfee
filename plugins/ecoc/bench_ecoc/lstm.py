"""An LSTM layer with a dropout mask on the recurrent connection and a hand-written gradient.

What autograd would keep and add up step by step is computed for all steps at once here, before and after the chain
that there has to be: d_c and d_h of a step are products of what came after it with factors that are known beforehand,
and the gradient of the recurrent matrix is a single product.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn.functional import linear

from bench_rnn.api import Units


def walk(layer: nn.RNNBase, inputs: Tensor, units: Units | None, mask: Tensor) -> tuple[Tensor, Units]:
    """Read `inputs` [N, T, E] under `mask` [N, H]; return hidden units [N, T, H] and the state after the last.

    The mask multiplies the hidden units that a step is given of the one before, those of `units` [N, 1, H] too.
    """
    weight_ih, weight_hh, bias_ih, bias_hh = layer.all_weights[0]
    read = linear(inputs.transpose(0, 1), weight_ih, bias_ih + bias_hh)  # [T, N, 4 H]
    zeros = inputs.new_zeros(len(inputs), layer.hidden_size)
    hidden, cells = (unit[:, 0] for unit in units) if units else (zeros, zeros)
    found, last = _Steps.apply(read, hidden, cells, weight_hh, mask)  # type: ignore[no-untyped-call]
    return found.transpose(0, 1), (found[-1][:, None], last[:, None])


class _Steps(torch.autograd.Function):
    """c_t = f * c_{t-1} + i * g and h_t = o * tanh(c_t), with gates of read_t + (mask * h_{t-1}) W^T."""

    @staticmethod
    def forward(
        ctx: Any, read: Tensor, hidden: Tensor, cells: Tensor, weight: Tensor, mask: Tensor
    ) -> tuple[Tensor, Tensor]:
        steps, (rows, size) = len(read), hidden.shape
        gates = torch.empty_like(read)  # i, f, g and o
        given = read.new_empty(steps, rows, size)  # mask * h_{t-1}
        kept = read.new_empty(steps + 1, rows, size)  # c_0 to c_T
        bent, found = torch.empty_like(given), torch.empty_like(given)  # tanh(c_t) and h_t
        kept[0] = cells
        for step in range(steps):
            torch.mul(hidden, mask, out=given[step])
            gate = torch.addmm(read[step], given[step], weight.T, out=gates[step])
            gate[:, : 2 * size].sigmoid_()
            gate[:, 2 * size : 3 * size].tanh_()
            gate[:, 3 * size :].sigmoid_()
            take, keep, new, give = gate.chunk(4, 1)
            torch.mul(keep, kept[step], out=kept[step + 1]).addcmul_(take, new)
            hidden = torch.mul(give, torch.tanh(kept[step + 1], out=bent[step]), out=found[step])
        ctx.save_for_backward(gates, given, kept, bent, weight, mask)
        return found, kept[-1].clone()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, on_found: Tensor, on_last: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, None]:
        gates, given, kept, bent, weight, mask = ctx.saved_tensors
        steps, rows, size = given.shape
        take, keep, new, give = gates.chunk(4, 2)
        by_cell = gates.new_empty(steps, rows, 3, size)  # of i, f and g before their sigmoid or tanh, by c_t
        torch.mul(new * take, 1 - take, out=by_cell[:, :, 0])
        torch.mul(kept[:-1] * keep, 1 - keep, out=by_cell[:, :, 1])
        torch.mul(take, 1 - new * new, out=by_cell[:, :, 2])
        of_give, to_cell = bent * give * (1 - give), give * (1 - bent * bent)  # of o, and of c_t, by h_t
        on_gates = torch.empty_like(gates)
        parts = on_gates.view(steps, rows, 4, size)
        on_hidden, on_cell = torch.zeros_like(on_last), on_last
        for step in reversed(range(steps)):
            on_hidden = on_hidden + on_found[step]
            on_cell = torch.addcmul(on_cell, on_hidden, to_cell[step])
            torch.mul(on_cell[:, None], by_cell[step], out=parts[step, :, :3])
            torch.mul(on_hidden, of_give[step], out=parts[step, :, 3])
            on_cell = on_cell * keep[step]
            on_hidden = torch.mm(on_gates[step], weight).mul_(mask)
        on_weight = on_gates.flatten(0, 1).T @ given.flatten(0, 1)
        return on_gates, on_hidden, on_cell, on_weight, None
