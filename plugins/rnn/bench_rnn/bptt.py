"""Truncated and full back-propagation through time (RNN notes, section 4).

A recurrent step hands the units of all layers over from one time to the next, so that each path of the gradient from
the loss at step i to the use of a parameter at step t takes i - t of them, whatever the cell and the depth. Values
are never changed, and nothing reaches back beyond the inputs: what one window leaves for the next is a constant.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from bench_core import Noise
from bench_rnn.cells import Layer, Recurrent, Units, between, stack, together
from bench_rnn.settings import Detach, Full, Randomized, Truncated


def through_time(
    rnn: Recurrent,
    inputs: Tensor,
    units: Units | None,
    bptt: Full | Truncated | Detach | Randomized,
    ids: Tensor,
    noise: Noise,
) -> tuple[Tensor, Units]:
    """Do as `rnn` does with inputs [N, T, E], with gradients that travel as `bptt` says.

    What is random is drawn for each row, by its id [N], and for each step.
    """
    steps = inputs.shape[1]
    match bptt:
        case Truncated(tau=tau) if tau < steps - 1:
            return truncated(rnn, inputs, units, tau)
        case Detach(tau=tau):
            return detached(rnn, inputs, units, tau)
        case Randomized(pi=pi) if pi < 1:
            passes = noise.fork("bptt").uniform(ids, 0, steps) < pi
            return randomized(rnn, inputs, units, passes.to(inputs.dtype) / pi)
    return rnn(inputs, units)  # type: ignore[no-any-return]


def truncated(rnn: Recurrent, inputs: Tensor, units: Units | None, tau: int) -> tuple[Tensor, Units]:
    """Keep the terms that travel at most `tau` steps: dL/dh_t = sum over j <= tau of (W_hh^T)^j W_qh^T g_{t+j}.

    The units before every step are found first, without a graph. Then all steps are taken once more, from these, side
    by side: a graph one step deep. On the way back, the gradient of the units before a step is passed on as that of
    the units after the step before, `tau` times for all steps at once; the sum of what comes goes to the parameters
    in one go. So besides the usual work this costs one more pass forwards and `tau` products of T times N rows with
    the recurrent matrices, in the memory of a single pass.
    """
    data = inputs.transpose(0, 1)  # [T, N, E], and so below
    before: list[Tensor] = []
    after: list[Tensor] = []
    last: list[Units] = []
    for number, (layer, begin) in enumerate(zip(stack(rnn.layers, rnn.step), rnn.begin(inputs, units), strict=True)):
        read = layer.read(between(rnn.layers, number, data))
        here, end = _states(layer, read.detach(), begin)
        here = tuple(unit.requires_grad_(tau > 0) for unit in here)
        now = layer(read, here)
        data = now[0]
        before += here
        after += now
        last.append(end)
    if tau:
        data = _Travel.apply(tau, before, *after)[-len(now)]  # type: ignore[no-untyped-call]
    return data.transpose(0, 1), together(last)


def detached(rnn: Recurrent, inputs: Tensor, units: Units | None, tau: int) -> tuple[Tensor, Units]:
    """Cut the gradient between pieces of `tau` steps, so that it depends on a step's place how far it travels."""
    hidden = []
    for piece in torch.split(inputs, tau, 1):
        top, units = rnn(piece, units and tuple(unit.detach() for unit in units))
        hidden.append(top)
    assert units is not None
    return torch.cat(hidden, 1), units


def randomized(rnn: Recurrent, inputs: Tensor, units: Units | None, scale: Tensor) -> tuple[Tensor, Units]:
    """Multiply the gradient that travels from step t to step t - 1 by scale [N, T]; that of the first goes nowhere.

    Each path crosses each step once, so if scales are independent and 1 on average the gradient is right on average,
    and the layers of a stack may share them. Costs as much as a loop over steps.
    """

    def hand_over(units: Units, step: int) -> Units:
        return tuple(_scaled(unit, scale[:, step, None]) for unit in units)

    return rnn.unroll(inputs, units, hand_over)


def _scaled(unit: Tensor, scale: Tensor) -> Tensor:
    """Return the same units with another gradient; a view, so that what else it is used for keeps its own."""
    unit = unit.view_as(unit)
    if unit.requires_grad:
        unit.register_hook(lambda gradient: gradient * scale.to(gradient.dtype))  # type: ignore[no-untyped-call]
    return unit


@torch.no_grad()
def _states(layer: Layer, read: Tensor, units: Units) -> tuple[Units, Units]:
    """Return the units [T, N, H] before each step that reads `read` [T, N, G H], and those after the last."""
    before = []
    for one in read.unbind(0):
        before.append(units)
        units = layer(one, units)
    return tuple(torch.stack(parts) for parts in zip(*before, strict=True)), units


class _Travel(Function):
    """Passes on units [T, N, H] after each step and, on their way back, lets gradients travel `tau` steps."""

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
            found = torch.autograd.grad(after, before, travelling, retain_graph=True)
            travelling = [torch.cat([one[1:], torch.zeros_like(one[:1])]) for one in found]
            total = [sum_ + one for sum_, one in zip(total, travelling, strict=True)]
        return None, None, *total
