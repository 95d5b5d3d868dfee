"""Cases: small parts in float64 with suitable data, for contracts to test."""

from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor

from bench_authors.looks.rows import float64, pad
from bench_authors.looks.rows import one_row as one_row
from bench_authors.looks.rows import replay as replay
from bench_authors.testing.contracts import seed_torch
from bench_core import (
    STOP,
    Batch,
    DecoderConfig,
    Generation,
    Hypothesis,
    Kind,
    Loss,
    MetricConfig,
    Model,
    ModelConfig,
    OwnVocabulary,
    Prediction,
    Prompt,
    Purpose,
    Rng,
    Scorer,
    Scoring,
    Size,
    Source,
    Stepper,
    SuiteError,
    TaskConfig,
    TaskInfo,
    TextScorer,
    Training,
)
from bench_core.suites.cells import can_pair
from bench_core.suites.check import misfit

TARGETS = ((1, 2, 3), (4,), (), (2, 2, 1, 3), (3, 1))  # of different lengths, so that rows end one by one
WORDS = ("<stop>", "a", "b", "c", "d")
SHAPES = {Source.VECTOR: (3,), Source.GRID: (2, 3), Source.IMAGE: (3, 3, 4)}
PROMPTS = tuple(Prompt(40 + place, text) for place, text in enumerate(("a cat", "no", "two dogs ran", "it", "we")))
TEXTS = ("a b", "c", "", "bb a", "ca")  # targets of the prompts
RNG = Rng(7)
SIZE = Size(3)


@dataclass(frozen=True)
class Case:
    """A model with its Config, a suitable batch, and optionally a decoder."""

    config: ModelConfig
    model: Any  # in float64 and evaluation mode
    info: TaskInfo
    batch: Batch
    decoder: Any = None  # a Decoder
    rng: Rng = RNG
    quick: bool = False  # use fewer samples and do not train the model

    @classmethod
    def of(
        cls,
        config: ModelConfig,
        decoder: DecoderConfig | None = None,
        *,
        info: TaskInfo | None = None,
        batch: Batch | None = None,
        source: Source | None = None,
        seed: int = 0,
        scale: float = 2.5,
        device: str = "cpu",
    ) -> Self:
        """Build the model in float64 with weights scaled by `scale`, so that rows differ."""
        reason = decoder and misfit(decoder, config)
        if reason:
            raise SuiteError(reason)
        source = source or (Source.NONE if Source.NONE in config.sources else min(config.sources))
        info = info or tiny_info(source)
        with float64(), torch.random.fork_rng(devices=[]), torch.no_grad():
            seed_torch(seed)
            model = config.load()(config, info).to(device)
            if batch is None:
                has_vocabulary = isinstance(model, OwnVocabulary)
                batch = model.encode(PROMPTS, TEXTS) if has_vocabulary else tiny_batch(source=source)
            batch = batch.to(device)
            model.setup(info, Rng(seed).fork("setup"))
            model.fit_statistics(lambda: iter([batch]), Rng(seed).fork("survey"))
            for weights in model.parameters():
                weights.mul_(scale)
        return cls(config, model.eval(), info, batch, decoder and decoder.load()(decoder))

    def scored(self, by: str, batch: Batch | None = None, rng: Rng | None = None) -> Tensor:
        """Score the targets: return their log-probabilities [N]."""
        batch = self.batch if batch is None else batch
        scores: Tensor = self.model.score(batch, Scoring(by, rng or self.rng)).log_probs
        return scores

    def loss(self, batch: Batch | None = None, memory: object = None, step: int = 0, smoothing: float = 0.0) -> Loss:
        """Return the loss of a batch at a training step, with label smoothing."""
        batch = self.batch if batch is None else batch
        training = Training(step, 100, 0, 1, self.rng.fork(step), memory, label_smoothing=smoothing)
        loss: Loss = self.model.loss(batch, training)
        return loss

    def decoded(self, batch: Batch | None = None, model: Model | None = None) -> list[list[Hypothesis]]:
        """Decode the batch."""
        batch, model = self.batch if batch is None else batch, self.model if model is None else model
        outputs: list[list[Hypothesis]] = self.decoder.decode(model, batch, self.rng)
        return outputs


@dataclass(frozen=True)
class TaskCase:
    """A task that reads a folder prepared by another instance of its class."""

    config: TaskConfig
    task: Any  # built from `config`
    info: TaskInfo  # result of `prepare`
    data: Path  # corpora
    folder: Path  # prepared data
    size: Size = SIZE  # batch size, 3 rows
    windows: Set[Purpose] = frozenset()  # purposes whose rows are windows of a stream, without beginning or end
    rng: Rng = RNG  # used for shuffling

    @classmethod
    def of(
        cls,
        config: TaskConfig,
        data: Path,
        folder: Path,
        size: Size = SIZE,
        windows: Set[Purpose] = frozenset(),
    ) -> Self:
        """Prepare the task in `folder`, which must exist without files of the same names, from the corpora in `data`.

        Purposes with a batch that `continues` belong to `windows` automatically.
        """
        info = config.complete(config.load()(config, folder).prepare(data))
        return cls(config, config.load()(config, folder), info, data, folder, size, windows)

    def purposes(self) -> list[tuple[str, Purpose]]:
        """Return the splits train, valid and test with each of their purposes."""
        return [(split, use) for split in ("train", "valid", "test") for use in sorted(self.config.purposes(split))]

    def batches(self, split: str, purpose: Purpose, size: Size | None = None, rng: Rng | None = None) -> list[Batch]:
        """Return the batches of an epoch."""
        return list(self.task.batches(split, purpose, size or self.size, rng))


@dataclass(frozen=True)
class MetricCase:
    """A prepared metric with predictions to score."""

    config: MetricConfig
    metric: Any  # built and prepared
    predictions: Sequence[Prediction]

    @classmethod
    def of(
        cls, config: MetricConfig, predictions: Sequence[Prediction] | None = None, *, info: TaskInfo | None = None
    ) -> Self:
        """Build the metric and prepare it with the references of the predictions."""
        predictions = predictions or tiny_predictions()
        references = {prediction.id: prediction.references for prediction in predictions}
        return cls(config, config.load()(config).prepare(info or tiny_info(), references), predictions)


@dataclass(frozen=True)
class TextCase:
    """A text generator with its Config, a decoder, and prompts."""

    config: ModelConfig
    model: Any  # built from `config`
    decoder: Any  # a TextDecoder
    prompts: Sequence[Prompt]
    generation: Generation

    @classmethod
    def of(
        cls, config: ModelConfig, decoder: DecoderConfig, folder: Path, prompts: Sequence[Prompt] = PROMPTS,
        split: str = "test",
    ) -> Self:  # fmt: skip
        """Build model and decoder; `folder` is the store's folder of cached answers."""
        assert can_pair(decoder, config), f"{decoder.name} does not decode {config.name}"
        info = tiny_info(min(config.sources))
        generation = Generation(decoder, split, 0, RNG, folder)
        return cls(config, config.load()(config, info).eval(), decoder.load()(decoder), prompts, generation)

    def generate_texts(self, prompts: Sequence[Prompt] | None = None) -> list[list[Hypothesis]]:
        """Return the hypotheses of each prompt."""
        outputs = self.decoder.decode_texts(self.model, self.prompts if prompts is None else prompts, self.generation)
        return [[*row] for row in outputs]


def tiny_info(source: Source = Source.NONE) -> TaskInfo:
    """Return task info with five target tokens, their counts, and seven source tokens or the shape of the source."""
    names = [*WORDS, "e", "f"] if source in (Source.TOKENS, Source.BAG) else []
    words = {"words": ["a", "abc", "cbb"]}
    return TaskInfo(list(WORDS), [5, 4, 3, 2, 1], names, SHAPES.get(source, ()), words, source)


def tiny_batch(
    targets: Sequence[Sequence[int]] = TARGETS,
    source: Source = Source.NONE,
    prefix: int | None = None,
    first: int = 40,
) -> Batch:
    """Return a batch of targets with ids from `first`, each with a different source or prompt.

    A prompt has `prefix` tokens: by default, one if there is no source, else none.
    """
    prefix = int(source is Source.NONE) if prefix is None else prefix
    ids = torch.arange(first, first + len(targets))
    gold, length = pad(targets)
    prompt = torch.tensor(
        [[STOP, *(1 + (row + place) % 4 for place in range(prefix))] for row in range(len(targets))]
    )
    batch = Batch(ids, prompt, gold, length)
    if source is Source.NONE:
        return batch
    if source in SHAPES:
        with float64():
            values = Rng(5).normal(ids, 0, prod(SHAPES[source]))
        values = values.sigmoid() if source is Source.IMAGE else values
        return replace(batch, source=values.view(-1, *SHAPES[source]))
    sources = [[1 + (3 * row + place) % 6 for place in range(1 + row % 4)] for row in ids.tolist()]
    padded, lengths = pad(sources)
    return replace(batch, source=padded[:, :-1], source_length=lengths - 1)  # sources have no EOS


def tiny_predictions() -> list[Prediction]:
    """Return correct, wrong, empty and unfinished predictions, both decoded and scored."""
    texts = {
        "the cat sat on the mat": "the cat sat on the mat",
        "a dog ran in the old park": "the dog ran in a park",
        "we see rain": "",
        "birds sing": "birds birds birds birds birds birds",
        "it is cold today in town": "it is cold today in town and cold again",
    }
    return [_prediction(i, reference, text) for i, (reference, text) in enumerate(texts.items())]


def _prediction(number: int, reference: str, text: str) -> Prediction:
    tokens, finished = [1 + len(word) % 4 for word in text.split()], "again" not in text
    length = len(reference.split()) + 1
    return Prediction(
        number, references=[reference, reference.replace("the", "a")],
        hypotheses=[Hypothesis(tokens, finished, -1.5 * len(tokens) - 0.25, tokens, {"order": float(number)})],
        texts=[text], target_log_prob=-1.25 * length - number, target_tokens=length, target_words=length,
        target_bytes=len(reference) + 1, target_characters=len(reference) + 1, weight=1 + number / 2,
        values={"order": float(number)},
    )  # fmt: skip


def can(*capabilities: type[Model]) -> Callable[[Case], bool]:
    """Return a predicate for cases whose model has all these capabilities, for tokens."""
    return lambda case: all(
        isinstance(case.model, capability) and not (capability is Scorer and isinstance(case.model, TextScorer))
        for capability in capabilities
    )


def default_likelihood(case: Case) -> tuple[str, Kind]:
    """Return the name and kind of the default likelihood of a model."""
    return next(iter(case.config.likelihoods.items()))


def repeat_row(case: Case, targets: Sequence[Sequence[int]], row: int = 0) -> Batch:
    """Return a batch that repeats a row once with each of `targets`; ids count from 0."""
    rows = torch.full((len(targets),), row, device=case.batch.ids.device)
    gold, length = (tensor.to(rows.device) for tensor in pad(targets))
    ids = torch.arange(len(targets), device=rows.device)
    return replace(case.batch.select(rows), ids=ids, gold=gold, length=length)


def reverse_rows(batch: Batch) -> Batch:
    """Return a batch with its rows in reverse order."""
    return batch.select(torch.arange(len(batch), device=batch.ids.device).flip(0))


def costs(model: Stepper, batch: Batch, chain: Sequence[int]) -> list[Tensor]:
    """Return the log-probabilities [A] of actions at each step of a sequence, for a batch of one row."""
    actions = torch.tensor([chain], device=batch.ids.device)
    return [log_probs[0] for _, log_probs, _ in replay(model, batch, actions)]
