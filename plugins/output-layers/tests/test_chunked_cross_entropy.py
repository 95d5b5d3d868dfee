"""Chunked cross-entropy: the values and gradients of torch's, without its memory."""

import pytest
import torch
from torch.nn.functional import cross_entropy, linear

from bench_core import Batch, Rng, State, Training
from bench_output_layers import cross_entropy as module
from bench_output_layers.cross_entropy import chunked_cross_entropy
from bench_output_layers.layer import FullSoftmax


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch):
    monkeypatch.setattr(module, "CHUNK_LOGITS", 40)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        yield


def operands(rows, tokens, dtype=torch.float64):
    hidden, weight, bias = (torch.randn(*shape, dtype=dtype) for shape in ((rows, 6), (tokens, 6), (tokens,)))
    return [each.requires_grad_() for each in (3 * hidden, weight, bias)], torch.arange(rows) * 7 % max(tokens, 1)


def value_and_gradients(costs_of, numbers, gold, factors):
    """Return the costs, and the gradients of their sum with `factors`."""
    costs = costs_of(*numbers, gold)
    return [costs, *torch.autograd.grad((factors * costs).sum(), numbers)]


def plain(smoothing):
    return lambda hidden, weight, bias, gold: cross_entropy(
        linear(hidden, weight, bias), gold, reduction="none", label_smoothing=smoothing
    )


def chunked(smoothing):
    return lambda *numbers: chunked_cross_entropy(*numbers, smoothing)


@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 1e-5), (torch.bfloat16, 0.1)]
)
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize(("rows", "tokens"), [(8, 53), (50, 13), (1, 1), (0, 5), (8, 5)])
def test_costs_and_gradients_equal_those_of_torch(rows, tokens, smoothing, dtype, tolerance):
    numbers, gold = operands(rows, tokens, dtype)
    factors = torch.linspace(-1, 2, rows, dtype=dtype)  # negative and zero factors included
    wanted = value_and_gradients(plain(smoothing), numbers, gold, factors)
    for ours, torchs in zip(value_and_gradients(chunked(smoothing), numbers, gold, factors), wanted, strict=True):
        torch.testing.assert_close(ours.to(dtype), torchs, atol=tolerance, rtol=tolerance)


def test_gradients_equal_finite_differences():
    numbers, gold = operands(4, 23)
    assert torch.autograd.gradcheck(lambda *given: chunked_cross_entropy(*given, gold, 0.2), numbers)


@pytest.mark.parametrize("outer", [False, True], ids=["backward outside", "backward inside"])
def test_autocast_has_the_precision_of_torchs(outer):
    numbers, gold = operands(8, 53, torch.float32)
    factors = torch.ones(8)

    def under_autocast(costs_of):
        if outer:
            with torch.autocast("cpu", torch.bfloat16):
                return value_and_gradients(costs_of, numbers, gold, factors)
        with torch.autocast("cpu", torch.bfloat16):
            costs = costs_of(*numbers, gold)
        return [costs, *torch.autograd.grad(costs.sum(), numbers)]

    exact = value_and_gradients(plain(0), numbers, gold, factors)
    ours, torchs = under_autocast(chunked(0)), under_autocast(plain(0))
    for name, one, other, wanted in zip(("costs", "hidden", "weight", "bias"), ours, torchs, exact, strict=True):
        assert one.dtype == other.dtype == torch.float32, name
        errors = [(value - wanted).norm() / wanted.norm() for value in (one, other)]
        assert 0 < errors[0] < 2 * errors[1] + 1e-3, name


def test_no_tensor_holds_all_logits(monkeypatch):
    widths = []

    class Recorder(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            result = function(*args, **(kwargs or {}))
            widths.append(result.numel() if isinstance(result, torch.Tensor) else 0)
            return result

    numbers, gold = operands(8, 1000)
    with Recorder():
        value_and_gradients(chunked(0), numbers, gold, torch.ones(8, dtype=torch.float64))
    assert max(widths) == numbers[1].numel()
    with Recorder():
        value_and_gradients(plain(0), numbers, gold, torch.ones(8, dtype=torch.float64))
    assert max(widths) == 8 * 1000


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_a_large_full_softmax_is_chunked_in_training_alone(smoothing, monkeypatch):
    calls = []

    def note(*given):
        calls.append(len(given))
        return chunked_cross_entropy(*given)

    monkeypatch.setattr("bench_output_layers.layer.chunked_cross_entropy", note)
    head, hidden, gold = FullSoftmax(6, 53), torch.randn(2, 4, 6), torch.arange(8).view(2, 4)
    batch = Batch(torch.arange(2), gold[:, :1], gold, torch.tensor([4, 3]))
    training = Training(0, 1, 0, 1, Rng(1), label_smoothing=smoothing)
    whole = head.loss(hidden, batch, State(), training)[0]
    assert not calls
    monkeypatch.setattr("bench_output_layers.layer.LOGITS", 7 * 53 - 1)
    torch.testing.assert_close(head.loss(hidden, batch, State(), training)[0], whole)
    assert len(calls) == 1
    head.eval().loss(hidden, batch, State(), training)
    head.score(hidden, batch, State(), "exact")
    assert len(calls) == 1
