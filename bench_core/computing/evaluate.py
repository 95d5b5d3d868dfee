"""Decodes or scores the examples of a split with a model, and returns outcomes."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import torch

from bench_core.computing.guarded_log_probs import RowError, guarded
from bench_core.computing.guarded_tasks import check_known
from bench_core.computing.guards import check_hypotheses, check_scores, named
from bench_core.data import Batch, Hypothesis, Kind, Outcome, Purpose
from bench_core.decoder import Decoder
from bench_core.errors import PluginError
from bench_core.generation_loop import limits
from bench_core.model import Scorer, Scores, Scoring, Stepper
from bench_core.random_numbers import Noise
from bench_core.storage.outcomes import by_id
from bench_core.task import Size, Task, TextSize

T = TypeVar("T")

SOME = 4  #: one in so many steps is looked at where the others are known by what was chosen


@dataclass(frozen=True)
class Examples:
    """The examples of a split: all, or a random sample that is the same for all models, decoders and seeds."""

    task: Task
    split: str
    noise: Noise
    device: torch.device
    size: int = 128  # rows at a time
    number: int | None = None  # how many are chosen
    tell: Callable[[int, int], None] = lambda done, total: None  # hears how many of how many are done; 0 if not known
    warn: Callable[[str], None] = lambda text: None
    words: int = sys.maxsize  # the size of the vocabulary
    first: int | None = None  # the batches that hold so many rows, and no others

    def decoded(self, model: Any, decoder: Decoder, folder: Path | None = None) -> Sequence[Outcome]:
        """Decode the examples; return their outcomes in order of id, kept in a temporary file if they are many.

        The file is in `folder`, by default where such files are.
        """
        return by_id(self._decode(model, decoder), folder)

    def _decode(self, model: Any, decoder: Decoder) -> Iterator[Outcome]:
        """Yield the outcomes as they are decoded."""
        references, sources = self.task.references(self.split), self.task.sources(self.split)
        last, done = list[Outcome](), 0

        def decode(part: Batch) -> list[list[Hypothesis]]:
            return self._decoded(model, decoder, self._on_device(part), last)

        for batch, hypotheses in self._in_parts(self._batches(Purpose.DECODE), decode):
            check_known(self.task, self.split, references, batch.ids.tolist())
            for number, prefix, gold, own in zip(*_rows(batch), hypotheses, strict=True):
                prompt = sources[number] if number in sources else self.task.prompt(prefix) if prefix else ""
                texts = [self.task.text(hypothesis.tokens) for hypothesis in own]
                given, target = list(references[number]), self._target(number, gold)
                last = [replace(target, prompt=prompt, references=given, hypotheses=own, texts=texts)]
                yield last[0]
            done += len(batch)
            self.tell(done, self.number or len(references))

    def to_decode(self) -> Iterator[Batch]:
        """Yield the rows that `decoded` decodes, in batches on the CPU."""
        return self._batches(Purpose.DECODE)

    def _decoded(
        self, model: Any, decoder: Decoder, batch: Batch, before: Sequence[Outcome]
    ) -> list[list[Hypothesis]]:
        """Return the hypotheses of each row; raise PluginError if they, or their log-probabilities, are invalid.

        The first batch, without outcomes `before`, is checked the most. Later, if hypotheses have
        log-probabilities, which cover all chosen actions, only some steps are checked.
        """
        most, thorough = decoder.config.max_tokens, not before
        tells = [one.log_prob is not None for outcome in before for one in outcome.hypotheses]

        def decode(part: Batch, every: int = 1) -> list[list[Hypothesis]]:
            with guarded(model, self.words, thorough, every):
                own = limits(model, part, most).tolist() if isinstance(model, Stepper) else [most] * len(part)
                found = decoder.decode(model, part, self.noise)
            check_hypotheses(found, named(decoder, "decode"), part.ids.tolist(), own, self.words)
            return found

        try:
            if not tells or not all(tells):
                return decode(batch)
            try:
                return decode(batch, SOME)
            except Exception as error:
                if not _out_of_memory(error):
                    decode(batch)  # all steps: is it the model's fault?
                raise
        except RowError as error:
            raise blamed(error, decode, batch) from None

    def scored(
        self, model: Scorer, by: str, kind: Kind = Kind.EXACT, folder: Path | None = None
    ) -> Sequence[Outcome]:
        """Score the targets by one likelihood of the model; return their outcomes in order of id, as `decoded`."""
        return by_id(self._score(model, by, kind), folder)

    def _score(self, model: Scorer, by: str, kind: Kind) -> Iterator[Outcome]:
        """Yield the outcomes as they are scored."""
        memory, carries, done = None, True, 0

        def score(part: Batch) -> Scores:
            batch = self._on_device(part)
            scores = model.score(batch, Scoring(by, self.noise, memory if part.continues else None))
            check_scores(scores, model, batch, kind)
            return scores

        batches = _side_by_side(self._batches(Purpose.SCORE), self.size, lambda: not carries)
        for batch, scores in self._in_parts(batches, score):
            memory = scores.memory
            carries = carries and not (batch.continues and memory is None)
            log_probs = scores.log_probs.double().tolist()
            values = {name: tensor.double().tolist() for name, tensor in scores.values.items()}
            weights = batch.extras["weight"].double().tolist() if "weight" in batch.extras else [1.0] * len(batch)
            for row, (number, _, gold) in enumerate(zip(*_rows(batch), strict=True)):
                own = {name: column[row] for name, column in values.items()}
                outcome = self._sized(self._target(number, gold))
                yield replace(outcome, target_log_prob=log_probs[row], weight=weights[row], values=own)
            done += len(batch)
            self.tell(done, self.number or 0)

    def _target(self, number: int, gold: list[int]) -> Outcome:
        """Return the outcome of an example before it is decoded or scored."""
        target = gold[:-1] if gold and gold[-1] == 0 else gold
        words = len(self.task.text(target).split()) + len(gold) - len(target)
        return Outcome(number, target_tokens=len(gold), target_words=words, group=self._groups.get(number))

    def _sized(self, target: Outcome) -> Outcome:
        """Return the outcome with the size of its raw text, where that is known."""
        size = self._sizes.get(target.id)
        return replace(target, target_bytes=size.bytes, target_characters=size.characters) if size else target

    @cached_property
    def _sizes(self) -> Mapping[int, TextSize]:
        return self.task.target_sizes(self.split)

    @cached_property
    def _groups(self) -> Mapping[int, int]:
        return self.task.groups(self.split)

    def _in_parts(self, batches: Iterator[Batch], work: Callable[[Batch], T]) -> Iterator[tuple[Batch, T]]:
        """Process batches, halving them when memory runs out; yield each part with its result."""
        most = 0  # rows, once memory has run out
        for batch in batches:
            parts = [*_split(batch, most)] if most else [batch]
            while parts:
                if most and batch.continues:  # each row of a stream needs what is remembered of all before it
                    raise PluginError("out of memory inside a stream. Set a smaller `limits.batch_size`.")
                part = parts.pop(0)
                try:
                    result = work(part)
                except (MemoryError, RuntimeError) as error:
                    if len(part) == 1 or not _out_of_memory(error):
                        raise
                    most = (len(part) + 1) // 2
                else:
                    yield part, result
                    continue
                # Only here, where the error has let go of what it held, is there memory again.
                self.warn(f"out of memory with {len(part)} rows per batch; continuing with {most}.")
                if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
                    torch.cuda.empty_cache()
                parts = [*_split(part, most), *(half for rest in parts for half in _split(rest, most))]

    def _on_device(self, batch: Batch) -> Batch:
        """Return a copy that a part may modify."""
        return batch.change(lambda tensor: tensor.to(self.device, copy=True))

    def _batches(self, purpose: Purpose) -> Iterator[Batch]:
        """Yield batches of the whole split, or of the first `number` examples in a fixed random order."""
        noise = None if self.number is None else Noise(0).fork("examples").fork(self.split)
        number, first = (sys.maxsize if most is None else most for most in (self.number, self.first))
        done = 0
        for batch in self.task.batches(self.split, purpose, Size(self.size), noise):
            left = number - done
            yield batch if len(batch) <= left else batch.select(batch.ids.new_ones(left).cumsum(0) - 1)
            done += len(batch)
            if done >= min(number, first):
                return


def blamed(error: RowError, decode: Callable[[Batch], object], batch: Batch) -> PluginError:
    """Return an error that names the first example that fails alone, found by bisection."""
    while len(batch) > 1:
        first, *rest = _split(batch, (len(batch) + 1) // 2)
        try:
            decode(first)
        except RowError as found:
            error, batch = found, first
        else:
            (batch,) = rest
    try:
        decode(batch)
    except RowError as found:
        return found.of(int(batch.ids))
    return error  # every row is well by itself


def _side_by_side(batches: Iterator[Batch], most: int, alone: Callable[[], bool]) -> Iterator[Batch]:
    """Yield windows of a stream in batches of up to `most` rows if the model has no memory; else as they come.

    A model without memory scores each window independently, so windows can be batched.
    """
    waiting: list[Batch] = []
    for batch in batches:
        apart = batch.continues and alone()
        alike = waiting and apart and waiting[0].gold.shape[1] == batch.gold.shape[1]
        if waiting and not (alike and sum(map(len, waiting)) + len(batch) <= most):
            yield _joined(waiting)
            waiting = []
        if apart:
            waiting.append(batch)
        else:
            yield batch
    if waiting:
        yield _joined(waiting)


def _joined(batches: list[Batch]) -> Batch:
    """Concatenate batches of the same shape to one that does not continue another."""
    columns = iter([*zip(*map(_tensors, batches), strict=True)])
    return replace(batches[0].change(lambda _: torch.cat(next(columns))), continues=False)


def _tensors(batch: Batch) -> list[torch.Tensor]:
    found: list[torch.Tensor] = []

    def kept(tensor: torch.Tensor) -> torch.Tensor:
        found.append(tensor)
        return tensor

    batch.change(kept)
    return found


def _split(batch: Batch, most: int) -> Iterator[Batch]:
    """Split a batch into parts of at most so many rows."""
    rows = batch.ids.new_ones(len(batch)).cumsum(0) - 1
    yield from map(batch.select, torch.split(rows, most))


def _out_of_memory(error: Exception) -> bool:
    """Return whether an error is out-of-memory: of a GPU, of torch on the CPU, or of Python."""
    return isinstance(error, (MemoryError, torch.OutOfMemoryError)) or "can't allocate memory" in str(error)


def _rows(batch: Batch) -> tuple[list[int], list[list[int]], list[list[int]]]:
    """Return ids, prefixes without stop, and targets of the rows."""
    lengths = batch.length.tolist()
    golds = [row[:length] for row, length in zip(batch.gold.tolist(), lengths, strict=True)]
    return batch.ids.tolist(), batch.opening[:, 1:].tolist(), golds
