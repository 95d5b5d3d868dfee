"""Base class of published causal and encoder-decoder models: tokenizers, stop strings, and scores from logits."""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from bench_core import (
    STOP,
    Batch,
    OwnVocabulary,
    Prompt,
    Rng,
    Scorer,
    Scores,
    Scoring,
    State,
    Stepper,
    SuiteError,
    TaskInfo,
)
from bench_huggingface import network
from bench_huggingface.checkpoint import Family
from bench_huggingface.folder import CONFIG
from bench_huggingface.joint_text import Joint
from bench_huggingface.numbering import CheckpointNumbering
from bench_huggingface.plugin import CheckpointConfig
from bench_huggingface.stop_strings import StopStrings
from bench_huggingface.windows import windows
from bench_huggingface.words import CheckpointTokenizer

MAX_LOGITS = 2**27  # maximum number of logits computed at once in scoring
TOLERANCE = {torch.bfloat16: 0.2, torch.float16: 0.05}  # maximum difference of log-probabilities computed in two ways


@dataclass(frozen=True)
class PretrainedState(State):
    """The state of a model, and its output if stop strings are used."""

    reading: Any  # a State
    tokens: Tensor | None  # [N, K]


class PretrainedModel(nn.Module, OwnVocabulary, Stepper[PretrainedState], Scorer):
    """p(y | x) = prod_t p(y_t | y_<t, x), from the logits of a checkpoint, over its own tokens.

    The `source` of a batch contains prompt tokens, as ids of the checkpoint. Stepping does not compute gradients.
    """

    family: ClassVar[Family]
    weights_in_files: ClassVar = ("network.",)

    def __init__(self, config: CheckpointConfig, info: TaskInfo) -> None:
        super().__init__()
        self.folder = info.files[CONFIG].parent
        settings = network.load_config(self.folder, self.family)
        self.words = CheckpointTokenizer(self.folder, config, settings)
        self.network: Any = network.build(settings, False, self.family, getattr(torch, config.dtype))
        self.positions = network.positions(settings)
        self.stride: int | None = getattr(config, "stride", None)
        if self.stride and self.positions and self.stride > self.positions[0]:
            raise SuiteError(
                f"windows with `stride: {self.stride}` skip tokens: the model in {self.folder} has only "
                f"{self.positions[0]} positions (`{self.positions[1]}`). Set a smaller `stride`."
            )
        self.vocabulary_size = min(len(self.words), settings.get_text_config().vocab_size)
        self.numbering = self._numbering()
        self.stops = StopStrings(self.words.stops, self._decode) if self.words.stops else None

    @abstractmethod
    def begin(self, batch: Batch) -> tuple[Tensor, State]:
        """Read prompts; return the logits of the first token [N, M], and the state."""

    @abstractmethod
    def advance(self, reading: Any, tokens: Tensor) -> tuple[Tensor, State]:
        """Read one token id of the model per row [N]; return the next logits [N, M], and the state."""

    @abstractmethod
    def logits(self, batch: Batch) -> Tensor:
        """Return the logits [N, T, M] for each token of `gold`, given prompts and preceding tokens."""

    @abstractmethod
    def tokens_of(self, prompt: str) -> list[int]:
        """Return the tokens of a prompt, as ids of the model."""

    @abstractmethod
    def joint(self, prompt: Prompt, target: str) -> Joint:
        """Return the tokens of a prompt and its target, as ids of the model."""

    def setup(self, info: TaskInfo, rng: Rng) -> None:
        self.read_weights()
        network.refuse_errors(type(self.network).__name__, self._check)

    def read_weights(self) -> None:
        network.load(self.network, self.folder)

    def encode(self, prompts: Sequence[Prompt], targets: Sequence[str] | None = None) -> Batch:
        if targets:
            rows = [self.joint(*pair) for pair in zip(prompts, targets, strict=True)]
        else:
            rows = [Joint(self.tokens_of(prompt.text), [], spelled=True) for prompt in prompts]
        sources = [row.prompt for row in rows]
        for prompt, source in zip(prompts, sources, strict=True):
            self._check_prompt(prompt, source, bool(targets))
        golds = [[*self.numbering.swap(row.target), STOP] for row in rows]
        batch = _batch(torch.tensor([prompt.id for prompt in prompts], dtype=torch.long), sources, golds)
        spelled = {"spelled": torch.tensor([row.spelled for row in rows])} if targets else {}
        return replace(batch, extras=spelled)

    def text(self, tokens: list[int]) -> str:
        return self.words.text(self._whole(tokens))

    def output(self, tokens: list[int], prompt: Prompt) -> str:
        whole = self._whole(tokens)
        text = self.words.output(whole, prompt) if self.family == "causal" else self.words.text(whole)
        return self.words.answer(text, whole, prompt)

    def _whole(self, tokens: list[int]) -> list[int]:
        """Convert actions to ids of the model, truncated at the first EOS token, which may be inside a target."""
        return [*takewhile(lambda token: token not in self.words.ends, self.numbering.swap(tokens))]

    @torch.no_grad()
    def start(self, batch: Batch) -> tuple[Tensor, PretrainedState]:
        logits, reading = self.begin(batch)
        return self._next(logits, reading, batch.prompt[:, :0] if self.stops else None)

    @torch.no_grad()
    def step(self, state: PretrainedState, actions: Tensor) -> tuple[Tensor, PretrainedState]:
        logits, reading = self.advance(state.reading, self.numbering.of_model(actions))
        tokens = None if state.tokens is None else torch.cat([state.tokens, actions[:, None]], 1)
        return self._next(logits, reading, tokens)

    @torch.no_grad()
    def score(self, batch: Batch, scoring: Scoring) -> Scores:
        """Score rows of similar length together, up to MAX_LOGITS at once."""
        self._check_ends(batch)
        if self.stride and self.positions and (limits := self.limit(batch)) is not None:
            is_longer = batch.length > limits
            if bool(is_longer.any()):
                sums = self._sums(self._in_windows(batch, self.stride), batch)
                return Scores(sums, {"stride": is_longer.double() * self.stride})
        self._check_lengths(batch)
        total = torch.zeros(len(batch), dtype=torch.float64, device=batch.ids.device)
        for rows in self._by_length(batch):
            part = _trim(batch.select(rows))
            total = total.index_add(0, rows, self._sums(self._target_log_probs(part), part))
        return Scores(total)

    def _sums(self, log_probs: Tensor, batch: Batch) -> Tensor:
        """Return the log-probability of each row [N], given the log-probabilities of its tokens [N, T]."""
        if self.stops:
            log_probs = self.stops.apply_to_targets(log_probs, batch.gold, batch.length)
        return log_probs.double().where(batch.mask, 0).sum(1)

    def _by_length(self, batch: Batch) -> Sequence[Tensor]:
        """Return groups of rows of similar length, each within MAX_LOGITS."""
        number = max(1, MAX_LOGITS // (batch.gold.shape[1] * self.vocabulary_size))
        return torch.split(batch.length.argsort(stable=True), number)

    def _in_windows(self, batch: Batch, stride: int) -> Tensor:
        """Return the log-probabilities of `gold` [N, T], each from the window that scores it."""
        device = batch.ids.device
        all_windows = [*windows(batch, (self.positions or (0, ""))[0], stride, self.numbering.swap)]
        numbers = torch.tensor([window.row for window in all_windows], device=device)
        begins = torch.tensor([window.begin for window in all_windows], device=device)
        ids, scored = batch.ids.cpu()[numbers.cpu()], [window.scored for window in all_windows]
        read = _batch(ids, [window.read for window in all_windows], scored)
        read, log_probs = read.to(device), torch.zeros_like(batch.gold, dtype=torch.float64)
        for rows in self._by_length(read):
            part = _trim(read.select(rows))
            real = part.mask
            places = begins[rows, None] + torch.arange(part.gold.shape[1], device=device)
            computed = self._target_log_probs(part).double()
            log_probs[numbers[rows, None].expand_as(real)[real], places[real]] = computed[real]
        return log_probs

    def _next(self, logits: Tensor, reading: State, tokens: Tensor | None) -> tuple[Tensor, PretrainedState]:
        log_probs = self.numbering.log_probs(logits)
        if self.stops and tokens is not None:
            log_probs = self.stops.apply(log_probs, tokens)
        return log_probs, PretrainedState(reading, tokens)

    def _numbering(self) -> CheckpointNumbering:
        stop, *ends = self.words.ends
        if stop >= self.vocabulary_size:
            raise SuiteError(f"EOS of the model in {self.folder} is token {stop}, which is not in its vocabulary.")
        more, never = ([token for token in ids if token < self.vocabulary_size] for ids in (ends, self.words.never))
        dtype = torch.promote_types(next(self.network.parameters()).dtype, torch.float32)
        never = [token for token in never if token not in self.words.ends]
        return CheckpointNumbering(self.vocabulary_size, stop, tuple(more), tuple(never), dtype)

    def _decode(self, tokens: list[int]) -> str:
        return self.words.decode(self.numbering.swap(tokens))

    def _check_prompt(self, prompt: Prompt, tokens: list[int], scored: bool) -> None:
        if max(tokens) >= self.network.get_input_embeddings().num_embeddings:
            raise SuiteError(
                f"the tokenizer in {self.folder} returns token {max(tokens)} for example {prompt.id}, which is not "
                "in the model's vocabulary. Tokenizer and model do not match."
            )
        if self.positions and len(tokens) > self.positions[0] and not (scored and self.stride):
            most, name = self.positions
            raise SuiteError(
                f"the prompt of example {prompt.id} has {len(tokens)} tokens, which exceeds the {most} "
                f"positions (`{name}`) of the model. Shorten it, or remove it from the data"
                f"{self._advice(most) if scored else ''}."
            )

    def _advice(self, positions: int) -> str:
        return f", or score it with windows (`stride: {max(1, positions // 2)}`)" if self.family == "causal" else ""

    def _check_ends(self, batch: Batch) -> None:
        """Raise SuiteError if a target contains EOS before its end."""
        ends = torch.tensor([STOP, *self.numbering.swap([*self.numbering.ends])], device=batch.gold.device)
        inside = torch.isin(batch.gold, ends) & batch.mask
        inside &= torch.arange(batch.gold.shape[1], device=batch.gold.device) < batch.length[:, None] - 1
        if not inside.any():
            return
        row, position = inside.nonzero()[0].tolist()
        (token,) = self.numbering.swap([int(batch.gold[row, position])])
        text = self.words.reader.read_back([token])
        raise SuiteError(
            f"the target of example {int(batch.ids[row])} contains {text!r} (token {token}), which is EOS for "
            f"the model in {self.folder}. Remove the example, or correct `eos_token_id` in generation_config.json "
            "(or `stop`, `control_tokens`)."
        )

    def _check_lengths(self, batch: Batch) -> None:
        limits = self.limit(batch)
        if limits is None or bool((batch.length <= limits).all()):
            return
        row = int((batch.length - limits).argmax())
        most, name = self.positions or (0, "")
        raise SuiteError(
            f"the target of example {int(batch.ids[row])} has {int(batch.length[row])} tokens, but only "
            f"{int(limits[row])} fit in the {most} positions (`{name}`) of the model. Shorten it, or remove it from "
            f"the data{self._advice(most)}."
        )

    @torch.no_grad()
    def _check(self) -> None:
        """Raise SuiteError if incremental and full-sequence predictions differ."""
        was_training = self.training
        self.eval()
        if not self.is_consistent():
            raise SuiteError(
                f"incremental and full-sequence predictions of {type(self.network).__name__} differ with these "
                "settings: it cannot continue from its cache. Choose another model."
            )
        self.train(was_training)

    def is_consistent(self) -> bool:
        """Return whether incremental and full-sequence predictions are equal."""
        return self.predicts_alike(self.sample_rows())

    def sample_rows(self) -> Batch:
        """Return rows of predictable tokens: sources of 3, 3 and 1 tokens, and targets of 3."""
        excluded = {STOP, *self.numbering.swap([*self.numbering.ends, *self.numbering.never])}
        a, b, *_ = [token for token in range(self.vocabulary_size) if token not in excluded] * 2
        sources = _pad([self.numbering.swap(row) for row in ([a, b, a], [b, b, a], [b])])
        gold = torch.tensor([[a, b, STOP], [b, a, STOP], [b, b, STOP]])
        rows = torch.arange(3)
        return Batch(rows, gold[:, :1] * 0, gold, rows * 0 + 3, sources, torch.tensor([3, 3, 1]))

    def predicts_alike(self, batch: Batch) -> bool:
        """Return whether rows have equal scores alone, in a batch, and in incremental steps with reordering."""
        batch = batch.to(next(self.network.parameters()).device)
        rows = torch.split(torch.arange(len(batch), device=batch.ids.device), 1)
        wanted = torch.cat([self._target_log_probs(_trim(batch.select(row))) for row in rows])  # [N, T]
        error = (self._target_log_probs(batch) - wanted).abs().max()
        return self._is_tolerable(error.item()) and self._is_tolerable(self._step_error(batch, wanted))

    def _step_error(self, batch: Batch, wanted: Tensor) -> float:
        """Return the maximum difference between incremental and `wanted` log-probabilities [N, T]; may be NaN."""
        logits, reading = self.begin(batch)
        order = torch.arange(len(batch), device=batch.ids.device)
        reversal = order.flip(0)
        errors = []
        for position in range(batch.gold.shape[1]):
            gold = batch.gold[order, position, None]
            log_probs = self.numbering.log_probs(logits).gather(1, gold)[:, 0]
            errors.append((log_probs - wanted[order, position]).abs().max())
            reading, order = reading.select(reversal), order[reversal]
            if position + 1 < batch.gold.shape[1]:
                logits, reading = self.advance(reading, self.numbering.of_model(batch.gold[order, position]))
        return torch.stack(errors).max().item()

    def _target_log_probs(self, batch: Batch) -> Tensor:
        """Return the log-probabilities of `gold` [N, T] in one forward pass."""
        return self.numbering.log_probs(self.logits(batch)).gather(2, batch.gold[..., None])[..., 0]

    def _is_tolerable(self, error: float) -> bool:
        return error < TOLERANCE.get(next(self.network.parameters()).dtype, 1e-3)  # False for NaN


def sources_of(batch: Batch) -> tuple[Tensor, Tensor]:
    """Return the sources [N, S] without all-padding columns, and their lengths [N]."""
    assert batch.source is not None
    assert batch.source_length is not None
    return batch.source[:, : int(batch.source_length.max())], batch.source_length


def _batch(ids: Tensor, sources: list[list[int]], golds: list[list[int]]) -> Batch:
    """Return a batch; sources are ids of the model, targets are actions."""
    lengths, source_lengths = (torch.tensor([*map(len, rows)], dtype=torch.long) for rows in (golds, sources))
    return Batch(ids, torch.full((len(ids), 1), STOP), _pad(golds), lengths, _pad(sources), source_lengths)


def _pad(rows: list[list[int]]) -> Tensor:
    """Return lists of tokens as a tensor [N, T], padded with zeros."""
    width = max(map(len, rows), default=1)
    return torch.tensor([[*row, *[0] * (width - len(row))] for row in rows], dtype=torch.long).view(-1, width)


def _trim(batch: Batch) -> Batch:
    """Remove columns that are padding in all rows."""
    return replace(batch, gold=batch.gold[:, : int(batch.length.max())], source=sources_of(batch)[0])
