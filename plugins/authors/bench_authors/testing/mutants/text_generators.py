"""Mutants of text generators."""

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
        answers = decoder.decode_texts(model, prompts, generation)
        return change([[*row] for row in answers], prompts)

    return replace(case, decoder=patched(case.decoder, decode_texts=decode))


#: Missing answers, and answers without a text.
GIVING_NO_TEXT = mutants_by(
    _answering,
    leaves_out_the_last=lambda answers, prompts: answers[:-1],
    answers_none=lambda answers, prompts: [[], *answers[1:]],
    gives_no_text=lambda answers, prompts: [[replace(y, text=None) for y in row] for row in answers],
)


def remembers_how_often_it_was_asked(case: TextCase) -> TextCase:
    """Answers differ each time."""
    times = iter(range(10**6))

    def change(answers: Answers, prompts: Sequence[Prompt]) -> Answers:
        time = next(times)
        return [[replace(y, text=f"{y.text}{time}") for y in row] for row in answers]

    return _answering(case, change)


@mutant(_answering)
def counts_its_neighbours(answers: Answers, prompts: Sequence[Prompt]) -> Answers:
    """Answers depend on the number of prompts."""
    return [[replace(y, text=f"{y.text}{len(prompts)}") for y in row] for row in answers]


@mutant(_answering)
def answers_in_the_order_of_ids(answers: Answers, prompts: Sequence[Prompt]) -> Answers:
    """Answers are in the order of ids."""
    order = sorted(range(len(prompts)), key=lambda place: prompts[place].id)
    return [answers[place] for place in order]


def learns(case: TextCase) -> TextCase:
    """The model has a trainable weight."""
    model = patched(case.model)
    model._parameters = {**model._parameters, "learned": nn.Parameter(torch.zeros(1))}
    return replace(case, model=model)
