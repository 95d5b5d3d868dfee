"""Contracts of models and decoders on an accelerator: a GPU if there is one, else a pretended one."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from copy import deepcopy
from dataclasses import replace

import torch
from torch import Tensor

from bench_authors.testing.cases import Case, can
from bench_authors.testing.contracts import catches, check, close, contracts_of, margin
from bench_authors.testing.mutants import accelerators as mutants
from bench_authors.testing.pretended import Pretended, synchronisations, undeclared
from bench_core import Hypothesis, Loss, Sampler, Scorer, SuiteError, Vmappable
from bench_core.model import Training
from bench_training.api import Stack, stacked

STEPS = 3  #: of a sample


@contextmanager
def accelerator() -> Iterator[str]:
    """Yield an accelerator, a pretended one where there is no other; what fails there breaks a contract."""
    try:
        with nullcontext() if torch.cuda.is_available() else Pretended():
            yield "cuda"
    except (RuntimeError, TypeError) as error:
        raise AssertionError(f"on an accelerator: {type(error).__name__}: {error}") from error


@contextmanager
def pretended() -> Iterator[None]:
    """Let there be a pretended GPU, whether there is another or not: it alone tells what waits for it."""
    with nullcontext() if Pretended.is_here else Pretended():
        yield


def check_on_accelerator(case: Case) -> list[str]:
    """Try the contracts about accelerators that apply to a model, and to its decoder if there is one."""
    decoding = DECODERS_ON_ACCELERATORS if case.decoder is not None else ()
    return check([*MODELS_ON_ACCELERATORS, *decoding], case)


@catches(*mutants.COMPUTING_ON_THE_CPU, mutants.keeps_a_tensor_that_does_not_move)
def it_loses_on_an_accelerator_what_it_loses_on_the_cpu(case: Case) -> None:
    """In evaluation mode, with the same gradients; in training it computes there too."""
    with accelerator() as device:
        there = moved(case, device)
        found, wanted = (_learnt(one, training=False) for one in (there, case))
        assert {*found} == {*wanted}, f"gradients of {sorted({*found} ^ {*wanted})} are on one device alone"
        for name, value in wanted.items():
            close(found[name].cpu(), value.cpu(), f"{name} on an accelerator")
        for one in (there, case):
            _learnt(one, training=True)  # where dropout is drawn by another generator


@catches(mutants.sets_up_on_the_cpu, mutants.fills_with_numbers_of_the_cpu)
def it_is_set_up_on_an_accelerator(case: Case) -> None:
    """Its weights are moved before `setup`, which leaves all of them there, and the loss finite."""
    with accelerator() as device:
        try:
            other = Case.of(case.config, info=case.info, batch=case.batch, device=device)
        except SuiteError:
            return  # what is invented suits it on no device
        for name, tensor in (*other.model.named_parameters(), *other.model.named_buffers()):
            assert tensor.device.type == device, f"`setup` left {name!r} on {tensor.device}"
        assert other.loss().value.isfinite(), "a model that is set up on an accelerator has no finite loss"


@catches(*mutants.WAITING)
def an_update_does_not_wait_for_an_accelerator(case: Case) -> None:
    """Neither loss nor gradient, except where `waits_for_device` says why."""
    with pretended(), torch.enable_grad():
        there = moved(case, "cuda")
        there.model.train()
        for _ in range(2):  # the first one may copy what is fixed
            there.model.zero_grad()
            with synchronisations() as found:
                loss = there.loss()
                _backward(loss)
        waits = [str(one) for one in undeclared(found)]
        assert not waits, (
            f"an update waits {len(waits)} times for the accelerator; the first: {waits[0]}. Compute it of "
            "`batch.on_host`, or say why by `waits_for_device`"
        )


@catches(mutants.scores_places_on_the_cpu, when=can(Scorer))
def it_scores_on_an_accelerator_as_on_the_cpu(case: Case) -> None:
    """By every likelihood."""
    with accelerator() as device:
        there = moved(case, device)
        for by in case.config.likelihoods:
            close(there.scored(by).cpu(), case.scored(by).cpu(), f"{by} on an accelerator")


@catches(mutants.samples_with_numbers_of_the_cpu, when=can(Sampler))
def it_samples_on_an_accelerator_as_on_the_cpu(case: Case) -> None:
    """Whatever is random is drawn by the ids of examples."""
    with accelerator() as device:
        there = moved(case, device)
        found = there.model.sample(there.batch, STEPS, there.noise)
    _alike(found, case.model.sample(case.batch, STEPS, case.noise))


@catches(mutants.COMPUTING_ON_THE_CPU[0], when=can(Vmappable))
def copies_in_a_stack_learn_on_an_accelerator(case: Case) -> None:
    """They lose there what they lose on the CPU."""
    values = []
    training = Training(0, 100, 0, 1, case.noise)
    keys = [case.noise.key, case.noise.fork("other").key]
    with accelerator() as device:
        for one in (moved(case, device), case):
            copies = (one.model, deepcopy(one.model))
            values.append(Stack(copies).losses(stacked([one.batch, one.batch]), training, keys).value.detach().cpu())
    close(values[0], values[1], "losses of copies in a stack on an accelerator")


MODELS_ON_ACCELERATORS = contracts_of(globals())


@catches(mutants.decodes_with_places_on_the_cpu)
def it_decodes_on_an_accelerator_as_on_the_cpu(case: Case) -> None:
    """The same tokens, with the same log-probabilities."""
    with accelerator() as device:
        found = moved(case, device).decoded()
    for one, other in zip(found, case.decoded(), strict=True):
        _alike(one, other)


DECODERS_ON_ACCELERATORS = (it_decodes_on_an_accelerator_as_on_the_cpu,)


def moved(case: Case, device: str) -> Case:
    """Return a case with a copy of its model, and its batch, on a device."""
    return replace(case, model=deepcopy(case.model).to(device), batch=case.batch.to(device))


def _learnt(case: Case, training: bool) -> dict[str, Tensor]:
    """Return the loss and its gradients, by name, of a copy of the model; cuDNN has some in training mode alone."""
    model = deepcopy(case.model).train(training)
    with torch.enable_grad(), _cudnn(training):
        loss = replace(case, model=model).loss()
        _backward(loss)
    learnt = {name: one.grad for name, one in model.named_parameters() if one.grad is not None}
    gradients = {f"gradient of {name}": one.to_dense() for name, one in learnt.items()}
    return {"loss": loss.value.detach(), "weight": loss.weight.double(), **gradients}


@contextmanager
def _cudnn(enabled: bool) -> Iterator[None]:
    """Have cuDNN, or not, inside the block."""
    before = torch.backends.cudnn.enabled
    torch.backends.cudnn.enabled = enabled
    try:
        yield
    finally:
        torch.backends.cudnn.enabled = before


def _backward(loss: Loss) -> None:
    if loss.value.requires_grad:
        torch.autograd.backward(loss.value)


def _alike(found: list[Hypothesis], wanted: list[Hypothesis]) -> None:
    for one, other in zip(found, wanted, strict=True):
        assert one.tokens == other.tokens, f"{one.tokens} on an accelerator, and {other.tokens} on the CPU"
        if one.log_prob is not None and other.log_prob is not None:
            same = abs(one.log_prob - other.log_prob) <= margin(other.log_prob)
            assert same, f"{one} on an accelerator, {other} on the CPU"
