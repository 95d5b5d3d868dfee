"""Contracts of text generators."""

from typing import Any

from bench_authors.testing.cases import TextCase
from bench_authors.testing.contracts import catches, check, contracts_of
from bench_authors.testing.mutants import text_generators as mutants
from bench_core import TextGenerator


def check_text_generator(case: TextCase) -> list[str]:
    """Test all contracts of text generators; return their names."""
    return check(TEXT_CONTRACTS, case)


@catches(*mutants.GIVING_NO_TEXT)
def every_prompt_has_a_text(case: TextCase) -> None:
    """Check that each prompt has a hypothesis and each hypothesis has a text."""
    answers = case.generate_texts()
    assert len(answers) == len(case.prompts), f"{len(answers)} answers to {len(case.prompts)} prompts"
    for prompt, row in zip(case.prompts, answers, strict=True):
        assert row, f"no hypothesis for prompt {prompt.id}"
        assert all(isinstance(hypothesis.text, str) for hypothesis in row), (
            f"a hypothesis of prompt {prompt.id} has no text"
        )


@catches(mutants.remembers_how_often_it_was_asked, mutants.counts_its_neighbours)
def a_prompt_is_answered_alone_as_among_others(case: TextCase) -> None:
    """Compare the answer to each prompt alone with its answer in a batch, for a fixed seed."""
    among = case.generate_texts()
    for prompt, row in zip(case.prompts, among, strict=True):
        (alone,) = case.generate_texts([prompt])
        assert alone == row, f"prompt {prompt.id} has a different answer alone: {alone}, not {row}"


@catches(mutants.answers_in_the_order_of_ids)
def answers_are_in_the_order_of_prompts(case: TextCase) -> None:
    """Compare answers to prompts in reverse order."""
    assert case.generate_texts([*reversed(case.prompts)]) == [*reversed(case.generate_texts())], (
        "answers are not in the order of prompts"
    )


@catches(mutants.learns)
def it_has_nothing_to_learn(case: TextCase) -> None:
    """Check that the model is a TextGenerator without trainable weights."""
    assert isinstance(case.model, TextGenerator), f"{type(case.model).__name__} is not a TextGenerator"
    module: Any = case.model
    trained = [name for name, weights in module.named_parameters() if weights.requires_grad]
    assert not trained, f"{', '.join(trained)} would be trained"


#: The contracts of `check_text_generator`.
TEXT_CONTRACTS = contracts_of(globals())
