"""Contracts of text generators."""

from typing import Any

from bench_authors.testing.cases import TextCase
from bench_authors.testing.contracts import catches, check, contracts_of
from bench_authors.testing.mutants import text_generators as mutants
from bench_core import TextGenerator


def check_text_generator(case: TextCase) -> list[str]:
    """Try all contracts of text generators; return their names."""
    return check(TEXT_CONTRACTS, case)


@catches(*mutants.GIVING_NO_TEXT)
def every_prompt_has_a_text(case: TextCase) -> None:
    """At least one hypothesis each, and each is a text."""
    found = case.written()
    assert len(found) == len(case.prompts), f"{len(found)} answers to {len(case.prompts)} prompts"
    for prompt, row in zip(case.prompts, found, strict=True):
        assert row, f"no hypothesis for prompt {prompt.id}"
        assert all(isinstance(one.text, str) for one in row), f"a hypothesis of prompt {prompt.id} has no text"


@catches(mutants.remembers_how_often_it_was_asked, mutants.counts_its_neighbours)
def a_prompt_is_answered_alone_as_among_others(case: TextCase) -> None:
    """And as often as it is asked, for a given seed."""
    among = case.written()
    for prompt, row in zip(case.prompts, among, strict=True):
        (alone,) = case.written([prompt])
        assert alone == row, f"prompt {prompt.id} has another answer alone: {alone} and not {row}"


@catches(mutants.answers_in_the_order_of_ids)
def answers_are_in_the_order_of_prompts(case: TextCase) -> None:
    """Whatever that order is."""
    assert case.written([*reversed(case.prompts)]) == [*reversed(case.written())], "answers are in another order"


@catches(mutants.learns)
def it_has_nothing_to_learn(case: TextCase) -> None:
    """It is a text generator without weights to train."""
    assert isinstance(case.model, TextGenerator), f"{type(case.model).__name__} is no TextGenerator"
    module: Any = case.model
    trained = [name for name, one in module.named_parameters() if one.requires_grad]
    assert not trained, f"{', '.join(trained)} would be trained"


#: Contracts of text generators, which `check_text_generator` tries.
TEXT_CONTRACTS = contracts_of(globals())
