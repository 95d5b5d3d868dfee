"""Contracts: a statement about an interface as a test, with the mutants that it must catch."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, replace
from functools import partial, wraps
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor

from bench_authors.looks.rows import float64
from bench_core import Batch, Config, ModelConfig, State, Stepper

#: Contracts about losses, which do not concern what is never trained.
OF_LOSSES = (
    "the_loss_is_a_mean", "the_loss_does_not_depend_on_padding",
    "the_loss_is_finite_and_weighs_target_tokens", "the_loss_does_not_depend_on_the_order_of_rows",
    "weights_of_examples_are_ignored_or_weigh_their_tokens", "eight_examples_can_be_learnt_by_heart",
    "settings_of_evaluation_do_not_decide_what_is_trained", "labels_are_smoothed_by_as_much_as_asked",
    "copies_in_a_stack_lose_what_they_lose_alone", "it_loses_on_an_accelerator_what_it_loses_on_the_cpu",
    "it_is_set_up_on_an_accelerator", "an_update_does_not_wait_for_an_accelerator",
)  # fmt: skip

ROUNDING = 1e-5  #: relative and absolute, as parts may compute in float32

C = TypeVar("C")  # the case: a part, and what it is tried on
P = TypeVar("P")
F = TypeVar("F", bound=Callable[..., Any])
G = TypeVar("G", bound=Config)


@dataclass(frozen=True)
class Contract(Generic[C]):
    """A test of any case to which it applies."""

    check: Callable[[C], None]  # raises AssertionError
    mutants: tuple[Callable[[C], C], ...]  # each returns the case with one deliberate mistake
    when: Callable[[C], bool]  # whether it applies to a case

    def __call__(self, case: C) -> None:
        """Raise AssertionError if `case` breaks the contract."""
        with _laboratory():
            self.check(case)

    def applies(self, case: C) -> bool:
        """Return whether the contract is about such a case."""
        with _laboratory():
            return self.when(case)

    def __str__(self) -> str:
        return self.check.__name__


def catches(
    *mutants: Callable[[C], C], when: Callable[[C], bool] = lambda case: True
) -> Callable[[Callable[[C], None]], Contract[C]]:
    """Make a contract of a test, name the mistakes that it must catch, and say which cases it is for."""
    return lambda check: Contract(check, mutants, when)


def contracts_of(module: Mapping[str, Any]) -> tuple[Contract[Any], ...]:
    """Return the contracts that a module defines, in their order, given its global names."""
    found = (one for one in module.values() if isinstance(one, Contract))
    return tuple(one for one in found if one.check.__module__ == module["__name__"])


def check(contracts: Sequence[Contract[C]], case: C) -> list[str]:
    """Return the names of those contracts that apply to `case`; raise an ExceptionGroup of those that it breaks."""
    tried, broken = try_contracts(contracts, case)
    if broken:
        raise ExceptionGroup(f"{len(broken)} contracts are broken: {', '.join(broken)}", list(broken.values()))
    return tried


def try_contracts(contracts: Sequence[Contract[C]], case: C) -> tuple[list[str], dict[str, Exception]]:
    """Return the names of those contracts that apply to `case`, and by name what those that it breaks say.

    Those from which Configs of the case are `exempt` do not apply.
    """
    exempt = exemptions(case)
    found = {str(one): outcome(one, case) for one in contracts if str(one) not in exempt}
    broken = {name: error for name, error in found.items() if isinstance(error, Exception)}
    return [name for name, error in found.items() if error is not False], broken


def outcome(
    contract: Contract[C], case: C, caught: tuple[type[BaseException], ...] = (Exception,)
) -> BaseException | bool:
    """Return whether a contract applies to `case`; if the part breaks it, the error."""
    try:
        applies = contract.applies(case)
        if applies:
            contract(case)
    except caught as error:
        return error
    return applies


def exemptions(case: Any) -> dict[str, str]:
    """Return the contracts from which the Configs of a case are exempt, with the reasons."""
    configs = [getattr(part, "config", None) for part in (case, getattr(case, "decoder", None))]
    found: dict[str, str] = {}
    for config in configs:
        found |= config.exempt() if isinstance(config, Config) else {}
        if isinstance(config, ModelConfig) and config.is_untrainable():
            found |= dict.fromkeys(OF_LOSSES, f"{config.name} is not trained")
    return found


@contextmanager
def _laboratory() -> Iterator[None]:
    """Compute in float64, from one seed and without gradients, and leave torch as it was."""
    with float64(), torch.random.fork_rng(devices=[]), torch.no_grad():
        seed_torch(0)
        yield


def seed_torch(number: int) -> None:
    """Seed torch's generators; those of absent accelerators would record a traceback with every seed."""
    present = torch.cuda.is_available() or torch.accelerator.is_available()
    (torch if present else torch.default_generator).manual_seed(number)


def patched(part: P, **methods: Callable[..., Any]) -> P:
    """Return a copy of `part` with other methods; each is given the intact part before its own arguments."""
    other = copy(part)
    for name, method in methods.items():
        setattr(other, name, partial(method, part))
    return other


def mutant(alter: Callable[[Any, F], Any]) -> Callable[[F], Callable[[Any], Any]]:
    """Make a mutant of a function: it returns what `alter` makes of a case and the function."""
    return lambda function: wraps(function)(lambda case: alter(case, function))


def mutants_by(alter: Callable[[Any, Any], Any], **changes: Callable[..., Any]) -> tuple[Callable[[Any], Any], ...]:
    """Return a mutant for each change, under its name: what `alter` makes of a case and the change."""
    found = {name: mutant(alter)(change) for name, change in changes.items()}
    for name, one in found.items():
        one.__name__ = name
    return tuple(found.values())


def instead_of(part: str, method: str) -> Callable[[Any, Callable[..., Any]], Any]:
    """Return how a function takes the place of a method of a part of a case; it is given the intact part first."""
    return lambda case, function: replace(case, **{part: patched(getattr(case, part), **{method: function})})


def with_log_probs(model: Stepper, change: Callable[[Tensor], Tensor]) -> Stepper:
    """Return a copy of a model that says `change` of its log-probabilities [N, A]."""

    def start(model: Stepper, batch: Batch) -> tuple[Tensor, State]:
        log_probs, state = model.start(batch)
        return change(log_probs), state

    def step(model: Stepper, state: State, actions: Tensor) -> tuple[Tensor, State]:
        log_probs, state = model.step(state, actions)
        return change(log_probs), state

    return patched(model, start=start, step=step)


def posing(config: G, **attributes: Any) -> G:
    """Return the same settings in a Config that says something else about its class."""
    namespace = {"__module__": type(config).__module__, **attributes}
    kind: Any = type(type(config).__name__, (type(config),), namespace)
    other: G = kind.model_construct(**dict(config))
    return other


def close(found: Tensor, wanted: Tensor, what: str) -> None:
    """Assert that two results are the same but for rounding in single precision."""
    torch.testing.assert_close(found, wanted, rtol=ROUNDING, atol=ROUNDING, msg=lambda text: f"{what}: {text}")


def margin(cost: float) -> float:
    """Return by how much a log-probability may be off due to rounding."""
    return ROUNDING * max(1, abs(cost))
