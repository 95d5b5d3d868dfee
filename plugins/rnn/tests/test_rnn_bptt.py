"""Back-propagation through time against the closed forms of the RNN notes (sections 4 and 6.4), in float64."""

from dataclasses import replace
from itertools import product
from math import prod

import pytest
import torch
from pydantic import TypeAdapter, ValidationError

from bench_core import Batch, Rng, TaskInfo, Training
from bench_rnn.bptt import detached, randomized, through_time, truncated
from bench_rnn.cells import Recurrent, pass_unchanged
from bench_rnn.plugin import RNNLMConfig
from bench_rnn.settings import BPTT

KINDS = [("tanh", "torch"), ("relu", "torch"), ("identity", "torch"), ("gru", "torch"), ("gru", "notes")]
KINDS += [("lstm", "torch")]
STRATEGIES = [
    "full",
    {"kind": "truncated", "tau": 0},
    {"kind": "truncated", "tau": 2},
    {"kind": "detach", "tau": 2},
    {"kind": "randomized", "pi": 0.5},
]
RNG = Rng(5)
STEPS = 5


@pytest.fixture(autouse=True)
def _double():
    torch.manual_seed(3)
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def strategy(value):
    return TypeAdapter(BPTT).validate_python(value)


def linear_rnn(inputs=3, hidden=4):
    """Return h_t = W_hx x_t + W_hh h_{t-1}, as in the notes without biases."""
    rnn = Recurrent("identity", inputs, hidden, 1, 0.0)
    for bias in (rnn.layers.bias_ih_l0, rnn.layers.bias_hh_l0):
        torch.nn.init.zeros_(bias)
    return rnn


def scalar():
    """Return the example of section 6.4, whose dL/dx_t is dL/dh_t: W_hx = 1, W_hh = 2."""
    rnn = linear_rnn(1, 1)
    torch.nn.init.constant_(rnn.layers.weight_ih_l0, 1.0)
    torch.nn.init.constant_(rnn.layers.weight_hh_l0, 2.0)
    return rnn, torch.ones(1, 3, 1, requires_grad=True)


def gradients(rnn, value, *more):
    """Return the gradients of a value by all weights and by `more`."""
    return torch.autograd.grad(value, [*rnn.parameters(), *more])


def predictions(pi, steps):
    """Yield each prediction of xi for the hand-overs to steps 2 to T [1, T], and its probability."""
    for taken in product([True, False], repeat=steps - 1):
        xi = torch.tensor([[1.0, *(one / pi for one in taken)]])
        yield xi, prod(pi if one else 1 - pi for one in taken)


@pytest.mark.parametrize(
    ("bptt", "expected"),
    [
        ("full", [7, 3, 1]),
        ({"kind": "full"}, [7, 3, 1]),
        ({"kind": "truncated", "tau": 0}, [1, 1, 1]),
        ({"kind": "truncated", "tau": 1}, [3, 3, 1]),
        ({"kind": "truncated", "tau": 2}, [7, 3, 1]),
        ({"kind": "truncated", "tau": 9}, [7, 3, 1]),
        ({"kind": "detach", "tau": 1}, [1, 1, 1]),
        ({"kind": "detach", "tau": 2}, [3, 1, 1]),
        ({"kind": "detach", "tau": 3}, [7, 3, 1]),
        ({"kind": "randomized", "pi": 1}, [7, 3, 1]),
    ],
)
def test_the_example_of_the_notes_gives_its_numbers(bptt, expected):
    rnn, inputs = scalar()
    hidden, _ = through_time(rnn, inputs, None, strategy(bptt), torch.arange(1), RNG)
    assert torch.autograd.grad(hidden.sum(), inputs)[0].flatten().tolist() == expected


def test_the_randomized_example_has_the_notes_mean_and_variance():
    rnn, inputs = scalar()
    mean, square = torch.zeros(3), torch.zeros(3)
    for xi, probability in predictions(0.5, 3):
        hidden, _ = randomized(rnn, inputs, None, xi)
        found = torch.autograd.grad(hidden.sum(), inputs)[0].flatten()
        mean, square = mean + probability * found, square + probability * found**2
    assert mean.tolist() == [7, 3, 1]
    assert (square - mean**2).tolist() == [68, 4, 0]


def closed_form(rnn, inputs, targets, out, travels):
    """Return dL/dW_qh, dL/dW_hx and dL/dW_hh of L = 1/T sum of |o_t - y_t|^2 / 2 by the sums of the notes.

    `travels(i, t)` is the factor of the term that goes from step i back to step t.
    """
    w_hx, w_hh = rnn.layers.weight_ih_l0.detach(), rnn.layers.weight_hh_l0.detach()
    steps, states = len(inputs), [torch.zeros(len(w_hh))]
    for x in inputs:
        states.append(w_hx @ x + w_hh @ states[-1])
    before, after = states[:-1], states[1:]
    by_output = [(out @ h - y) / steps for h, y in zip(after, targets, strict=True)]
    by_state = [
        sum(travels(i, t) * torch.linalg.matrix_power(w_hh.T, i - t) @ out.T @ by_output[i] for i in range(t, steps))
        for t in range(steps)
    ]
    return tuple(
        sum(torch.outer(one, other) for one, other in zip(ones, others, strict=True))
        for ones, others in [(by_output, after), (by_state, inputs), (by_state, before)]
    )


def found_by(rnn, hidden, targets, out):
    loss = ((hidden[0] @ out.T - targets) ** 2).sum() / 2 / len(targets)
    weights = [out, rnn.layers.weight_ih_l0, rnn.layers.weight_hh_l0]
    return torch.autograd.grad(loss, weights)


@pytest.mark.parametrize("tau", [*range(STEPS), None])
def test_truncated_gradients_are_the_closed_forms(tau):
    rnn, inputs, targets = linear_rnn(), torch.randn(STEPS, 3), torch.randn(STEPS, 2)
    out = torch.randn(2, 4, requires_grad=True)
    bptt = strategy("full" if tau is None else {"kind": "truncated", "tau": tau})
    hidden, _ = through_time(rnn, inputs[None], None, bptt, torch.arange(1), RNG)
    expected = closed_form(rnn, inputs, targets, out.detach(), lambda i, t: tau is None or i - t <= tau)
    torch.testing.assert_close(found_by(rnn, hidden, targets, out), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("tau", range(1, STEPS + 1))
def test_detached_gradients_are_the_closed_forms_within_pieces(tau):
    rnn, inputs, targets = linear_rnn(), torch.randn(STEPS, 3), torch.randn(STEPS, 2)
    out = torch.randn(2, 4, requires_grad=True)
    hidden, _ = detached(rnn, inputs[None], None, tau)
    expected = closed_form(rnn, inputs, targets, out.detach(), lambda i, t: i // tau == t // tau)
    torch.testing.assert_close(found_by(rnn, hidden, targets, out), expected, rtol=1e-12, atol=1e-12)


def test_a_randomized_gradient_is_the_recursion_of_the_notes():
    rnn, inputs, targets = linear_rnn(), torch.randn(STEPS, 3), torch.randn(STEPS, 2)
    out, xi = torch.randn(2, 4, requires_grad=True), torch.rand(1, STEPS)
    hidden, _ = randomized(rnn, inputs[None], None, xi)
    expected = closed_form(rnn, inputs, targets, out.detach(), lambda i, t: xi[0, t + 1 : i + 1].prod())
    torch.testing.assert_close(found_by(rnn, hidden, targets, out), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("cell", "variant"), KINDS)
def test_the_full_gradient_is_that_of_finite_differences(cell, variant):
    rnn, inputs = Recurrent(cell, 2, 2, 2, 0.0, variant), torch.randn(2, 4, 2, requires_grad=True)
    bptt = strategy("full")
    weights = [inputs, *rnn.parameters()]
    assert torch.autograd.gradcheck(
        lambda *_: through_time(rnn, inputs, None, bptt, torch.arange(2), RNG)[0], weights, atol=1e-6
    )


@pytest.mark.parametrize(("cell", "variant"), KINDS)
@pytest.mark.parametrize("pi", [0.3, 0.5])
def test_the_expected_randomized_gradient_is_the_full_one(cell, variant, pi):
    rnn, inputs = Recurrent(cell, 3, 4, 2, 0.0, variant), torch.randn(1, STEPS, 3, requires_grad=True)
    weights = torch.randn(STEPS, 4)
    expected = gradients(rnn, (rnn(inputs)[0] * weights).sum(), inputs)
    mean = [torch.zeros_like(one) for one in expected]
    for xi, probability in predictions(pi, STEPS):
        value = (randomized(rnn, inputs, None, xi)[0] * weights).sum()
        mean = [so_far + probability * one for so_far, one in zip(mean, gradients(rnn, value, inputs), strict=True)]
    torch.testing.assert_close(mean, [*expected], rtol=1e-10, atol=1e-10)


def summed(rnn, inputs, units, weights, first):
    """Return the gradients of sum_i w_i . h_i, term by term, step i read from the state before step `first(i)` on."""
    total = None
    for step in range(inputs.shape[1]):
        begin = first(step)
        before = units if begin == 0 else rnn(inputs[:, :begin], units)[1]
        hidden, _ = rnn(inputs[:, begin : step + 1], tuple(unit.detach() for unit in before))
        found = gradients(rnn, (hidden[:, -1] * weights[:, step]).sum(), inputs)
        total = found if total is None else [one + other for one, other in zip(total, found, strict=True)]
    return [*total]


@pytest.mark.parametrize(("cell", "variant"), KINDS)
@pytest.mark.parametrize("tau", [0, 1, 3])
@pytest.mark.parametrize("kind", ["truncated", "detach"])
def test_each_loss_of_a_stack_reaches_as_far_back_as_it_may(cell, variant, tau, kind):
    rnn, inputs = Recurrent(cell, 3, 4, 3, 0.0, variant), torch.randn(2, 6, 3, requires_grad=True)
    units = tuple(torch.randn(2, 3, 4) for _ in range(1 + (cell == "lstm")))
    weights = torch.randn(2, 6, 4)
    tau = tau + (kind == "detach")
    bptt = strategy({"kind": kind, "tau": tau})
    hidden, last = through_time(rnn, inputs, units, bptt, torch.arange(2), RNG)
    first = {"truncated": lambda step: max(0, step - tau), "detach": lambda step: step - step % tau}[kind]
    expected = summed(rnn, inputs, units, weights, first)
    found = gradients(rnn, (hidden * weights).sum(), inputs)
    torch.testing.assert_close([*found], expected, rtol=1e-10, atol=1e-10)
    assert tau < 2 or not torch.allclose(found[1], summed(rnn, inputs, units, weights, lambda step: 0)[1])
    torch.testing.assert_close((hidden, last), rnn(inputs, units))


@pytest.mark.parametrize(("cell", "variant"), KINDS)
def test_a_step_of_ours_is_that_of_the_layers(cell, variant):
    rnn, inputs = Recurrent(cell, 3, 4, 2, 0.0, variant), torch.randn(5, 6, 3, requires_grad=True)
    units, weights = tuple(torch.randn(5, 2, 4) for _ in range(1 + (cell == "lstm"))), torch.randn(5, 6, 4)
    ours, theirs = rnn.unroll(inputs, units, pass_unchanged), rnn(inputs, units)
    torch.testing.assert_close(ours, theirs)
    one, other = (gradients(rnn, (hidden * weights).sum(), inputs) for hidden, _ in (ours, theirs))
    torch.testing.assert_close(one, other)


def test_all_passes_of_a_truncated_update_drop_the_same_units():
    rnn, inputs, weights = Recurrent("lstm", 3, 4, 3, 0.5), torch.randn(2, 6, 3, requires_grad=True), torch.randn(4)
    found = []
    for run in (lambda: truncated(rnn, inputs, None, 5), lambda: rnn.unroll(inputs, None, pass_unchanged)):
        torch.manual_seed(9)
        hidden, last = run()
        found.append([hidden, *last, *gradients(rnn, (hidden * weights).sum(), inputs)])
    torch.testing.assert_close(*found)
    assert not torch.allclose(found[0][0], rnn.eval()(inputs)[0])


def test_a_truncated_update_walks_back_tau_times_and_no_more(monkeypatch):
    rnn, inputs, calls = Recurrent("gru", 3, 4, 2, 0.0), torch.randn(2, 30, 3), []
    grad = torch.autograd.grad
    monkeypatch.setattr(torch.autograd, "grad", lambda *given, **more: calls.append(1) or grad(*given, **more))
    truncated(rnn, inputs, None, 3)[0].sum().backward()
    assert len(calls) == 3


def model(bptt="full", **settings):
    torch.manual_seed(1)
    config = RNNLMConfig(**{"hidden": 5, "layers": 2, "bptt": bptt} | settings)
    return config.load()(config, TaskInfo(["</s>", *"abcdef"]))


def batch():
    gold = torch.tensor([[3, 1, 4, 1, 5, 0], [2, 6, 0, 0, 0, 0], [5, 3, 5, 0, 0, 0]])
    prompt = torch.tensor([[0, 2, 1], [0, 1, 1], [0, 6, 2]])
    return Batch(torch.tensor([7, 3, 12]), prompt, gold, torch.tensor([6, 3, 4]))


def training(step):
    return Training(step=step, steps=10, epoch=0, epochs=1, rng=RNG.fork(step))


@pytest.mark.parametrize("bptt", STRATEGIES)
def test_no_strategy_changes_the_loss_or_what_is_left_for_the_next_window(bptt):
    plain, found = (model(kind, cell="lstm").loss(batch(), training(0)) for kind in ("full", bptt))
    torch.testing.assert_close(found.value, plain.value)
    torch.testing.assert_close(found.memory.past, plain.memory.past)


@pytest.mark.parametrize("bptt", STRATEGIES[1:])
def test_every_strategy_reaches_all_weights_of_a_model_and_differs_from_the_whole(bptt):
    full, part = (gradients(lm, lm.loss(batch(), training(0)).value) for lm in (model(), model(bptt)))
    assert all(one.any() for one in part if one.dim() > 1)
    assert not torch.allclose(full[1], part[1])
    torch.testing.assert_close(part[-2:], full[-2:])  # the output layer's own are the same


@pytest.mark.slow
def test_the_randomized_gradient_is_right_on_average():
    rows, plain = batch(), model()
    full = gradients(plain, plain.loss(rows, training(0)).value)
    directions = [[torch.randn_like(one) for one in full] for _ in range(5)]
    lm, draws = model({"kind": "randomized", "pi": 0.5}), []
    for step in range(200):
        found = gradients(lm, lm.loss(rows, training(step)).value)
        draws.append([sum((a * b).sum() for a, b in zip(found, one, strict=True)) for one in directions])
    draws = torch.tensor(draws)  # [200, 5]
    expected = torch.tensor([sum((a * b).sum() for a, b in zip(full, one, strict=True)) for one in directions])
    errors = draws.std(0) / len(draws) ** 0.5
    assert (errors > 0).all()
    assert ((draws.mean(0) - expected).abs() < 4 * errors).all()


def test_a_smaller_pi_is_noisier():
    def spread(pi):
        lm = model({"kind": "randomized", "pi": pi})
        draws = [gradients(lm, lm.loss(batch(), training(step)).value)[2] for step in range(40)]
        return torch.stack(draws).var(0).sum()

    assert spread(0.3) > 2 * spread(0.8) > 0


def test_what_is_drawn_comes_from_the_noise_of_training_row_by_row():
    lm, rows = model({"kind": "randomized", "pi": 0.5}), batch()

    def found(rows, step=0):
        return gradients(lm, lm.loss(rows, training(step)).value)[2]

    once = found(rows)
    torch.manual_seed(77)
    assert torch.equal(found(rows), once)
    assert not torch.allclose(found(rows, 1), once)
    alone = [found(rows.select(torch.tensor([row]))) * rows.length[row] for row in range(3)]
    torch.testing.assert_close(sum(alone) / 13, once)
    others = replace(rows, ids=rows.ids + 1)
    assert not torch.allclose(found(others), once)


@pytest.mark.parametrize(
    ("bptt", "message"),
    [
        ({"kind": "randomized", "pi": 0}, r"`pi` must be a probability above 0, .*input_value=0"),
        ({"kind": "randomized", "pi": 1.5}, r"`pi` must be a probability .* at most 1.*input_value=1.5"),
        ({"kind": "truncated", "tau": -1}, r"`tau` must be a number of recurrent steps, at least 0.*input_value=-1"),
        ({"kind": "detach", "tau": 0}, r"`tau` must be a number of recurrent steps, at least 1.*input_value=0"),
        ("truncated", "tau\n.*required"),
        ({"kind": "truncated", "tau": 2, "pi": 0.5}, "pi\n.*not permitted"),
        ("sometimes", "'full', 'truncated', 'detach', 'randomized'"),
    ],
)
def test_settings_that_mean_nothing_are_refused(bptt, message):
    with pytest.raises(ValidationError, match=message):
        RNNLMConfig(bptt=bptt)
