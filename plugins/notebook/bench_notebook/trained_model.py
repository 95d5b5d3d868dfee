"""A model of a run with its stored weights, to decode and score new texts."""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from bench_core.computing.building import built
from bench_core.computing.context import StageContext
from bench_core.computing.evaluate import Examples
from bench_core.computing.evaluating import evaluating
from bench_core.computing.guarded_tasks import CheckedTask
from bench_core.computing.loading import load_model
from bench_core.computing.process_state import defined_state
from bench_core.computing.texts import separator_after
from bench_core.data import STOP, Batch, Prediction, Prompt, Purpose, TaskInfo
from bench_core.decoder import Decoder, TextDecoder
from bench_core.errors import SuiteError
from bench_core.model import OwnVocabulary, TextGenerator
from bench_core.planning.stages import Stage
from bench_core.random_numbers import Rng
from bench_core.registry import configured, suggestion
from bench_core.storage.store import ANSWERS, Store
from bench_core.task import Size, Task

SPLIT = "new prompts"  #: used instead of a split name in messages


@dataclass
class TrainedModel:
    """A model of a run: its module in evaluation mode, its tokenizer, and its decoders by name."""

    module: Any  #: the torch module with the stored weights, or the object for a remote system
    task: Task  #: encodes prompts and decodes tokens, unless the module has its own vocabulary
    info: TaskInfo  #: task info, with the vocabulary
    sampled: bool = field(default=False, init=False)  #: whether the last `decode` used random numbers
    _stage: Stage
    _store: Store
    _decoders: Mapping[str, Mapping[str, Any]]
    _max_tokens: int

    @property
    def seed(self) -> int:
        """The seed of training and sampling."""
        return int(self._stage.settings["seed"])

    @cached_property
    def decoders(self) -> Mapping[str, Decoder[Any]]:
        """The decoders that the run used with the model, by name in the suite."""
        return {name: self.decoder(name) for name in self._decoders}

    def decoder(self, name: str | None = None) -> Decoder[Any]:
        """Return a decoder by its name in the suite, or the only decoder; raise SuiteError listing the names.

        If the run only scored the model, `name` is any installed decoder, with its default settings.
        """
        names = [*self._decoders]
        if not names:
            return self._installed_decoder(name)
        if name is None and len(names) > 1:
            raise SuiteError(f"the run has several decoders. Choose one of {', '.join(names)}.")
        if name is not None and name not in names:
            raise SuiteError(f"{self._stage.label} has no decoder called {name!r}. {suggestion(name, names)}")
        chosen: Decoder[Any] = built("decoder", self._decoders[name or names[0]])
        return chosen

    def _installed_decoder(self, name: str | None) -> Decoder[Any]:
        """Return an installed decoder with its default settings and the suite's `max_tokens`."""
        label = self._stage.label
        if name is None:
            raise SuiteError(
                f"the run decodes nothing with {label}. Name an installed decoder: `bench list decoders`."
            )
        settings = {"name": name, "max_tokens": self._max_tokens}
        try:
            needs = configured("decoder", settings).needs
        except ValueError:
            raise SuiteError(f"decoder {name!r} has no default settings. Add it to the suite of the run.") from None
        if not isinstance(self.module, needs):
            raise SuiteError(
                f"decoder {name!r} needs a {needs.__name__}, which {label} is not. Choose another decoder."
            )
        decoder: Decoder[Any] = built("decoder", settings)
        return decoder

    def encode(self, texts: Sequence[str], targets: Sequence[str] | None = None) -> list[Batch]:
        """Encode texts (sources or prompts) as batches of prompts of equal length.

        Row ids are positions in `texts`. With `targets`, `gold` holds the target of each text for scoring.
        """
        between = [separator_after(text, self.task) for text in texts]
        prompts = [Prompt(number, text, separator=between[number]) for number, text in enumerate(texts)]
        if isinstance(self.module, OwnVocabulary):
            return [self.module.encode(prompts, targets)]
        if isinstance(self.module, TextGenerator):
            raise SuiteError(f"{self._stage.label} reads and writes texts: it has no tokenizer. Use `decode`.")
        return [*self.task.encode(prompts, targets)]

    def text(self, tokens: list[int]) -> str:
        """Return the text of target tokens without EOS."""
        vocabulary: Any = self.module if isinstance(self.module, OwnVocabulary) else self.task
        return str(vocabulary.text(tokens))

    def decode(
        self, texts: Sequence[str], decoder: str | Decoder[Any] | None = None, first: int = 0
    ) -> list[Prediction]:
        """Decode texts; predictions are the same as in the run for examples with the same prompt and id.

        `decoder` is a name in the suite or a Decoder; it may be omitted if the suite has a single decoder. The ids of
        texts count from `first`; samples depend on the seed and on the id. For double precision, first call
        `torch.set_default_dtype(torch.float64)` and `module.double()`.
        """
        if not texts:
            return []
        strategy = decoder if isinstance(decoder, Decoder) else self.decoder(decoder)
        prompts = [Prompt(number, text) for number, text in enumerate(texts, first)]
        as_text = isinstance(self.module, TextGenerator | OwnVocabulary)
        settings, answers = self._stage.settings, self._store.root / ANSWERS
        rng = _RecordingRng(Rng(settings["seed"]).fork("decode").key)
        examples = Examples(
            _NewPrompts(self.task, self.info, prompts, as_text), SPLIT, rng, torch.device(settings["device"]),
            settings["batch_size"], words=len(self.info.vocabulary), seed=settings["seed"], answers=answers,
            warn=self._store.warn,
        )  # fmt: skip
        dtype = torch.get_default_dtype()
        with stage_process_state(settings), evaluating(self.module):
            torch.set_default_dtype(dtype)
            predictions = [*examples.decoded(self.module, strategy)]
        is_text = isinstance(strategy, TextDecoder)
        self.sampled = len(strategy.config.seeds([0, 1])) > 1 if is_text else bool(rng.uses)
        return predictions


def stage_process_state(settings: Mapping[str, Any]) -> AbstractContextManager[Any]:
    """Return a context with the process state of stages with these settings."""
    return defined_state(settings["threads"], settings["seed"], os.getcwd(), lambda names: None)


def load_trained(
    context: StageContext, stage: Stage, decoders: Mapping[str, Mapping[str, Any]], max_tokens: int
) -> TrainedModel:
    """Load the model of a decoding stage from the store."""
    if stage.settings["device"] == "cuda" and not torch.cuda.is_available():
        stage = replace(stage, settings={**stage.settings, "device": "cpu"})
        context.warn("no CUDA device is available: computing on the CPU, where last digits may differ.")
    with stage_process_state(stage.settings):
        module, task, _ = load_model(context, stage)
    return TrainedModel(module.eval(), task.task, task.info, stage, context.store, decoders, max_tokens)


@dataclass(frozen=True)
class _RecordingRng(Rng):
    """A random number generator that records whether it is used."""

    uses: list[bool] = field(default_factory=list, compare=False)

    def fork(self, purpose: str | int) -> Rng:
        return _RecordingRng(super().fork(purpose).key, self.uses)

    def uniform(self, ids: torch.Tensor, step: int | torch.Tensor = 0, size: int | None = None) -> torch.Tensor:
        self.uses.append(True)
        return super().uniform(ids, step, size)


class _NewPrompts(Task):
    """A task whose only split is a list of new prompts."""

    def __init__(self, task: Task, info: TaskInfo, prompts: Sequence[Prompt], as_text: bool) -> None:
        super().__init__(task.config, task.folder)
        self.task, self.info, self.prompts, self.as_text = task, info, prompts, as_text

    def prepare(self, data: Path) -> TaskInfo:
        return self.info

    def batches(self, split: str, purpose: Purpose, size: Size, rng: Rng | None = None) -> Iterator[Batch]:
        for start in range(0, len(self.prompts), size.number):
            prompts = self.prompts[start : start + size.number]
            if self.as_text:  # rows without tokens, for systems that read the texts
                ids, stops = torch.tensor([prompt.id for prompt in prompts]), torch.full((len(prompts), 1), STOP)
                yield Batch(ids, stops, stops, torch.ones_like(ids))
            else:
                yield from CheckedTask(self.task, self.info).encode(prompts)

    def text(self, tokens: list[int]) -> str:
        return self.task.text(tokens)

    def prompt(self, tokens: list[int]) -> str:
        return self.task.prompt(tokens)

    def sources(self, split: str) -> Mapping[int, str]:
        return {prompt.id: prompt.text for prompt in self.prompts}

    def references(self, split: str) -> Mapping[int, Sequence[str]]:
        return {prompt.id: [] for prompt in self.prompts}
