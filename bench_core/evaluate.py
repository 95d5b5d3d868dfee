"""What a model says about the examples of a split: decoded, or scored, as outcomes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from bench_core.data import Outcome, Purpose
from bench_core.errors import PluginError
from bench_core.model import Scoring
from bench_core.noise import Noise
from bench_core.task import Size, Task

if TYPE_CHECKING:
    import torch

    from bench_core.data import Batch, Hypothesis
    from bench_core.decoder import Decoder
    from bench_core.model import Scorer

Tell = Callable[[int], None]  # how many examples are done


def decoded(
    model: Any,
    task: Task,
    decoder: Decoder,
    split: str,
    noise: Noise,
    device: torch.device,
    size: int = 128,
    examples: int | None = None,
    tell: Tell = lambda done: None,
) -> list[Outcome]:
    """Decode `examples` of a split (a random choice, the same for all models and seeds), or all, in order of id."""
    references, found = task.references(split), []
    for batch in _chosen(task, split, Purpose.DECODE, size, examples):
        hypotheses = decoder.decode(model, batch.change(lambda tensor: tensor.to(device)), noise)
        if len(hypotheses) != len(batch) or not all(hypotheses):
            raise PluginError(f"{type(decoder).__name__} gave no hypothesis for some of {len(batch)} rows.")
        found += [_outcome(task, references, *row) for row in zip(*_rows(batch), hypotheses, strict=True)]
        tell(len(found))
    return sorted(found, key=lambda outcome: outcome.id)


def scored(
    model: Scorer,
    task: Task,
    by: str,
    split: str,
    noise: Noise,
    device: torch.device,
    size: int = 128,
    examples: int | None = None,
    tell: Tell = lambda done: None,
) -> list[Outcome]:
    """Score the targets of a split by one of the model's likelihoods, in order of id."""
    found: list[Outcome] = []
    memory = None
    for batch in _chosen(task, split, Purpose.SCORE, size, examples):
        on_device = batch.change(lambda tensor: tensor.to(device))
        scores = model.score(on_device, Scoring(by, noise, memory if batch.continues else None))
        memory = scores.memory
        log_probs = scores.log_probs.double().tolist()
        if len(log_probs) != len(batch):
            raise PluginError(f"{type(model).__name__}.score gave {len(log_probs)} numbers for {len(batch)} rows.")
        values = {name: tensor.double().tolist() for name, tensor in scores.values.items()}
        for row, (number, prompt, gold) in enumerate(zip(*_rows(batch), strict=True)):
            outcome = _outcome(task, {}, number, prompt, gold, [])
            own = {name: column[row] for name, column in values.items()}
            found.append(replace(outcome, target_log_prob=log_probs[row], values=own, prompt=""))
        tell(len(found))
    return sorted(found, key=lambda outcome: outcome.id)


def _chosen(task: Task, split: str, purpose: Purpose, size: int, examples: int | None) -> Iterator[Batch]:
    """Yield batches of the whole split, or of the first `examples` in an order that only the split decides."""
    if examples is None:
        yield from task.batches(split, purpose, Size(size))
        return
    left = examples
    for batch in task.batches(split, purpose, Size(size), Noise(0).fork("examples").fork(split)):
        yield batch if len(batch) <= left else batch.select(batch.ids.new_ones(left).cumsum(0) - 1)
        left -= len(batch)
        if left <= 0:
            return


def _rows(batch: Batch) -> tuple[list[int], list[list[int]], list[list[int]]]:
    """Return ids, prefixes without stop, and targets of the rows."""
    lengths = batch.length.tolist()
    golds = [row[:length] for row, length in zip(batch.gold.tolist(), lengths, strict=True)]
    return batch.ids.tolist(), batch.opening[:, 1:].tolist(), golds


def _outcome(
    task: Task, references: Any, number: int, prompt: list[int], gold: list[int], hypotheses: list[Hypothesis]
) -> Outcome:
    target = gold[:-1] if gold and gold[-1] == 0 else gold
    words = len(task.text(target).split()) + len(gold) - len(target)
    return Outcome(
        id=number,
        prompt=task.prompt(prompt) if prompt and hypotheses else "",
        references=list(references.get(number, ())),
        hypotheses=hypotheses,
        texts=[task.text(hypothesis.tokens) for hypothesis in hypotheses],
        target_tokens=len(gold),
        target_words=words,
    )
