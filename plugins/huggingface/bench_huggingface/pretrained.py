"""What published causal and encoder-decoder models share: their own tokens, stop strings, scores by their logits."""

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
    Noise,
    OwnVocabulary,
    Prompt,
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
from bench_huggingface.numbering import OwnNumbering
from bench_huggingface.plugin import CheckpointConfig
from bench_huggingface.stop_strings import StopStrings
from bench_huggingface.windows import windows
from bench_huggingface.words import Words

LOGITS = 2**27  # scored at a time
TOLERANCE = {torch.bfloat16: 0.2, torch.float16: 0.05}  # of log-probabilities that are computed in two ways


@dataclass(frozen=True)
class Written(State):
    """What a model has read, and what it has written where stop strings are looked for."""

    reading: Any  # a State
    tokens: Tensor | None  # [N, K]


class Pretrained(nn.Module, OwnVocabulary, Stepper[Written], Scorer):
    """p(y | x) = prod_t p(y_t | y_<t, x), from the logits of a checkpoint, in its own tokens.

    A batch has the tokens of prompts as its `source`, in the numbers of the checkpoint. Stepping gives no gradients.
    """

    family: ClassVar[Family]
    weights_in_files: ClassVar = ("network.",)

    def __init__(self, config: CheckpointConfig, info: TaskInfo) -> None:
        super().__init__()
        self.folder = info.files[CONFIG].parent
        settings = network.stored(self.folder, self.family)
        self.words = Words(self.folder, config, settings)
        self.network: Any = network.allocated(settings, False, self.family, getattr(torch, config.dtype))
        self.positions = network.positions(settings)
        self.stride: int | None = getattr(config, "stride", None)
        if self.stride and self.positions and self.stride > self.positions[0]:
            raise SuiteError(
                f"windows that move by `stride: {self.stride}` tokens leave some out: the model in {self.folder} has "
                f"{self.positions[0]} positions (`{self.positions[1]}`). Set at most that."
            )
        self.vocabulary_size = min(len(self.words), settings.get_text_config().vocab_size)
        self.numbering = self._numbering()
        self.stops = StopStrings(self.words.stops, self._decoded) if self.words.stops else None

    @abstractmethod
    def begin(self, batch: Batch) -> tuple[Tensor, State]:
        """Read prompts; return the logits of the first token [N, M], and what is to be remembered."""

    @abstractmethod
    def go_on(self, reading: Any, tokens: Tensor) -> tuple[Tensor, State]:
        """Read one more token of each row [N], in the model's numbers; return the logits of the next one [N, M]."""

    @abstractmethod
    def logits(self, batch: Batch) -> Tensor:
        """Return the logits of each token of `gold` [N, T, M], from prompts and the tokens before it."""

    @abstractmethod
    def tokens_of(self, prompt: str) -> list[int]:
        """Return the tokens of a prompt, in the model's numbers."""

    @abstractmethod
    def joint(self, prompt: Prompt, target: str) -> Joint:
        """Return the tokens of a prompt with its target, in the model's numbers."""

    def setup(self, info: TaskInfo, noise: Noise) -> None:
        self.read_weights()
        network.tried(type(self.network).__name__, self._check)

    def read_weights(self) -> None:
        network.load(self.network, self.folder)

    def encode(self, prompts: Sequence[Prompt], targets: Sequence[str] | None = None) -> Batch:
        if targets:
            read = [self.joint(*one) for one in zip(prompts, targets, strict=True)]
        else:
            read = [Joint(self.tokens_of(one.text), [], spelled=True) for one in prompts]
        sources = [one.prompt for one in read]
        for one, source in zip(prompts, sources, strict=True):
            self._check_prompt(one, source, bool(targets))
        golds = [[*self.numbering.own(one.target), STOP] for one in read]
        found = _batch(torch.tensor([one.id for one in prompts], dtype=torch.long), sources, golds)
        spelled = {"spelled": torch.tensor([one.spelled for one in read])} if targets else {}
        return replace(found, extras=spelled)

    def text(self, tokens: list[int]) -> str:
        return self.words.text(self._whole(tokens))

    def output(self, tokens: list[int], prompt: Prompt) -> str:
        own = self._whole(tokens)
        text = self.words.output(own, prompt) if self.family == "causal" else self.words.text(own)
        return self.words.answer(text, own, prompt)

    def _whole(self, tokens: list[int]) -> list[int]:
        """Return tokens in the model's numbers up to the first that ends texts, as targets may have such inside."""
        return [*takewhile(lambda token: token not in self.words.ends, self.numbering.own(tokens))]

    @torch.no_grad()
    def start(self, batch: Batch) -> tuple[Tensor, Written]:
        logits, reading = self.begin(batch)
        return self._next(logits, reading, batch.opening[:, :0] if self.stops else None)

    @torch.no_grad()
    def step(self, state: Written, actions: Tensor) -> tuple[Tensor, Written]:
        logits, reading = self.go_on(state.reading, self.numbering.of_model(actions))
        tokens = None if state.tokens is None else torch.cat([state.tokens, actions[:, None]], 1)
        return self._next(logits, reading, tokens)

    @torch.no_grad()
    def score(self, batch: Batch, scoring: Scoring) -> Scores:
        """Take rows of like length together, as many as LOGITS allows."""
        self._check_ends(batch)
        if self.stride and self.positions and (room := self.limit(batch)) is not None:
            longer = batch.length > room
            if bool(longer.any()):
                found = self._in_windows(batch, self.stride)
                return Scores(self._sums(found, batch), {"stride": longer.double() * self.stride})
        self._check_room(batch)
        total = torch.zeros(len(batch), dtype=torch.float64, device=batch.ids.device)
        for rows in self._alike(batch):
            part = _narrowed(batch.select(rows))
            total = total.index_add(0, rows, self._sums(self._weighed(part), part))
        return Scores(total)

    def _sums(self, found: Tensor, batch: Batch) -> Tensor:
        """Return the log-probability of each row [N], of those of tokens [N, T]."""
        if self.stops:
            found = self.stops.scored(found, batch.gold, batch.length)
        return found.double().where(batch.mask, 0).sum(1)

    def _alike(self, batch: Batch) -> Sequence[Tensor]:
        """Return rows of like length together."""
        most = max(1, LOGITS // (batch.gold.shape[1] * self.vocabulary_size))
        return torch.split(batch.length.argsort(stable=True), most)

    def _in_windows(self, batch: Batch, stride: int) -> Tensor:
        """Return the log-probabilities of `gold` [N, T], each from the window that it is in."""
        device = batch.ids.device
        all_of = [*windows(batch, (self.positions or (0, ""))[0], stride, self.numbering.own)]
        numbers = torch.tensor([one.row for one in all_of], device=device)
        begins = torch.tensor([one.begin for one in all_of], device=device)
        read = _batch(batch.ids.cpu()[numbers.cpu()], [one.read for one in all_of], [one.scored for one in all_of])
        read, found = read.to(device), torch.zeros_like(batch.gold, dtype=torch.float64)
        for rows in self._alike(read):
            part = _narrowed(read.select(rows))
            real = part.mask
            places = begins[rows, None] + torch.arange(part.gold.shape[1], device=device)
            found[numbers[rows, None].expand_as(real)[real], places[real]] = self._weighed(part).double()[real]
        return found

    def _next(self, logits: Tensor, reading: State, tokens: Tensor | None) -> tuple[Tensor, Written]:
        log_probs = self.numbering.log_probs(logits)
        if self.stops and tokens is not None:
            log_probs = self.stops.applied(log_probs, tokens)
        return log_probs, Written(reading, tokens)

    def _numbering(self) -> OwnNumbering:
        stop, *ends = self.words.ends
        if stop >= self.vocabulary_size:
            raise SuiteError(f"the model in {self.folder} ends texts by token {stop}, which it does not have.")
        more, never = ([one for one in ids if one < self.vocabulary_size] for ids in (ends, self.words.never))
        dtype = torch.promote_types(next(self.network.parameters()).dtype, torch.float32)
        never = [one for one in never if one not in self.words.ends]
        return OwnNumbering(self.vocabulary_size, stop, tuple(more), tuple(never), dtype)

    def _decoded(self, tokens: list[int]) -> str:
        return self.words.decoded(self.numbering.own(tokens))

    def _check_prompt(self, prompt: Prompt, tokens: list[int], scored: bool) -> None:
        if max(tokens) >= self.network.get_input_embeddings().num_embeddings:
            raise SuiteError(
                f"the tokenizer in {self.folder} gives token {max(tokens)} for example {prompt.id}, which the model "
                "does not have. They do not belong together."
            )
        if self.positions and len(tokens) > self.positions[0] and not (scored and self.stride):
            most, name = self.positions
            raise SuiteError(
                f"the prompt of example {prompt.id} has {len(tokens)} tokens, which do not fit into the {most} "
                f"positions (`{name}`) of the model. Shorten it, or leave it out of the data"
                f"{self._advice(most) if scored else ''}."
            )

    def _advice(self, positions: int) -> str:
        return f", or score them in windows (`stride: {max(1, positions // 2)}`)" if self.family == "causal" else ""

    def _check_ends(self, batch: Batch) -> None:
        """Raise SuiteError if a token that ends texts is inside of a target."""
        ends = torch.tensor([STOP, *self.numbering.own([*self.numbering.ends])], device=batch.gold.device)
        inside = torch.isin(batch.gold, ends) & batch.mask
        inside &= torch.arange(batch.gold.shape[1], device=batch.gold.device) < batch.length[:, None] - 1
        if not inside.any():
            return
        row, place = inside.nonzero()[0].tolist()
        (token,) = self.numbering.own([int(batch.gold[row, place])])
        text = self.words.reader.read_back([token])
        raise SuiteError(
            f"the target of example {int(batch.ids[row])} has {text!r} (token {token}) inside, which ends texts for "
            f"the model in {self.folder}: no text goes on after its end. Leave the example out, or correct "
            "`eos_token_id` in generation_config.json (or `stop`, `control_tokens`)."
        )

    def _check_room(self, batch: Batch) -> None:
        room = self.limit(batch)
        if room is None or bool((batch.length <= room).all()):
            return
        row = int((batch.length - room).argmax())
        most, name = self.positions or (0, "")
        raise SuiteError(
            f"the target of example {int(batch.ids[row])} has {int(batch.length[row])} tokens, and room "
            f"for {int(room[row])} in the {most} positions (`{name}`) of the model. Shorten it, or leave it out of "
            f"the data{self._advice(most)}."
        )

    @torch.no_grad()
    def _check(self) -> None:
        """Raise SuiteError unless the network predicts alike token by token and all at once."""
        was = self.training
        self.eval()
        if not self.goes_on():
            raise SuiteError(
                f"{type(self.network).__name__} with these settings does not predict alike token by token and all at "
                "once: what it keeps of the tokens that it has read does not let it go on from there. Choose another "
                "model."
            )
        self.train(was)

    def goes_on(self) -> bool:
        """Return whether the network predicts alike token by token and all at once."""
        return self.predicts_alike(self.sample_rows())

    def sample_rows(self) -> Batch:
        """Return rows of tokens that may be written: sources of 3, 3 and 1 tokens, and targets of 3."""
        closed = {STOP, *self.numbering.own([*self.numbering.ends, *self.numbering.never])}
        a, b, *_ = [token for token in range(self.vocabulary_size) if token not in closed] * 2
        sources = _padded([self.numbering.own(row) for row in ([a, b, a], [b, b, a], [b])])
        gold = torch.tensor([[a, b, STOP], [b, a, STOP], [b, b, STOP]])
        rows = torch.arange(3)
        return Batch(rows, gold[:, :1] * 0, gold, rows * 0 + 3, sources, torch.tensor([3, 3, 1]))

    def predicts_alike(self, batch: Batch) -> bool:
        """Return whether rows together, stepped and in another order halfway, score as each of them does alone."""
        batch = batch.to(next(self.network.parameters()).device)
        rows = torch.split(torch.arange(len(batch), device=batch.ids.device), 1)
        alone = [self._weighed(_narrowed(batch.select(row))) for row in rows]
        wanted = torch.cat(alone)  # [N, T]
        together = (self._weighed(batch) - wanted).abs().max()
        return self._within(together.item()) and self._within(self._stepped_apart(batch, wanted))

    def _stepped_apart(self, batch: Batch, wanted: Tensor) -> float:
        """Return by how much steps differ from log-probabilities [N, T]; NaN where one is."""
        logits, reading = self.begin(batch)
        order = torch.arange(len(batch), device=batch.ids.device)
        turned = order.flip(0)
        apart = []
        for place in range(batch.gold.shape[1]):
            gold = batch.gold[order, place, None]
            found = self.numbering.log_probs(logits).gather(1, gold)[:, 0]
            apart.append((found - wanted[order, place]).abs().max())
            reading, order = reading.select(turned), order[turned]
            if place + 1 < batch.gold.shape[1]:
                logits, reading = self.go_on(reading, self.numbering.of_model(batch.gold[order, place]))
        return torch.stack(apart).max().item()

    def _weighed(self, batch: Batch) -> Tensor:
        """Return the log-probabilities of `gold` [N, T], all at once."""
        return self.numbering.log_probs(self.logits(batch)).gather(2, batch.gold[..., None])[..., 0]

    def _within(self, apart: float) -> bool:
        return apart < TOLERANCE.get(next(self.network.parameters()).dtype, 1e-3)  # NaN is not


def sources_of(batch: Batch) -> tuple[Tensor, Tensor]:
    """Return the sources [N, S], without columns that are padding in all of them, and their lengths [N]."""
    assert batch.source is not None
    assert batch.source_length is not None
    return batch.source[:, : int(batch.source_length.max())], batch.source_length


def _batch(ids: Tensor, sources: list[list[int]], golds: list[list[int]]) -> Batch:
    """Return rows of tokens, given those of sources in the numbers of the model."""
    lengths, source_lengths = (
        torch.tensor([len(row) for row in rows], dtype=torch.long) for rows in (golds, sources)
    )
    opening = torch.full((len(ids), 1), STOP)
    return Batch(ids, opening, _padded(golds), lengths, _padded(sources), source_lengths)


def _padded(rows: list[list[int]]) -> Tensor:
    """Return lists of tokens as one table [N, T], with zeros behind them."""
    width = max(map(len, rows), default=1)
    return torch.tensor([[*row, *[0] * (width - len(row))] for row in rows], dtype=torch.long).view(-1, width)


def _narrowed(batch: Batch) -> Batch:
    """Return rows without columns that are padding in all of them."""
    return replace(batch, gold=batch.gold[:, : int(batch.length.max())], source=sources_of(batch)[0])
