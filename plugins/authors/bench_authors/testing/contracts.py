"""Contracts: tests of statements about interfaces, with the mutants that each must catch."""

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

#: Contracts of losses, which do not apply to untrained models.
LOSS_CONTRACTS = (
    "the_loss_is_a_mean", "the_loss_does_not_depend_on_padding",
    "the_loss_is_finite_and_weighs_target_tokens", "the_loss_does_not_depend_on_the_order_of_rows",
    "weights_of_examples_are_ignored_or_weigh_their_tokens", "eight_examples_can_be_learnt_by_heart",
    "settings_of_evaluation_do_not_decide_what_is_trained", "labels_are_smoothed_by_as_much_as_asked",
    "copies_in_a_stack_lose_what_they_lose_alone", "it_loses_on_an_accelerator_what_it_loses_on_the_cpu",
    "it_is_set_up_on_an_accelerator", "an_update_does_not_wait_for_an_accelerator",
)  # fmt: skip

ROUNDING = 1e-5  #: relative and absolute tolerance, since parts may compute in float32

C = TypeVar("C")  # case: a part with test data
P = TypeVar("P")
F = TypeVar("F", bound=Callable[..., Any])
G = TypeVar("G", bound=Config)


@dataclass(frozen=True)
class Contract(Generic[C]):
    """A test of the cases to which it applies."""

    check: Callable[[C], None]  # raises AssertionError if broken
    mutants: tuple[Callable[[C], C], ...]  # each returns a case with a deliberate mistake
    when: Callable[[C], bool]  # whether the contract applies

    def __call__(self, case: C) -> None:
        """Raise AssertionError if `case` breaks the contract."""
        with _test_conditions():
            self.check(case)

    def applies(self, case: C) -> bool:
        """Return whether the contract applies to `case`."""
        with _test_conditions():
            return self.when(case)

    def __str__(self) -> str:
        return self.check.__name__


def catches(
    *mutants: Callable[[C], C], when: Callable[[C], bool] = lambda case: True
) -> Callable[[Callable[[C], None]], Contract[C]]:
    """Return a decorator that makes a test a contract, which applies if `when` is true and must catch `mutants`."""
    return lambda check: Contract(check, mutants, when)


def contracts_of(module: Mapping[str, Any]) -> tuple[Contract[Any], ...]:
    """Return the contracts that a module defines, in order, from its global names."""
    every = (value for value in module.values() if isinstance(value, Contract))
    return tuple(contract for contract in every if contract.check.__module__ == module["__name__"])


def check(contracts: Sequence[Contract[C]], case: C) -> list[str]:
    """Test contracts; return the names of the applicable contracts, or raise an ExceptionGroup of broken ones."""
    tried, broken = try_contracts(contracts, case)
    if broken:
        raise ExceptionGroup(f"{len(broken)} contracts are broken: {', '.join(broken)}", list(broken.values()))
    return tried


def try_contracts(contracts: Sequence[Contract[C]], case: C) -> tuple[list[str], dict[str, Exception]]:
    """Return the names of the contracts that apply to `case`, and the errors of the broken contracts by name.

    Contracts from which Configs of the case are `exempt` do not apply.
    """
    exempt = exemptions(case)
    results = {str(contract): try_contract(contract, case) for contract in contracts if str(contract) not in exempt}
    broken = {name: error for name, error in results.items() if isinstance(error, Exception)}
    return [name for name, error in results.items() if error is not False], broken


def try_contract(
    contract: Contract[C], case: C, caught: tuple[type[BaseException], ...] = (Exception,)
) -> BaseException | bool:
    """Test a contract; return whether it applies to `case`, or the error if the part breaks it."""
    try:
        applies = contract.applies(case)
        if applies:
            contract(case)
    except caught as error:
        return error
    return applies


def exemptions(case: Any) -> dict[str, str]:
    """Return the contracts from which the Configs of a case are exempt, with reasons."""
    configs = [getattr(part, "config", None) for part in (case, getattr(case, "decoder", None))]
    reasons: dict[str, str] = {}
    for config in configs:
        reasons |= config.exempt() if isinstance(config, Config) else {}
        if isinstance(config, ModelConfig) and config.is_untrainable():
            reasons |= dict.fromkeys(LOSS_CONTRACTS, f"{config.name} is not trained")
    return reasons


@contextmanager
def _test_conditions() -> Iterator[None]:
    """Compute in float64 with a fixed seed and without gradients in the block; then restore the state of torch."""
    with float64(), torch.random.fork_rng(devices=[]), torch.no_grad():
        seed_torch(0)
        yield


def seed_torch(number: int) -> None:
    """Seed torch's generators, skipping absent accelerators, for which torch would record a traceback each time."""
    present = torch.cuda.is_available() or torch.accelerator.is_available()
    (torch if present else torch.default_generator).manual_seed(number)


def patched(part: P, **methods: Callable[..., Any]) -> P:
    """Return a copy of `part` with replaced methods, which take the original part as first argument."""
    other = copy(part)
    for name, method in methods.items():
        setattr(other, name, partial(method, part))
    return other


def mutant(alter: Callable[[Any, F], Any]) -> Callable[[F], Callable[[Any], Any]]:
    """Return a decorator that makes a function a mutant, which returns `alter(case, function)`."""
    return lambda function: wraps(function)(lambda case: alter(case, function))


def mutants_by(alter: Callable[[Any, Any], Any], **changes: Callable[..., Any]) -> tuple[Callable[[Any], Any], ...]:
    """Return a mutant for each change, named after it, that returns `alter(case, change)`."""
    mutants = {name: mutant(alter)(change) for name, change in changes.items()}
    for name, function in mutants.items():
        function.__name__ = name
    return tuple(mutants.values())


def instead_of(part: str, method: str) -> Callable[[Any, Callable[..., Any]], Any]:
    """Return a function that replaces a method of a part of a case; see `patched`."""
    return lambda case, function: replace(case, **{part: patched(getattr(case, part), **{method: function})})


def with_log_probs(model: Stepper, change: Callable[[Tensor], Tensor]) -> Stepper:
    """Return a copy of a model whose log-probabilities [N, A] are passed through `change`."""

    def start(model: Stepper, batch: Batch) -> tuple[Tensor, State]:
        log_probs, state = model.start(batch)
        return change(log_probs), state

    def step(model: Stepper, state: State, actions: Tensor) -> tuple[Tensor, State]:
        log_probs, state = model.step(state, actions)
        return change(log_probs), state

    return patched(model, start=start, step=step)


def posing(config: G, **attributes: Any) -> G:
    """Return a Config with the same settings but different class attributes."""
    namespace = {"__module__": type(config).__module__, **attributes}
    kind: Any = type(type(config).__name__, (type(config),), namespace)
    other: G = kind.model_construct(**dict(config))
    return other


def assert_close(actual: Tensor, expected: Tensor, what: str) -> None:
    """Assert that two results are equal up to rounding in single precision."""
    torch.testing.assert_close(actual, expected, rtol=ROUNDING, atol=ROUNDING, msg=lambda text: f"{what}: {text}")


def margin(cost: float) -> float:
    """Return the maximum rounding error of a log-probability."""
    return ROUNDING * max(1, abs(cost))
