"""Decoding and scoring of the examples of a split."""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import torch

from bench_core.computing.batch_parts import rows, side_by_side, split
from bench_core.computing.guarded_log_probs import RowError, guarded
from bench_core.computing.guarded_tasks import check_references
from bench_core.computing.hidden_targets import without_targets
from bench_core.computing.laws import Laws
from bench_core.computing.looks import NoLook, second_look
from bench_core.computing.memory_errors import is_out_of_memory
from bench_core.computing.result_checks import check_hypotheses, check_not_certain, check_scores, is_certain, named
from bench_core.computing.texts import Texts, generate_texts
from bench_core.config import ModelConfig
from bench_core.data import Batch, Hypothesis, Kind, Prediction, Prompt, Purpose
from bench_core.decoder import Decoder, TextDecoder
from bench_core.errors import Fault, PluginError, SuiteError
from bench_core.generation_loop import limits
from bench_core.model import Generation, OwnVocabulary, Scorer, Scores, Scoring, Stepper, TextGenerator, TextScorer
from bench_core.random_numbers import Rng
from bench_core.storage.predictions import by_id
from bench_core.task import Size, Task, TextSize

T = TypeVar("T")

CHECK_INTERVAL = 4  #: interval between checked steps, if log-probabilities of hypotheses cover the other steps


@dataclass(frozen=True)
class Examples:
    """The examples of a split: all, or a random sample shared by all models, decoders and seeds."""

    task: Task
    split: str
    rng: Rng
    device: torch.device
    size: int = 128  # rows per batch
    number: int | None = None  # sample size; None for all examples
    tell: Callable[[int, int], None] = lambda done, total: None  # receives progress; the total is 0 if unknown
    warn: Callable[[str], None] = lambda text: None
    words: int = sys.maxsize  # vocabulary size
    first: int | None = None  # stop after the batch that reaches this number of rows
    seed: int = 0  # the cell's seed, for text generators
    answers: Path = Path()  # where text generators cache responses
    looked_at: tuple[ModelConfig, Laws] | None = None  # arguments of the second look; None to skip it

    def decoded(self, model: Any, decoder: Decoder, folder: Path | None = None) -> Sequence[Prediction]:
        """Decode the examples; return predictions sorted by id, in a file in `folder` if there are many."""
        return by_id(self._decode(model, decoder), folder)

    def _decode(self, model: Any, decoder: Decoder) -> Iterator[Prediction]:
        """Decode the examples and yield predictions."""
        references, texts = self.task.references(self.split), self._texts
        is_own = isinstance(model, OwnVocabulary)
        spelled = {} if is_own or isinstance(model, TextGenerator) else self.task.target_spellings(self.split)
        last, done, lost = list[Prediction](), 0, 0
        look = self._second_look(model, decoder)

        def decode(part: Batch) -> tuple[Batch, list[list[Hypothesis]]]:
            if isinstance(decoder, TextDecoder):
                generation = self._generation(decoder.config, len(references))
                return part, generate_texts(decoder, model, texts.prompts(part), generation)
            read = texts.encode(model, part) if isinstance(model, OwnVocabulary) else part
            return read, self._decode_batch(model, decoder, self._blind(read), last)

        for batch, (read, hypotheses) in self._in_parts(self.to_decode(), decode):
            check_references(self.task, self.split, references, batch.ids.tolist())
            look.offer(read, hypotheses)
            targets = self._targets(model, read)
            prompts = texts.prompts(batch)
            spelled = texts.spelled_differently(model, prompts, read) if isinstance(model, OwnVocabulary) else spelled
            for prompt, target, row in zip(prompts, targets, hypotheses, strict=True):
                accepted, outputs = list(references[target.id]), [self._text(item, model, prompt) for item in row]
                row = [replace(hypothesis, text=None) for hypothesis in row]
                prediction = replace(target, prompt=prompt.text, references=accepted, hypotheses=row, texts=outputs)
                last = [replace(prediction, written=spelled.get(target.id))]
                lost += is_own and target.id in spelled and spelled[target.id] not in accepted
                yield last[0]
            done += len(batch)
            self.tell(done, self.number or len(references))
        if lost:
            whose: Fault = f"the tokens of {type(model).__name__}, which limits scores."
            self.warn(f"{lost:,} of {done:,} references of {self.split!r} cannot be represented by {whose}")
        look.at_decoded(lambda model, rows: decoder.decode(model, self._blind(rows), self.rng), done)

    def _second_look(self, model: Any, decoder: Decoder | None = None) -> Any:
        """Return the second look (see `looks`) at decoding with `decoder` or, without a decoder, at scoring."""
        if self.looked_at is None or isinstance(decoder, TextDecoder):
            return NoLook()
        arguments = model, *self.looked_at, decoder, self.rng, self.device, f"{self.split} {self.seed}"
        return second_look("models", *arguments)

    def _text(self, hypothesis: Hypothesis, model: Any, prompt: Prompt) -> str:
        if hypothesis.text is not None:
            return hypothesis.text
        if isinstance(model, OwnVocabulary):
            return model.output(hypothesis.tokens, prompt)
        return self.task.text(hypothesis.tokens)

    @cached_property
    def _texts(self) -> Texts:
        return Texts(self.task, self.split)

    def _generation(self, settings: Any, examples: int | None = None) -> Generation:
        return Generation(settings, self.split, self.seed, self.rng, self.answers, self.warn, examples)

    def to_decode(self) -> Iterator[Batch]:
        """Yield the rows to decode, in batches on the CPU."""
        return self._batches(Purpose.DECODE)

    def _decode_batch(
        self, model: Any, decoder: Decoder, batch: Batch, before: Sequence[Prediction]
    ) -> list[list[Hypothesis]]:
        """Return the hypotheses of each row; raise PluginError if they or their log-probabilities are invalid.

        The first batch, without predictions `before`, is checked most thoroughly. Later, if hypotheses have
        log-probabilities, which cover all chosen actions, only some steps are checked.
        """
        most, thorough = decoder.config.max_tokens, not before
        words = model.vocabulary_size if isinstance(model, OwnVocabulary) else self.words
        scored = [hypothesis.log_prob is not None for prediction in before for hypothesis in prediction.hypotheses]

        def decode(part: Batch, every: int = 1) -> list[list[Hypothesis]]:
            with guarded(model, words, thorough, every):
                maxima = limits(model, part, most).tolist() if isinstance(model, Stepper) else [most] * len(part)
                hypotheses = decoder.decode(model, part, self.rng)
            check_hypotheses(hypotheses, named(decoder, "decode"), part.ids.tolist(), maxima, words)
            return hypotheses

        try:
            if not scored or not all(scored):
                return decode(batch)
            try:
                return decode(batch, CHECK_INTERVAL)
            except Exception as error:
                if not is_out_of_memory(error):
                    decode(batch)  # check all steps, to blame the model if it is at fault
                raise
        except RowError as error:
            raise locate(error, decode, batch) from None

    def scored(
        self, model: Scorer, by: str, kind: Kind = Kind.EXACT, folder: Path | None = None
    ) -> Sequence[Prediction]:
        """Score the targets by a likelihood of the model; return predictions sorted by id, like `decoded`."""
        info = getattr(self.task, "info", None)
        if isinstance(model, OwnVocabulary | TextScorer) and info is not None and info.consecutive:
            raise SuiteError(
                f"{type(model).__name__} scores whole texts, but the examples of this task are windows of a stream. "
                "Score it on a task of sentences or documents."
            )
        if isinstance(model, TextScorer):
            return by_id(self._score_texts(model, kind), folder)
        return by_id(self._score(model, by, kind), folder)

    def _score_texts(self, model: TextScorer, kind: Kind) -> Iterator[Prediction]:
        """Score target texts and yield predictions; raise PluginError if all tokens have probability 1.

        Warns if some targets of several tokens have probability 1.
        """
        done, certain, tokens, log_prob, generation = 0, 0, 0, 0.0, self._generation(None)
        for batch in self._batches(Purpose.SCORE):
            for prediction in self._texts.score(model, batch, generation, kind, self._groups):
                nats = prediction.target_log_prob or 0.0
                tokens, log_prob = tokens + prediction.target_tokens, log_prob + nats
                certain += is_certain(prediction.target_tokens, nats)
                yield prediction
            done += len(batch)
            self.tell(done, self.number or 0)
        check_not_certain(model, tokens, log_prob)
        if certain:
            self.warn(
                f"{certain:,} of {done:,} targets of {self.split!r} have probability 1. The system may have replaced "
                "missing log-probabilities with 0."
            )

    def _score(self, model: Scorer, by: str, kind: Kind) -> Iterator[Prediction]:
        """Score the targets and yield predictions."""
        memory, carries, done, is_own = None, True, 0, isinstance(model, OwnVocabulary)
        look = self._second_look(model)

        def score(part: Batch) -> tuple[Batch, Scores]:
            read = self._texts.encode(model, part, scored=True) if isinstance(model, OwnVocabulary) else part
            batch = self._on_device(read)
            scores = model.score(batch, Scoring(by, self.rng, memory if part.continues else None))
            check_scores(scores, model, batch, kind)
            return read, scores

        batches = side_by_side(self._batches(Purpose.SCORE), self.size, lambda: not carries)
        for batch, (read, scores) in self._in_parts(batches, score):
            memory = scores.memory
            look.offer(read, scores.log_probs)
            carries = carries and not (batch.continues and memory is None)
            log_probs = scores.log_probs.double().tolist()
            values = {name: tensor.double().tolist() for name, tensor in scores.values.items()}
            by_token = {name: tensor.tolist() for name, tensor in scores.by_token.items()}
            weights = batch.extras["weight"].double().tolist() if "weight" in batch.extras else [1.0] * len(batch)
            targets = self._targets(model, read) if is_own else map(self._with_size, self._targets(model, read))
            for row, prediction in enumerate(targets):
                row_values = {name: column[row] for name, column in values.items()}
                end = int(read.length[row])
                row_tokens = {name: column[row][:end] for name, column in by_token.items()} or None
                scored = {"target_log_prob": log_probs[row], "weight": weights[row], "by_token": row_tokens}
                yield replace(prediction, values=row_values, **scored)
            done += len(batch)
            self.tell(done, self.number or 0)
        look.at_scored(lambda model, rows: model.score(self._on_device(rows), Scoring(by, self.rng)).log_probs, by)

    def _targets(self, model: Any, batch: Batch) -> Iterator[Prediction]:
        """Yield a prediction for each row, without outputs or scores, with target lengths in the model's tokens."""
        if isinstance(model, OwnVocabulary):
            return self._texts.own_targets(batch, self._groups)
        return (self._target(number, gold) for number, gold in zip(*rows(batch), strict=True))

    def _target(self, number: int, gold: list[int]) -> Prediction:
        """Return a prediction for an example, without outputs or scores, with target lengths in the task's tokens."""
        target = gold[:-1] if gold and gold[-1] == 0 else gold
        words = len(self.task.text(target).split()) + len(gold) - len(target)
        return Prediction(number, target_tokens=len(gold), target_words=words, group=self._groups.get(number))

    def _with_size(self, target: Prediction) -> Prediction:
        """Add the size of the raw target text to a prediction, if known."""
        if target.id not in self._sizes:
            return target
        if size := self._sizes[target.id]:
            return replace(target, target_bytes=size.bytes, target_characters=size.characters)
        return replace(target, target_words=None)

    @cached_property
    def _sizes(self) -> Mapping[int, TextSize | None]:
        return self.task.target_sizes(self.split)

    @cached_property
    def _groups(self) -> Mapping[int, int]:
        return self.task.groups(self.split)

    def _in_parts(self, batches: Iterator[Batch], work: Callable[[Batch], T]) -> Iterator[tuple[Batch, T]]:
        """Process batches, halving them when memory runs out; yield each part with its result."""
        most = 0  # maximum number of rows; 0 until memory runs out
        for batch in batches:
            parts = [*split(batch, most)] if most else [batch]
            while parts:
                if most and batch.continues:  # each row of a stream needs the memory of all earlier rows
                    raise PluginError("out of memory inside a stream. Lower `limits.batch_size`.")
                part = parts.pop(0)
                try:
                    result = work(part)
                except (MemoryError, RuntimeError) as error:
                    if len(part) == 1 or not is_out_of_memory(error):
                        raise
                    most = (len(part) + 1) // 2
                else:
                    yield part, result
                    continue
                # Outside the except block, so that the error no longer holds references to tensors.
                self.warn(f"out of memory with {len(part)} rows per batch; continuing with {most}.")
                if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
                    torch.cuda.empty_cache()
                parts = [*split(part, most), *(half for rest in parts for half in split(rest, most))]

    def _blind(self, batch: Batch) -> Batch:
        """Return a copy of a batch with hidden targets."""
        return self._on_device(without_targets(batch))

    def _on_device(self, batch: Batch) -> Batch:
        """Return a copy on the device, which a part may modify."""
        return batch.to(self.device, copy=True)

    def _batches(self, purpose: Purpose) -> Iterator[Batch]:
        """Yield batches of the whole split, or of the first `number` examples in a fixed random order."""
        rng = None if self.number is None else Rng(0).fork("examples").fork(self.split)
        number, first = (sys.maxsize if most is None else most for most in (self.number, self.first))
        done = 0
        for batch in self.task.batches(self.split, purpose, Size(self.size), rng):
            left = number - done
            yield batch if len(batch) <= left else batch.select(batch.ids.new_ones(left).cumsum(0) - 1)
            done += len(batch)
            if done >= min(number, first):
                return


def locate(error: RowError, decode: Callable[[Batch], object], batch: Batch) -> PluginError:
    """Find, by bisection, the first example that fails alone; return an error that names it."""
    while len(batch) > 1:
        first, *rest = split(batch, (len(batch) + 1) // 2)
        try:
            decode(first)
        except RowError as row_error:
            error, batch = row_error, first
        else:
            (batch,) = rest
    try:
        decode(batch)
    except RowError as row_error:
        return row_error.of(int(batch.ids))
    return error  # no row fails alone
