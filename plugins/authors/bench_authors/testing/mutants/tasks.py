"""Mutants of tasks."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from time import perf_counter_ns
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from bench_authors.testing.cases import TaskCase
from bench_authors.testing.contracts import instead_of, mutant, mutants_by, patched, posing
from bench_core import Batch, Purpose, Rng, Size, Task, TaskInfo


def _with_batches(case: TaskCase, change: Callable[[list[Batch], Purpose], list[Batch]]) -> TaskCase:
    """Pass the batches of an epoch through `change`."""

    def batches(task: Task, split: str, purpose: Purpose, size: Size, rng: Rng | None = None) -> Iterator[Batch]:
        return iter(change(list(task.batches(split, purpose, size, rng)), purpose))

    return replace(case, task=patched(case.task, batches=batches))


def _with_each_batch(case: TaskCase, change: Callable[[Batch], Batch]) -> TaskCase:
    return _with_batches(case, lambda epoch, purpose: [change(batch) for batch in epoch])


@mutant(_with_batches)
def drops_the_last_example(epoch: list[Batch], purpose: Purpose) -> list[Batch]:
    """The last example of an epoch is missing."""
    rest = epoch[-1].select(torch.arange(len(epoch[-1]) - 1))
    return [*epoch[:-1], *([rest] if len(rest) else [])]


def drops_what_fills_no_batch(case: TaskCase) -> TaskCase:
    """The last batch of an epoch is dropped."""
    return _with_batches(case, lambda epoch, purpose: epoch[:-1] if len(epoch) > 1 else epoch)


def repeats_an_example(case: TaskCase) -> TaskCase:
    """The first example occurs twice in an epoch."""
    return _with_batches(case, lambda epoch, purpose: [epoch[0].select(torch.tensor([0])), *epoch])


def shuffles_by_turn(case: TaskCase) -> TaskCase:
    """Every epoch has a different order, even with the same random numbers."""
    turns = count()

    def batches(task: Task, split: str, purpose: Purpose, size: Size, rng: Rng | None = None) -> Iterator[Batch]:
        return task.batches(split, purpose, size, rng and rng.fork(next(turns)))

    return replace(case, task=patched(case.task, batches=batches))


@mutant(instead_of("task", "batches"))
def never_shuffles(task: Task, split: str, purpose: Purpose, size: Size, rng: Rng | None = None) -> Iterator[Batch]:
    """Batches are never shuffled."""
    return task.batches(split, purpose, size)


@mutant(instead_of("task", "batches"))
def exceeds_its_size(task: Task, split: str, purpose: Purpose, size: Size, rng: Rng | None = None) -> Iterator[Batch]:
    """Batches are twice as large as requested."""
    return task.batches(split, purpose, replace(size, number=2 * size.number), rng)


#: Prompts and targets with misplaced EOS.
MISPLACING_STOP = mutants_by(
    _with_each_batch,
    # the length of a target does not include EOS
    forgets_the_stop=lambda batch: replace(batch, length=batch.length - 1),
    # targets are padded with another token
    pads_with_a_word=lambda batch: replace(batch, gold=batch.gold + (~batch.mask).long()),
    # prompts do not begin with EOS
    opens_with_a_word=lambda batch: replace(batch, prompt=batch.prompt + 1),
)


def speaks_another_vocabulary(case: TaskCase) -> TaskCase:
    """Token ids are outside the vocabulary."""
    return _with_each_batch(case, lambda batch: replace(batch, gold=batch.gold + len(case.info.vocabulary)))


@mutant(_with_each_batch)
def brings_another_source(batch: Batch) -> Batch:
    """Batches have an undeclared source, or lack the declared source."""
    return replace(batch, source=batch.gold.double()[:, :, None, None] if batch.source is None else None)


@mutant(_with_batches)
def renumbers_what_it_decodes(epoch: list[Batch], purpose: Purpose) -> list[Batch]:
    """The same rows have other ids for another purpose."""
    number = sum(map(len, epoch))
    return [replace(b, ids=number - 1 - b.ids) if purpose is Purpose.DECODE else b for b in epoch]


@mutant(instead_of("task", "references"))
def loses_a_reference(task: Task, split: str) -> Mapping[int, Sequence[str]]:
    """One example has no reference."""
    return dict(list(task.references(split).items())[:-1])


@mutant(instead_of("task", "references"))
def refers_to_letters(task: Task, split: str) -> Mapping[int, Sequence[str]]:
    """References are a text instead of a list of texts."""
    return {number: "".join(texts) for number, texts in task.references(split).items()}


def speaks_in_lists(case: TaskCase) -> TaskCase:
    """The text of tokens is a list of words."""
    return replace(case, task=patched(case.task, text=lambda task, tokens: task.text(tokens).split()))


def prepares_by_the_clock(case: TaskCase) -> TaskCase:
    """Prepared data depend on the time."""
    kind = case.config.load()

    class Restless(kind):  # type: ignore[misc, valid-type]
        def prepare(self, data: Path) -> TaskInfo:
            info: TaskInfo = super().prepare(data)
            (self.folder / "made").write_text(str(perf_counter_ns()), encoding="utf-8")
            return info

    return replace(case, config=posing(case.config, load=classmethod(lambda cls: Restless)))


def keeps_a_set_in_its_facts(case: TaskCase) -> TaskCase:
    """Task info contains a value that JSON cannot store."""
    return replace(case, info=replace(case.info, extras={**case.info.extras, "words": {"a", "b"}}))


def repeats_a_token(case: TaskCase) -> TaskCase:
    """A token occurs twice in the vocabulary."""
    words = [*case.info.vocabulary, case.info.vocabulary[-1]]
    return replace(case, info=replace(case.info, vocabulary=words, counts=()))


def _weighing(case: TaskCase, weigh: Callable[[int], Tensor]) -> TaskCase:
    """Set the weights of each batch to `weigh(number of examples)`."""
    return _with_each_batch(case, lambda batch: replace(batch, extras={"weight": weigh(len(batch))}))


#: Invalid weights for a number of examples.
MISWEIGHING = mutants_by(
    _weighing,
    # one example of a batch has a negative weight
    weighs_below_nothing=lambda number: torch.linspace(-0.1, 1, number),
    # weights are divided by 0
    weighs_without_bounds=lambda number: torch.ones(number) / 0,
    # examples have several weights
    weighs_tokens=lambda number: torch.ones(number, 2),
    # all weights of a batch are 0
    weighs_nothing=torch.zeros,
)


@mutant(_with_each_batch)
def yields_batches_on_an_accelerator(batch: Batch) -> Batch:
    """The task moves batches to a GPU if available."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    return batch.change(lambda tensor: tensor.to(device))


def hides_numbers_from_a_move(case: TaskCase) -> TaskCase:
    """A tensor of a batch is inside an opaque object."""
    extras: Any = {"more": SimpleNamespace(numbers=torch.ones(2))}
    return _with_each_batch(case, lambda batch: replace(batch, extras=extras))
