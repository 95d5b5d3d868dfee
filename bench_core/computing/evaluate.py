"""Decodes or scores the examples of a split with a model, and returns outcomes."""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import torch

from bench_core.computing.batch_parts import rows, side_by_side, split
from bench_core.computing.guarded_log_probs import RowError, guarded
from bench_core.computing.guarded_tasks import check_known
from bench_core.computing.hidden_targets import without_targets
from bench_core.computing.laws import Laws
from bench_core.computing.looks import NoLook, second_look
from bench_core.computing.memory_errors import is_out_of_memory
from bench_core.computing.result_checks import check_hypotheses, check_not_certain, check_scores, is_certain, named
from bench_core.computing.texts import Texts, written
from bench_core.config import ModelConfig
from bench_core.data import Batch, Hypothesis, Kind, Outcome, Prompt, Purpose
from bench_core.decoder import Decoder, TextDecoder
from bench_core.errors import Fault, PluginError, SuiteError
from bench_core.generation_loop import limits
from bench_core.model import Generation, OwnVocabulary, Scorer, Scores, Scoring, Stepper, TextGenerator, TextScorer
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
    seed: int = 0  # of the cell, for text generators
    answers: Path = Path()  # the folder of the store where these keep answers
    looked_at: tuple[ModelConfig, Laws] | None = None  # the model's Config; None: no second look

    def decoded(self, model: Any, decoder: Decoder, folder: Path | None = None) -> Sequence[Outcome]:
        """Decode the examples; return their outcomes in order of id, kept in a temporary file if they are many.

        The file is in `folder`, by default where such files are.
        """
        return by_id(self._decode(model, decoder), folder)

    def _decode(self, model: Any, decoder: Decoder) -> Iterator[Outcome]:
        """Yield the outcomes as they are decoded."""
        references, texts = self.task.references(self.split), self._texts
        is_own = isinstance(model, OwnVocabulary)
        told = {} if is_own or isinstance(model, TextGenerator) else self.task.written(self.split)
        last, done, lost = list[Outcome](), 0, 0
        look = self._second_look(model, decoder)

        def decode(part: Batch) -> tuple[Batch, list[list[Hypothesis]]]:
            if isinstance(decoder, TextDecoder):
                generation = self._generation(decoder, len(references))
                return part, written(decoder, model, texts.prompts(part), generation)
            read = texts.encoded(model, part) if isinstance(model, OwnVocabulary) else part
            return read, self._decoded(model, decoder, self._blind(read), last)

        for batch, (read, hypotheses) in self._in_parts(self._batches(Purpose.DECODE), decode):
            check_known(self.task, self.split, references, batch.ids.tolist())
            look.offer(read, hypotheses)
            targets = self._targets(model, read)
            prompts = texts.prompts(batch)
            told = texts.written(model, prompts, read) if isinstance(model, OwnVocabulary) else told
            for prompt, target, own in zip(prompts, targets, hypotheses, strict=True):
                given, outputs = list(references[target.id]), [self._text(one, model, prompt) for one in own]
                own = [replace(one, text=None) for one in own]
                found = replace(target, prompt=prompt.text, references=given, hypotheses=own, texts=outputs)
                last = [replace(found, written=told.get(target.id))]
                lost += is_own and target.id in told and told[target.id] not in given
                yield last[0]
            done += len(batch)
            self.tell(done, self.number or len(references))
        if lost:
            whose: Fault = f"the tokens of {type(model).__name__}, which bounds scores."
            self.warn(f"{lost:,} of {done:,} references of {self.split!r} cannot be written by {whose}")
        look.at_decoded(self._decode_blindly(decoder), done)

    def _second_look(self, model: Any, decoder: Decoder | None = None) -> Any:
        """Return the second look at what is decoded or scored."""
        if self.looked_at is None or isinstance(decoder, TextDecoder):
            return NoLook()
        about = model, *self.looked_at, decoder, self.noise, self.device, f"{self.split} {self.seed}"
        return second_look("models", *about)

    def _decode_blindly(self, decoder: Decoder) -> Callable[[Any, Batch], list[list[Hypothesis]]]:
        return lambda model, rows: decoder.decode(model, self._blind(rows), self.noise)

    def _text(self, hypothesis: Hypothesis, model: Any, prompt: Prompt) -> str:
        if hypothesis.text is not None:
            return hypothesis.text
        if isinstance(model, OwnVocabulary):
            return model.output(hypothesis.tokens, prompt)
        return self.task.text(hypothesis.tokens)

    @cached_property
    def _texts(self) -> Texts:
        return Texts(self.task, self.split)

    def _generation(self, decoder: Decoder[Any] | None, examples: int | None = None) -> Generation:
        settings = decoder and decoder.config
        return Generation(settings, self.split, self.seed, self.noise, self.answers, self.warn, examples)

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
        words = model.vocabulary_size if isinstance(model, OwnVocabulary) else self.words
        tells = [one.log_prob is not None for outcome in before for one in outcome.hypotheses]

        def decode(part: Batch, every: int = 1) -> list[list[Hypothesis]]:
            with guarded(model, words, thorough, every):
                own = limits(model, part, most).tolist() if isinstance(model, Stepper) else [most] * len(part)
                found = decoder.decode(model, part, self.noise)
            check_hypotheses(found, named(decoder, "decode"), part.ids.tolist(), own, words)
            return found

        try:
            if not tells or not all(tells):
                return decode(batch)
            try:
                return decode(batch, SOME)
            except Exception as error:
                if not is_out_of_memory(error):
                    decode(batch)  # all steps: is it the model's fault?
                raise
        except RowError as error:
            raise blamed(error, decode, batch) from None

    def scored(
        self, model: Scorer, by: str, kind: Kind = Kind.EXACT, folder: Path | None = None
    ) -> Sequence[Outcome]:
        """Score the targets by one likelihood of the model; return their outcomes in order of id, as `decoded`."""
        info = getattr(self.task, "info", None)
        if isinstance(model, OwnVocabulary | TextScorer) and info is not None and info.consecutive:
            raise SuiteError(
                f"{type(model).__name__} scores whole texts, and the examples of this task are windows of a stream. "
                "Score it on a task of sentences or documents."
            )
        if isinstance(model, TextScorer):
            return by_id(self._score_texts(model, kind), folder)
        return by_id(self._score(model, by, kind), folder)

    def _score_texts(self, model: TextScorer, kind: Kind) -> Iterator[Outcome]:
        """Yield the outcomes of targets as text; raise PluginError if all of their tokens have probability 1.

        Warns of texts of several tokens that are all certain among others that are not.
        """
        done, certain, tokens, log_prob, generation = 0, 0, 0, 0.0, self._generation(None)
        for batch in self._batches(Purpose.SCORE):
            for outcome in self._texts.scored(model, batch, generation, kind, self._groups):
                own = outcome.target_log_prob or 0.0
                tokens, log_prob = tokens + outcome.target_tokens, log_prob + own
                certain += is_certain(outcome.target_tokens, own)
                yield outcome
            done += len(batch)
            self.tell(done, self.number or 0)
        check_not_certain(model, tokens, log_prob)
        if certain:
            self.warn(
                f"{certain:,} of {done:,} targets of {self.split!r} have probability 1, as from a system that leaves "
                "some log-probabilities out and fills in 0."
            )

    def _score(self, model: Scorer, by: str, kind: Kind) -> Iterator[Outcome]:
        """Yield the outcomes as they are scored."""
        memory, carries, done, own = None, True, 0, isinstance(model, OwnVocabulary)
        look = self._second_look(model)

        def score(part: Batch) -> tuple[Batch, Scores]:
            read = self._texts.encoded(model, part, scored=True) if isinstance(model, OwnVocabulary) else part
            batch = self._on_device(read)
            scores = model.score(batch, Scoring(by, self.noise, memory if part.continues else None))
            check_scores(scores, model, batch, kind)
            return read, scores

        batches = side_by_side(self._batches(Purpose.SCORE), self.size, lambda: not carries)
        for batch, (read, scores) in self._in_parts(batches, score):
            memory = scores.memory
            look.offer(read, scores.log_probs)
            carries = carries and not (batch.continues and memory is None)
            log_probs = scores.log_probs.double().tolist()
            values = {name: tensor.double().tolist() for name, tensor in scores.values.items()}
            weights = batch.extras["weight"].double().tolist() if "weight" in batch.extras else [1.0] * len(batch)
            targets = self._targets(model, read) if own else map(self._sized, self._targets(model, read))
            for row, outcome in enumerate(targets):
                left = {name: column[row] for name, column in values.items()}
                yield replace(outcome, target_log_prob=log_probs[row], weight=weights[row], values=left)
            done += len(batch)
            self.tell(done, self.number or 0)
        look.at_scored(self._score_alone(by), by)

    def _score_alone(self, by: str) -> Callable[[Any, Batch], torch.Tensor]:
        return lambda model, rows: model.score(self._on_device(rows), Scoring(by, self.noise)).log_probs

    def _targets(self, model: Any, batch: Batch) -> Iterator[Outcome]:
        """Yield the outcome of each row, as the model reads it, before it is decoded or scored."""
        if isinstance(model, OwnVocabulary):
            return self._texts.own_targets(batch, self._groups)
        return (self._target(number, gold) for number, gold in zip(*rows(batch), strict=True))

    def _target(self, number: int, gold: list[int]) -> Outcome:
        """Return the outcome of an example before it is decoded or scored, in tokens of the task."""
        target = gold[:-1] if gold and gold[-1] == 0 else gold
        words = len(self.task.text(target).split()) + len(gold) - len(target)
        return Outcome(number, target_tokens=len(gold), target_words=words, group=self._groups.get(number))

    def _sized(self, target: Outcome) -> Outcome:
        """Return the outcome of a target of the task with the size of its raw text, where that is known."""
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
        most = 0  # rows, once memory has run out
        for batch in batches:
            parts = [*split(batch, most)] if most else [batch]
            while parts:
                if most and batch.continues:  # each row of a stream needs what is remembered of all before it
                    raise PluginError("out of memory inside a stream. Set a smaller `limits.batch_size`.")
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
                # Only here, where the error has let go of what it held, is there memory again.
                self.warn(f"out of memory with {len(part)} rows per batch; continuing with {most}.")
                if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
                    torch.cuda.empty_cache()
                parts = [*split(part, most), *(half for rest in parts for half in split(rest, most))]

    def _blind(self, batch: Batch) -> Batch:
        """Return a copy of a batch without its targets."""
        return self._on_device(without_targets(batch))

    def _on_device(self, batch: Batch) -> Batch:
        """Return a copy that a part may modify."""
        return batch.to(self.device, copy=True)

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
        first, *rest = split(batch, (len(batch) + 1) // 2)
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
