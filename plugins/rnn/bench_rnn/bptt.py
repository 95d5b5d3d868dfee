"""Truncated and full back-propagation through time (RNN notes, section 4).

A recurrent step passes the states of all layers to the next time step, so each path of the gradient from the loss at
step i to the use of a parameter at step t takes i - t recurrent steps, for any cell and depth. Only gradients are
changed, never values. No gradient crosses windows: the state passed from one window to the next is a constant.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from bench_core import Rng
from bench_rnn.cells import Layer, Recurrent, Units, layer_inputs, stack_layers, unstack
from bench_rnn.settings import Detach, FullOutput, Randomized, Truncated


def through_time(
    rnn: Recurrent,
    inputs: Tensor,
    units: Units | None,
    bptt: FullOutput | Truncated | Detach | Randomized,
    ids: Tensor,
    rng: Rng,
) -> tuple[Tensor, Units]:
    """Return the output of `rnn` for inputs [N, T, E], with gradients limited by `bptt`.

    Random numbers depend only on the id of a row [N] and on the step.
    """
    steps = inputs.shape[1]
    match bptt:
        case Truncated(tau=tau) if tau < steps - 1:
            return truncated(rnn, inputs, units, tau)
        case Detach(tau=tau):
            return detached(rnn, inputs, units, tau)
        case Randomized(pi=pi) if pi < 1:
            passes = rng.fork("bptt").uniform(ids, 0, steps) < pi
            return randomized(rnn, inputs, units, passes.to(inputs.dtype) / pi)
    return rnn(inputs, units)  # type: ignore[no-any-return]


def truncated(rnn: Recurrent, inputs: Tensor, units: Units | None, tau: int) -> tuple[Tensor, Units]:
    """Keep gradient terms that travel at most `tau` steps: dL/dh_t = sum over j <= tau of (W_hh^T)^j W_qh^T g_{t+j}.

    First, the states before all steps are computed without a graph. Then all steps are repeated in parallel from
    these states, which gives a graph one step deep. In the backward pass, the gradients of the states before all
    steps are passed to the states after the previous steps, `tau` times; their sum is propagated to the parameters
    once. The additional cost is one forward pass and `tau` products of T N rows with the recurrent matrices, in the
    memory of a single pass.
    """
    data = inputs.transpose(0, 1)  # [T, N, E]; steps also come first below
    before: list[Tensor] = []
    after: list[Tensor] = []
    last: list[Units] = []
    for index, (layer, start) in enumerate(zip(unstack(rnn.layers, rnn.step), rnn.begin(inputs, units), strict=True)):
        projected = layer.project(layer_inputs(rnn.layers, index, data))
        starts, final = _states(layer, projected.detach(), start)
        starts = tuple(unit.requires_grad_(tau > 0) for unit in starts)
        ends = layer(projected, starts)
        data = ends[0]
        before += starts
        after += ends
        last.append(final)
    if tau:
        data = _TruncatedGradient.apply(tau, before, *after)[-len(ends)]  # type: ignore[no-untyped-call]
    return data.transpose(0, 1), stack_layers(last)


def detached(rnn: Recurrent, inputs: Tensor, units: Units | None, tau: int) -> tuple[Tensor, Units]:
    """Cut the gradient between chunks of `tau` steps; how far it travels depends on the position in the chunk."""
    hidden = []
    for chunk in torch.split(inputs, tau, 1):
        top, units = rnn(chunk, units and tuple(unit.detach() for unit in units))
        hidden.append(top)
    assert units is not None
    return torch.cat(hidden, 1), units


def randomized(rnn: Recurrent, inputs: Tensor, units: Units | None, scale: Tensor) -> tuple[Tensor, Units]:
    """Multiply the gradient from step t to step t - 1 (from the first step, to the initial state) by scale [N, T].

    Each path crosses each step once, so the gradient is unbiased if scales are independent with mean 1, even if
    stacked layers share them. It costs as much as a loop over steps.
    """

    def carry(units: Units, step: int) -> Units:
        return tuple(_scale_gradient(unit, scale[:, step, None]) for unit in units)

    return rnn.unroll(inputs, units, carry)


def _scale_gradient(unit: Tensor, scale: Tensor) -> Tensor:
    """Return a view of a state; gradients through the view are scaled, other gradients of the state are not."""
    unit = unit.view_as(unit)
    if unit.requires_grad:
        unit.register_hook(lambda gradient: gradient * scale.to(gradient.dtype))  # type: ignore[no-untyped-call]
    return unit


@torch.no_grad()
def _states(layer: Layer, projected: Tensor, units: Units) -> tuple[Units, Units]:
    """Return the states [T, N, H] before each step on `projected` [T, N, G H], and the final state."""
    before = []
    for step in projected.unbind(0):
        before.append(units)
        units = layer(step, units)
    return tuple(torch.stack(parts) for parts in zip(*before, strict=True)), units


class _TruncatedGradient(Function):
    """Returns the states [T, N, H] after each step; in the backward pass, gradients travel `tau` steps."""

    @staticmethod
    def forward(ctx: Any, tau: int, before: Sequence[Tensor], *after: Tensor) -> tuple[Tensor, ...]:
        ctx.tau, ctx.kinds = tau, len(after)
        ctx.save_for_backward(*before, *after)
        return tuple(unit.view_as(unit) for unit in after)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        before, after = ctx.saved_tensors[: ctx.kinds], ctx.saved_tensors[ctx.kinds :]
        travelling, total = list(gradients), list(gradients)
        for _ in range(ctx.tau):
            previous = torch.autograd.grad(after, before, travelling, retain_graph=True)
            travelling = [torch.cat([gradient[1:], torch.zeros_like(gradient[:1])]) for gradient in previous]
            total = [sum_ + gradient for sum_, gradient in zip(total, travelling, strict=True)]
        return None, None, *total
