"""Contracts of models and decoders on an accelerator: a GPU if available, else a simulated GPU."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from copy import deepcopy
from dataclasses import replace

import torch
from torch import Tensor

from bench_authors.testing.cases import Case, can
from bench_authors.testing.contracts import assert_close, catches, check, contracts_of, margin
from bench_authors.testing.mutants import accelerators as mutants
from bench_authors.testing.pretended import Pretended, synchronisations, undeclared
from bench_core import Hypothesis, Loss, Sampler, Scorer, SuiteError, Vmappable
from bench_core.model import Training
from bench_training.api import Stack, stacked

MAX_TOKENS = 3  #: token limit of samples


@contextmanager
def accelerator() -> Iterator[str]:
    """Yield the name of a real or simulated accelerator; failures in the block raise AssertionError."""
    try:
        with nullcontext() if torch.cuda.is_available() else Pretended():
            yield "cuda"
    except (RuntimeError, TypeError) as error:
        raise AssertionError(f"on an accelerator: {type(error).__name__}: {error}") from error


@contextmanager
def simulated_gpu() -> Iterator[None]:
    """Simulate a GPU even if a real GPU is available, because only the simulation records waits."""
    with nullcontext() if Pretended.is_active else Pretended():
        yield


def check_on_accelerator(case: Case) -> list[str]:
    """Test the accelerator contracts that apply to the model of `case`, and to its decoder if it has one."""
    decoding = DECODERS_ON_ACCELERATORS if case.decoder is not None else ()
    return check([*MODELS_ON_ACCELERATORS, *decoding], case)


@catches(*mutants.COMPUTING_ON_THE_CPU, mutants.keeps_a_tensor_that_does_not_move)
def it_loses_on_an_accelerator_what_it_loses_on_the_cpu(case: Case) -> None:
    """Compare loss and gradients in evaluation mode; in training mode, only compute them."""
    with accelerator() as device:
        there = moved(case, device)
        actual, expected = (_loss_and_gradients(each, training=False) for each in (there, case))
        assert {*actual} == {*expected}, f"gradients of {sorted({*actual} ^ {*expected})} exist on one device only"
        for name, value in expected.items():
            assert_close(actual[name].cpu(), value.cpu(), f"{name} on an accelerator")
        for each in (there, case):
            _loss_and_gradients(each, training=True)  # dropout uses another generator there


@catches(mutants.sets_up_on_the_cpu, mutants.fills_with_numbers_of_the_cpu)
def it_is_set_up_on_an_accelerator(case: Case) -> None:
    """Move weights before `setup`, which must leave all tensors on the device; the loss must be finite."""
    with accelerator() as device:
        try:
            other = Case.of(case.config, info=case.info, batch=case.batch, device=device)
        except SuiteError:
            return  # synthetic data does not suit the model on any device
        for name, tensor in (*other.model.named_parameters(), *other.model.named_buffers()):
            assert tensor.device.type == device, f"`setup` left {name!r} on {tensor.device}"
        assert other.loss().value.isfinite(), "the loss of a model that is set up on an accelerator is not finite"


@catches(*mutants.WAITING)
def an_update_does_not_wait_for_an_accelerator(case: Case) -> None:
    """Check that loss and gradient do not wait for the device, unless `waits_for_device` declares the reason."""
    with simulated_gpu(), torch.enable_grad():
        there = moved(case, "cuda")
        there.model.train()
        for _ in range(2):  # the first update may copy constants
            there.model.zero_grad()
            with synchronisations() as recorded:
                loss = there.loss()
                _backward(loss)
        waits = [str(wait) for wait in undeclared(recorded)]
        assert not waits, (
            f"an update waits {len(waits)} times for the accelerator, first at {waits[0]}. Compute the "
            "value from `batch.on_host`, or declare the reason with `waits_for_device`"
        )


@catches(mutants.scores_places_on_the_cpu, when=can(Scorer))
def it_scores_on_an_accelerator_as_on_the_cpu(case: Case) -> None:
    """Compare scores for every likelihood."""
    with accelerator() as device:
        there = moved(case, device)
        for by in case.config.likelihoods:
            assert_close(there.scored(by).cpu(), case.scored(by).cpu(), f"{by} on an accelerator")


@catches(mutants.samples_with_numbers_of_the_cpu, when=can(Sampler))
def it_samples_on_an_accelerator_as_on_the_cpu(case: Case) -> None:
    """Compare samples, whose randomness must depend on the ids of examples."""
    with accelerator() as device:
        there = moved(case, device)
        samples = there.model.sample(there.batch, MAX_TOKENS, there.rng)
    _assert_same_outputs(samples, case.model.sample(case.batch, MAX_TOKENS, case.rng))


@catches(mutants.COMPUTING_ON_THE_CPU[0], when=can(Vmappable))
def copies_in_a_stack_learn_on_an_accelerator(case: Case) -> None:
    """Compare the losses of a stack of copies on an accelerator with its losses on the CPU."""
    values = []
    training = Training(0, 100, 0, 1, case.rng)
    keys = [case.rng.key, case.rng.fork("other").key]
    with accelerator() as device:
        for each in (moved(case, device), case):
            copies = (each.model, deepcopy(each.model))
            losses = Stack(copies).losses(stacked([each.batch, each.batch]), training, keys)
            values.append(losses.value.detach().cpu())
    assert_close(values[0], values[1], "losses of copies in a stack on an accelerator")


MODELS_ON_ACCELERATORS = contracts_of(globals())


@catches(mutants.decodes_with_places_on_the_cpu)
def it_decodes_on_an_accelerator_as_on_the_cpu(case: Case) -> None:
    """Compare tokens and log-probabilities of outputs."""
    with accelerator() as device:
        outputs = moved(case, device).decoded()
    for actual, expected in zip(outputs, case.decoded(), strict=True):
        _assert_same_outputs(actual, expected)


DECODERS_ON_ACCELERATORS = (it_decodes_on_an_accelerator_as_on_the_cpu,)


def moved(case: Case, device: str) -> Case:
    """Return a case with its batch and a copy of its model on a device."""
    return replace(case, model=deepcopy(case.model).to(device), batch=case.batch.to(device))


def _loss_and_gradients(case: Case, training: bool) -> dict[str, Tensor]:
    """Return loss and gradients of a copy of the model by name; some cuDNN gradients need training mode."""
    model = deepcopy(case.model).train(training)
    with torch.enable_grad(), _cudnn(training):
        loss = replace(case, model=model).loss()
        _backward(loss)
    known = ((name, weights.grad) for name, weights in model.named_parameters() if weights.grad is not None)
    gradients = {f"gradient of {name}": gradient.to_dense() for name, gradient in known}
    return {"loss": loss.value.detach(), "weight": loss.weight.double(), **gradients}


@contextmanager
def _cudnn(enabled: bool) -> Iterator[None]:
    """Enable or disable cuDNN in the block."""
    before = torch.backends.cudnn.enabled
    torch.backends.cudnn.enabled = enabled
    try:
        yield
    finally:
        torch.backends.cudnn.enabled = before


def _backward(loss: Loss) -> None:
    if loss.value.requires_grad:
        torch.autograd.backward(loss.value)


def _assert_same_outputs(actual: list[Hypothesis], expected: list[Hypothesis]) -> None:
    for there, here in zip(actual, expected, strict=True):
        assert there.tokens == here.tokens, f"{there.tokens} on an accelerator, but {here.tokens} on the CPU"
        if there.log_prob is not None and here.log_prob is not None:
            is_same = abs(there.log_prob - here.log_prob) <= margin(here.log_prob)
            assert is_same, f"{there} on an accelerator, but {here} on the CPU"
