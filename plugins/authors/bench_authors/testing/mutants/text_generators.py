"""Mistakes of text generators, which contracts must catch."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from bench_authors.testing.cases import TextCase
from bench_authors.testing.contracts import mutant, mutants_by, patched
from bench_core import Generation, Hypothesis, Prompt

Answers = list[list[Hypothesis]]


def _answering(case: TextCase, change: Callable[[Answers, Sequence[Prompt]], Answers]) -> TextCase:
    def decode(decoder: Any, model: Any, prompts: Sequence[Prompt], generation: Generation) -> Answers:
        found = decoder.decode_texts(model, prompts, generation)
        return change([[*row] for row in found], prompts)

    return replace(case, decoder=patched(case.decoder, decode_texts=decode))


#: Answers that are missing, or no texts.
GIVING_NO_TEXT = mutants_by(
    _answering,
    leaves_out_the_last=lambda found, prompts: found[:-1],
    answers_none=lambda found, prompts: [[], *found[1:]],
    gives_no_text=lambda found, prompts: [[replace(one, text=None) for one in row] for row in found],
)


def remembers_how_often_it_was_asked(case: TextCase) -> TextCase:
    """Answer otherwise each time."""
    times = iter(range(10**6))

    def change(found: Answers, prompts: Sequence[Prompt]) -> Answers:
        time = next(times)
        return [[replace(one, text=f"{one.text}{time}") for one in row] for row in found]

    return _answering(case, change)


@mutant(_answering)
def counts_its_neighbours(found: Answers, prompts: Sequence[Prompt]) -> Answers:
    """Answer by how many prompts there are."""
    return [[replace(one, text=f"{one.text}{len(prompts)}") for one in row] for row in found]


@mutant(_answering)
def answers_in_the_order_of_ids(found: Answers, prompts: Sequence[Prompt]) -> Answers:
    """Answer in the order of ids."""
    order = sorted(range(len(prompts)), key=lambda place: prompts[place].id)
    return [found[place] for place in order]


def learns(case: TextCase) -> TextCase:
    """Have weights to train."""
    model = patched(case.model)
    model._parameters = {**model._parameters, "learnt": nn.Parameter(torch.zeros(1))}
    return replace(case, model=model)
