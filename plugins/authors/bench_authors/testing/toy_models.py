"""Toy models: a minimal model of each family."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import log, log1p
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, linear, logsigmoid, pad

from bench_authors.testing.toys import (
    CodesConfig,
    InsertionConfig,
    LatentConfig,
    RescorerConfig,
    SelfTerminatingConfig,
    ToyEncoderDecoderConfig,
    ToyRecurrentConfig,
)
from bench_core import (
    STOP,
    Batch,
    Hypothesis,
    Loss,
    Rng,
    Sampler,
    Scorer,
    Scores,
    Scoring,
    State,
    Stepper,
    TaskInfo,
    Training,
    Vmappable,
    invert,
)


@dataclass(frozen=True)
class ToyState(State):
    """The state of a recurrent toy model after the tokens so far, with the encoded source."""

    hidden: Tensor  # [N, H]
    log_alpha: Tensor  # [N] log-probability of no EOS so far
    source: Tensor | None = None  # [N, S, H]
    padding: Tensor | None = None  # [N, S] padding of the source


class ToyRecurrent(nn.Module, Stepper[ToyState], Scorer):
    """p(y) = prod_t p(y_t | h_t), with h_t = tanh(W h_{t-1} + U y_{t-1})."""

    def __init__(self, config: ToyRecurrentConfig, info: TaskInfo) -> None:
        super().__init__()
        self.embed = nn.Embedding(len(info.vocabulary), config.hidden)
        self.cell = nn.RNN(config.hidden, config.hidden, batch_first=True)
        self.logits = nn.Linear(config.hidden, len(info.vocabulary))

    def start(self, batch: Batch) -> tuple[Tensor, ToyState]:
        return self._next(batch.prompt, self._begin(batch))

    def step(self, state: ToyState, actions: Tensor) -> tuple[Tensor, ToyState]:
        return self._next(actions[:, None], state)

    def score(self, batch: Batch, scoring: Scoring) -> Scores:
        hidden, memory = self._read(batch, scoring.memory)
        gains, memory = self._gains(hidden, batch.gold, memory, scoring.by)
        return Scores((gains * batch.mask).sum(1), memory=memory)

    def loss(self, batch: Batch, training: Training) -> Loss:
        hidden, read = self._read(batch, training.memory)
        gains, memory = self._gains(hidden, batch.gold, read, "loss")
        if share := training.label_smoothing:
            gains = (1 - share) * gains + share * self._log_probs(hidden, read)[0].mean(2)
        weights = batch.extras.get("weight", torch.ones_like(batch.ids))[:, None] * batch.mask
        return Loss(-(gains * weights).sum() / weights.sum(), weights.sum(), memory=memory)

    def _begin(self, batch: Batch) -> ToyState:
        zeros = self.embed.weight.new_zeros(len(batch), self.cell.hidden_size)
        return ToyState(zeros, zeros[:, 0])

    def _next(self, tokens: Tensor, memory: ToyState) -> tuple[Tensor, ToyState]:
        hidden, memory = self._run(tokens, memory)
        log_probs, memory = self._log_probs(hidden[:, -1:], memory)
        return log_probs[:, 0], memory

    def _read(self, batch: Batch, memory: ToyState | None) -> tuple[Tensor, ToyState]:
        """Return the hidden states [N, T, H] that predict `gold`."""
        hidden, memory = self._run(batch.inputs, memory or self._begin(batch))
        return hidden[:, -batch.gold.shape[1] :], memory

    def _run(self, tokens: Tensor, memory: ToyState) -> tuple[Tensor, ToyState]:
        hidden, last = self.cell(self.embed(tokens), memory.hidden[None].contiguous())
        return hidden, replace(memory, hidden=last[0])

    def _log_probs(self, hidden: Tensor, memory: ToyState) -> tuple[Tensor, ToyState]:
        """Return log-probabilities [N, T, V] of the tokens after `hidden` [N, T, H]."""
        return self.logits(hidden).log_softmax(2), memory

    def _gains(self, hidden: Tensor, gold: Tensor, memory: ToyState, by: str) -> tuple[Tensor, ToyState]:
        """Return the log-probability of each token of `gold` [N, T]."""
        log_probs, memory = self._log_probs(hidden, memory)
        return log_probs.gather(2, gold[:, :, None])[:, :, 0], memory


class ToySelfTerminating(ToyRecurrent):
    """alpha_t = alpha_{t-1} (1 - epsilon) sigmoid(a_t), p(stop) = 1 - alpha_t (Welleck et al., 2020, section 4.2)."""

    def __init__(self, config: SelfTerminatingConfig, info: TaskInfo) -> None:
        super().__init__(config, info)
        self.log_keep = log1p(-config.epsilon)

    def _log_probs(self, hidden: Tensor, memory: ToyState) -> tuple[Tensor, ToyState]:
        stop, words = self.logits(hidden).tensor_split([1], 2)
        log_alpha = memory.log_alpha[:, None] + (self.log_keep + logsigmoid(stop[:, :, 0])).cumsum(1)  # [N, T]
        stopped = (-torch.expm1(log_alpha)).log()[:, :, None]
        log_probs = torch.cat([stopped, log_alpha[:, :, None] + words.log_softmax(2)], 2)
        return log_probs, replace(memory, log_alpha=log_alpha[:, -1])


class ToyCodes(ToyRecurrent):
    """p(token) is a softmax over codewords; independent bits give a lower bound."""

    codebook: Tensor  # [V, B] distinct rows of 0 and 1

    def __init__(self, config: CodesConfig, info: TaskInfo) -> None:
        super().__init__(config, info)
        self.logits = nn.Linear(config.hidden, config.bits)
        self.register_buffer("codebook", torch.zeros(len(info.vocabulary), config.bits))

    def setup(self, info: TaskInfo, rng: Rng) -> None:
        tokens, bits = self.codebook.shape
        codes = rng.shared("codes", (2**bits,)).argsort()[:tokens, None]
        self.codebook.copy_(codes >> torch.arange(bits) & 1)

    def _log_probs(self, hidden: Tensor, memory: ToyState) -> tuple[Tensor, ToyState]:
        return (self.logits(hidden) @ self.codebook.T).log_softmax(2), memory

    def _gains(self, hidden: Tensor, gold: Tensor, memory: ToyState, by: str) -> tuple[Tensor, ToyState]:
        if by == "exact":
            return super()._gains(hidden, gold, memory, by)
        costs = binary_cross_entropy_with_logits(self.logits(hidden), self.codebook[gold], reduction="none")
        return -costs.sum(2), memory


class ToyEncoderDecoder(ToyRecurrent):
    """p(y | x), with attention from every h_t to the states of a recurrent encoder."""

    def __init__(self, config: ToyEncoderDecoderConfig, info: TaskInfo) -> None:
        super().__init__(config, info)
        self.source = nn.Embedding(len(info.source_vocabulary), config.hidden)
        self.encoder = nn.RNN(config.hidden, config.hidden, batch_first=True)

    def limit(self, batch: Batch) -> Tensor:
        assert batch.source_length is not None
        return batch.source_length + 2

    def _begin(self, batch: Batch) -> ToyState:
        assert batch.source is not None
        assert batch.source_length is not None
        places = torch.arange(batch.source.shape[1], device=batch.source.device)
        units = self.encoder(self.source(batch.source))[0]
        return replace(super()._begin(batch), source=units, padding=places >= batch.source_length[:, None])

    def _log_probs(self, hidden: Tensor, memory: ToyState) -> tuple[Tensor, ToyState]:
        assert memory.source is not None
        assert memory.padding is not None
        fit = (hidden @ memory.source.transpose(1, 2)).masked_fill(memory.padding[:, None], -torch.inf)  # [N, T, S]
        return super()._log_probs(hidden + fit.softmax(2) @ memory.source, memory)


@dataclass(frozen=True)
class CanvasState(State):
    """The words inserted so far."""

    words: Tensor  # [N, C] left to right
    word: Tensor | None = None  # [N] word to place, if the next action is a slot


class Insertion(nn.Module, Stepper[CanvasState], Scorer):
    """p(word | canvas), then p(slot | canvas, word); slot s is before the s-th word of the canvas."""

    actions_per_token = 2

    def __init__(self, config: InsertionConfig, info: TaskInfo) -> None:
        super().__init__()
        self.embed = nn.Embedding(len(info.vocabulary), config.hidden)
        self.mix = nn.RNN(config.hidden, config.hidden, batch_first=True, bidirectional=True)
        self.word = nn.Linear(2 * config.hidden, len(info.vocabulary))
        self.slot = nn.Linear(2 * config.hidden, config.hidden)

    def start(self, batch: Batch) -> tuple[Tensor, CanvasState]:
        canvas = CanvasState(batch.prompt[:, :0])
        return self._words(canvas), canvas

    def step(self, state: CanvasState, actions: Tensor) -> tuple[Tensor, CanvasState]:
        if state.word is None:
            canvas = replace(state, word=actions)
            return self._slots(canvas), canvas
        canvas = CanvasState(insert(state.words, actions - 1, state.word))
        return self._words(canvas), canvas

    def read(self, actions: list[int]) -> list[int]:
        words: list[int] = []
        for word, slot in zip(actions[::2], actions[1::2], strict=True):
            words.insert(slot - 1, word)
        return words

    def chain(self, batch: Batch, rng: Rng) -> Tensor:
        """Insert the words in a random order."""
        turns = rng.fork("order").uniform(batch.ids, 0, batch.gold.shape[1])
        last = torch.arange(batch.gold.shape[1], device=turns.device) >= batch.length[:, None] - 1
        order = turns.masked_fill(last, 2).argsort(stable=True)  # [N, T] positions; positions without a word last
        earlier = (order[:, None] < order[:, :, None]).tril(-1).sum(2)  # [N, T] words left of each
        pairs = torch.stack([batch.gold.gather(1, order), earlier + 1], 2)
        return pairs.masked_fill(last[:, :, None], STOP).flatten(1)

    def loss(self, batch: Batch, training: Training) -> Loss:
        tokens = batch.mask.sum()
        return Loss(-self._weigh(batch, training.rng).sum() / tokens, tokens)

    def score(self, batch: Batch, scoring: Scoring) -> Scores:
        return Scores(self._weigh(batch, scoring.rng))

    def _weigh(self, batch: Batch, rng: Rng) -> Tensor:
        """Return log p of a random insertion order for each target [N], a lower bound of log p of the target."""
        total, canvas = self.embed.weight.new_zeros(len(batch)), CanvasState(batch.prompt[:, :0])
        chain = self.chain(batch, rng)
        for turn, (word, slot) in enumerate(zip(chain.T[::2], chain.T[1::2].clamp(min=1), strict=True)):
            placing = replace(canvas, word=word)
            gains = self._words(canvas).gather(1, word[:, None])[:, 0]
            places = self._slots(placing).gather(1, slot[:, None])[:, 0]
            total = total + gains * (turn < batch.length) + places * (turn < batch.length - 1)
            canvas = CanvasState(insert(canvas.words, slot - 1, word))
        return total

    def _encode(self, words: Tensor) -> Tensor:
        """Return the states of the slots of a canvas [N, C + 1, 2 H]."""
        hidden: Tensor = self.mix(self.embed(pad(words, (1, 1))))[0]
        return hidden[:, :-1] + hidden[:, 1:]

    def _words(self, canvas: CanvasState) -> Tensor:
        log_probs: Tensor = self.word(self._encode(canvas.words).mean(1)).log_softmax(1)
        return log_probs

    def _slots(self, canvas: CanvasState) -> Tensor:
        """Return log-probabilities of the slots [N, C + 2], the first for EOS, which is impossible."""
        assert canvas.word is not None
        fit = (self.slot(self._encode(canvas.words)) @ self.embed(canvas.word)[:, :, None])[:, :, 0]
        return pad(fit.log_softmax(1), (1, 0), value=-torch.inf)


def insert(words: Tensor, slots: Tensor, new: Tensor) -> Tensor:
    """Return canvases [N, C + 1] with `new` [N] before the words at `slots` [N]."""
    places = torch.arange(words.shape[1] + 1, device=words.device)
    moved = pad(words, (0, 1)).gather(1, places - (places > slots[:, None]).long())
    return torch.where(places == slots[:, None], new[:, None], moved)


class ToyLatent(nn.Module, Sampler, Scorer, Vmappable):
    """h_t = h_{t-1} + g(h_{t-1}) + xi_t, y_t ~ p(y | h_t), without feedback (Schmidt and Hofmann, 2018)."""

    def __init__(self, config: LatentConfig, info: TaskInfo) -> None:
        super().__init__()
        self.config = config
        self.drift = nn.Linear(config.hidden, config.hidden)
        self.logits = nn.Linear(config.hidden, len(info.vocabulary))
        self.embed = nn.Embedding(len(info.vocabulary), config.hidden)
        self.infer = nn.RNN(config.hidden, 2 * config.hidden, batch_first=True)

    def sample(self, batch: Batch, max_tokens: int, rng: Rng) -> list[Hypothesis]:
        hidden, words = self._origin(len(batch)), []
        for step in range(max_tokens):
            hidden = self._move(hidden, rng.fork("move").normal(batch.ids, step, self.config.hidden))
            log_probs = self.logits(hidden).log_softmax(1)
            words.append(invert(log_probs, rng.fork("word").uniform(batch.ids, step)))
        rows = torch.stack(words, 1).tolist()
        return [Hypothesis(row[: row.index(STOP)] if STOP in row else row, STOP in row) for row in rows]

    def score(self, batch: Batch, scoring: Scoring) -> Scores:
        scorers = {"elbo": self._elbo, "trajectories": self._average}
        return Scores(scorers[scoring.by](batch, scoring.rng))

    def loss(self, batch: Batch, training: Training) -> Loss:
        tokens = batch.mask.sum()
        return Loss(-self._elbo(batch, training.rng).sum() / tokens, tokens)

    def vmap_loss(self, batch: Batch, training: Training) -> Loss:
        tokens = batch.mask.sum()
        return Loss(-self._elbo(batch, training.rng, self._read_in_a_loop).sum() / tokens, tokens)

    def _read(self, gold: Tensor) -> Tensor:
        read: Tensor = self.infer(self.embed(gold))[0]
        return read

    def _read_in_a_loop(self, gold: Tensor) -> Tensor:
        """Compute `_read` with operations that vmap supports, since recurrent layers have no batching rule."""
        layer: Any = self.infer
        hidden, steps = self.drift.weight.new_zeros(len(gold), layer.hidden_size), []
        for inputs in self.embed(gold).unbind(1):
            read = linear(inputs, layer.weight_ih_l0, layer.bias_ih_l0)
            hidden = torch.tanh(read + linear(hidden, layer.weight_hh_l0, layer.bias_hh_l0))
            steps.append(hidden)
        return torch.stack(steps, 1)

    def _origin(self, rows: int) -> Tensor:
        return self.drift.weight.new_zeros(rows, self.config.hidden)

    def _move(self, hidden: Tensor, rng: Tensor) -> Tensor:
        result: Tensor = hidden + torch.tanh(self.drift(hidden)) + rng.to(hidden.dtype)
        return result

    def _elbo(self, batch: Batch, rng: Rng, read: Callable[[Tensor], Tensor] | None = None) -> Tensor:
        """Return a lower bound of each log p(y) [N] from a trajectory inferred from y."""
        means, log_stds = (read or self._read)(batch.gold).chunk(2, 2)
        hidden, total = self._origin(len(batch)), self.drift.weight.new_zeros(len(batch))
        for t, (mean, log_std) in enumerate(zip(means.unbind(1), log_stds.unbind(1), strict=True)):
            sample = rng.normal(batch.ids, t, self.config.hidden)
            hidden = self._move(hidden, mean + log_std.exp() * sample)
            divergence = (0.5 * (mean**2 + (2 * log_std).exp() - 1) - log_std).sum(1)
            gains = self.logits(hidden).log_softmax(1).gather(1, batch.gold[:, t : t + 1])[:, 0]
            total = total + (gains - divergence) * batch.mask[:, t]
        return total

    def _average(self, batch: Batch, rng: Rng) -> Tensor:
        """Return an estimate of each log p(y) [N] from trajectories shared by all targets."""
        ids = torch.arange(self.config.trajectories, device=batch.ids.device)
        hidden, total = self._origin(len(ids)), self.drift.weight.new_zeros(len(batch), len(ids))
        for t in range(batch.gold.shape[1]):
            hidden = self._move(hidden, rng.fork("trajectories").normal(ids, t, self.config.hidden))
            gains = self.logits(hidden).log_softmax(1)[:, batch.gold[:, t]].T  # [N, trajectories]
            total = total + gains * batch.mask[:, t : t + 1]
        average: Tensor = total.logsumexp(1) - log(len(ids))
        return average


class Rescorer(nn.Module, Scorer):
    """A recurrent network that scores targets without generating."""

    def __init__(self, config: RescorerConfig, info: TaskInfo) -> None:
        super().__init__()
        self.inner = ToyRecurrent(config, info)

    def loss(self, batch: Batch, training: Training) -> Loss:
        return self.inner.loss(batch, training)

    def score(self, batch: Batch, scoring: Scoring) -> Scores:
        return self.inner.score(batch, scoring)
