"""An LSTM layer with a dropout mask on the recurrent connection and a hand-written gradient.

What autograd would store and accumulate step by step is computed for all steps at once, before and after the
sequential part: at each step, the gradients of cells and hidden units are the gradients of the next step times
precomputed factors, and the gradient of the recurrent matrix is a single product.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn.functional import linear

from bench_rnn.api import Units


def walk(layer: nn.RNNBase, inputs: Tensor, units: Units | None, mask: Tensor) -> tuple[Tensor, Units]:
    """Read `inputs` [N, T, E] under `mask` [N, H]; return hidden units [N, T, H] and the final state.

    The mask multiplies the hidden units that each step receives from the previous one, including `units` [N, 1, H].
    """
    weight_ih, weight_hh, bias_ih, bias_hh = layer.all_weights[0]
    read = linear(inputs.transpose(0, 1), weight_ih, bias_ih + bias_hh)  # [T, N, 4 H]
    zeros = inputs.new_zeros(len(inputs), layer.hidden_size)
    hidden, cells = (unit[:, 0] for unit in units) if units else (zeros, zeros)
    outputs, last = _MaskedLSTM.apply(read, hidden, cells, weight_hh, mask)  # type: ignore[no-untyped-call]
    return outputs.transpose(0, 1), (outputs[-1][:, None], last[:, None])


class _MaskedLSTM(torch.autograd.Function):
    """c_t = f * c_{t-1} + i * g and h_t = o * tanh(c_t), with gates computed from read_t + (mask * h_{t-1}) W^T."""

    @staticmethod
    def forward(
        ctx: Any, read: Tensor, hidden: Tensor, cells: Tensor, weight: Tensor, mask: Tensor
    ) -> tuple[Tensor, Tensor]:
        steps, (rows, size) = len(read), hidden.shape
        gates = torch.empty_like(read)  # i, f, g and o
        inputs = read.new_empty(steps, rows, size)  # mask * h_{t-1}
        states = read.new_empty(steps + 1, rows, size)  # c_0 to c_T
        tanhs, outputs = torch.empty_like(inputs), torch.empty_like(inputs)  # tanh(c_t) and h_t
        states[0] = cells
        for step in range(steps):
            torch.mul(hidden, mask, out=inputs[step])
            gate = torch.addmm(read[step], inputs[step], weight.T, out=gates[step])
            gate[:, : 2 * size].sigmoid_()
            gate[:, 2 * size : 3 * size].tanh_()
            gate[:, 3 * size :].sigmoid_()
            take, keep, new, give = gate.chunk(4, 1)
            torch.mul(keep, states[step], out=states[step + 1]).addcmul_(take, new)
            hidden = torch.mul(give, torch.tanh(states[step + 1], out=tanhs[step]), out=outputs[step])
        ctx.save_for_backward(gates, inputs, states, tanhs, weight, mask)
        return outputs, states[-1].clone()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_outputs: Tensor, grad_last: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, None]:
        gates, inputs, states, tanhs, weight, mask = ctx.saved_tensors
        steps, rows, size = inputs.shape
        take, keep, new, give = gates.chunk(4, 2)
        by_cell = gates.new_empty(steps, rows, 3, size)  # d c_t / d (i, f, g before their activations)
        torch.mul(new * take, 1 - take, out=by_cell[:, :, 0])
        torch.mul(states[:-1] * keep, 1 - keep, out=by_cell[:, :, 1])
        torch.mul(take, 1 - new * new, out=by_cell[:, :, 2])
        of_give, to_cell = tanhs * give * (1 - give), give * (1 - tanhs * tanhs)  # d h_t / d o, d c_t
        grad_gates = torch.empty_like(gates)
        parts = grad_gates.view(steps, rows, 4, size)
        grad_hidden, grad_cell = torch.zeros_like(grad_last), grad_last
        for step in reversed(range(steps)):
            grad_hidden = grad_hidden + grad_outputs[step]
            grad_cell = torch.addcmul(grad_cell, grad_hidden, to_cell[step])
            torch.mul(grad_cell[:, None], by_cell[step], out=parts[step, :, :3])
            torch.mul(grad_hidden, of_give[step], out=parts[step, :, 3])
            grad_cell = grad_cell * keep[step]
            grad_hidden = torch.mm(grad_gates[step], weight).mul_(mask)
        grad_weight = grad_gates.flatten(0, 1).T @ inputs.flatten(0, 1)
        return grad_gates, grad_hidden, grad_cell, grad_weight, None
