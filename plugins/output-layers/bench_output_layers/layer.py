"""The interface of this package's output layers, an extension of `Head`."""

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from bench_core import Batch, Rng, State, SuiteError, TaskInfo, Training, knows_host_copy, on_host, remember
from bench_core.kit import Head
from bench_core.kit.head import LOGITS
from bench_output_layers.cross_entropy import chunked_cross_entropy


class ScoringHead(Head[State]):
    """A stateless output layer that can compute the scores of all tokens at some positions."""

    tokens: int

    @abstractmethod
    def scores(self, hidden: Tensor) -> Tensor:
        """Return the score of every token [*, V], given `hidden` [*, H]; their softmax is the token distribution."""

    def fit_statistics(self, sentences: Sequence[list[int]], info: TaskInfo, rng: Rng) -> None:
        """Learn from the training split before the first update, after `setup`; does nothing by default."""

    @property
    def needs_statistics(self) -> bool:
        """Return whether `fit_statistics` is needed after `setup`."""
        return False

    def notes(self) -> Mapping[str, str]:
        """Return notes for readers of the results; none by default."""
        return {}

    def log_probs(self, hidden: Tensor, past: State) -> tuple[Tensor, State]:
        return self.scores(hidden).log_softmax(-1), past

    def score(self, hidden: Tensor, batch: Batch, past: State, by: str) -> tuple[Tensor, State]:
        parts = chunks(self.tokens, batch.at_real(hidden), batch.at_real(batch.gold))
        return torch.cat([self.log_probs_of(units, gold) for units, gold in parts]), past

    def distribution(self, units: Tensor) -> Tensor:
        """Return the log-probabilities of all tokens [M, V] that decoders use, given `units` [M, H]."""
        return self.log_probs(units[:, None], State())[0][:, 0]

    def reading_of(self, units: Tensor) -> tuple[Tensor, Mapping[str, Tensor]]:
        """Return log-probabilities of all tokens [M, V], given `units` [M, H], and values [M] about them by name."""
        return self.distribution(units), {}

    def read(self, units: Tensor, gold: Tensor) -> dict[str, Tensor]:
        """Return values of each token of `gold` [M], given `units` [M, H], by name.

        These are its `log_prob`, the most probable token `best`, the `rank` of the target, and those of `reading_of`.
        Rank 1 is the most probable token; among equally probable tokens, a lower id has the lower rank.
        """
        parts = [self._read(*part) for part in chunks(self.tokens, units, gold)]
        return {name: torch.cat([values[name] for values in parts]) for name in parts[0]}

    def _read(self, units: Tensor, gold: Tensor) -> dict[str, Tensor]:
        log_probs, values = self.reading_of(units)
        ours = log_probs.gather(1, gold[:, None])
        tie = (log_probs == ours) & (torch.arange(self.tokens, device=gold.device) < gold[:, None])
        rank = 1 + (log_probs > ours).sum(1) + tie.sum(1)
        return {"log_prob": ours[:, 0], "best": log_probs.argmax(1), "rank": rank, **values}

    def log_probs_of(self, units: Tensor, gold: Tensor) -> Tensor:
        """Return the log-probability of each token of `gold` [M], given `units` [M, H]."""
        return -cross_entropy(self.scores(units), gold, reduction="none")

    def costs(self, units: Tensor, gold: Tensor, batch: Batch, training: Training) -> Tensor:
        """Return the training cost of each token of `gold` [M], given `units` [M, H]."""
        return torch.cat([-self.log_probs_of(*part) for part in chunks(self.tokens, units, gold)])

    def loss(self, hidden: Tensor, batch: Batch, past: State, training: Training) -> tuple[Tensor, State]:
        """Return the training costs, or the costs of the exact score if the model is not being trained."""
        if not (self.training and torch.is_grad_enabled()):
            return super().loss(hidden, batch, past, training)
        return self.costs(batch.at_real(hidden), batch.at_real(batch.gold), batch, training), past


class FullSoftmax(ScoringHead):
    """p(v) is proportional to exp(u_v . h + c_v)."""

    def __init__(self, hidden: int, tokens: int) -> None:
        super().__init__()
        self.tokens = tokens
        self.logits = nn.Linear(hidden, tokens)

    def tie(self, embedding: nn.Embedding) -> None:
        self.logits.weight = embedding.weight

    def scores(self, hidden: Tensor) -> Tensor:
        return self.logits(hidden)  # type: ignore[no-any-return]

    def costs(self, units: Tensor, gold: Tensor, batch: Batch, training: Training) -> Tensor:
        if len(gold) * self.tokens > LOGITS:
            return chunked_cross_entropy(units, self.logits.weight, self.logits.bias, gold, training.label_smoothing)
        return cross_entropy(self.scores(units), gold, reduction="none", label_smoothing=training.label_smoothing)


class LogitRows(nn.Embedding):
    """An output matrix [V, H] that is used row by row in training, optionally with sparse gradients."""

    def reset_parameters(self) -> None:
        bound = self.embedding_dim**-0.5  # as in nn.Linear
        nn.init.uniform_(self.weight, -bound, bound)


class RowwiseHead(ScoringHead):
    """p(v) is proportional to exp(u_v . h + c_v), where training uses few rows u_v."""

    def __init__(self, hidden: int, tokens: int, sparse: bool = False) -> None:
        super().__init__()
        self.tokens = tokens
        self.rows: nn.Embedding = LogitRows(tokens, hidden, sparse=sparse)
        self.bias = nn.Parameter(torch.zeros(tokens))

    def tie(self, embedding: nn.Embedding) -> None:
        self.rows = embedding

    def scores(self, hidden: Tensor) -> Tensor:
        return nn.functional.linear(hidden, self.rows.weight, self.bias)

    def scores_of(self, units: Tensor, gold: Tensor) -> Tensor:
        """Return the score of each token of `gold` [M], given `units` [M, H]."""
        scores: Tensor = (self.rows(gold) * units).sum(1) + self.bias[gold]
        return scores


def chunks(width: int, *tensors: Tensor) -> Iterator[tuple[Tensor, ...]]:
    """Yield chunks of rows of tensors, so that `width` numbers per row fit into memory."""
    most = max(1, LOGITS // max(1, width))
    return zip(*(_split(tensor, most) for tensor in tensors), strict=True)


def _split(tensor: Tensor, most: int) -> Sequence[Tensor]:
    """Split a tensor, and its host copy if it has one, into parts of at most `most` rows."""
    parts = torch.split(tensor, most)
    if tensor.device.type != "cpu" and knows_host_copy(tensor):
        for part, host in zip(parts, torch.split(on_host(tensor), most), strict=True):
            remember(part, host)
    return parts


def counts_of(info: TaskInfo, why: str) -> Tensor:
    """Return the count of each token in the training split, int64 [V]; raise SuiteError if the task has no counts."""
    if len(info.counts) != len(info.vocabulary):
        raise SuiteError(
            f"{why} by token frequency, but the task has counts for {len(info.counts)} of its "
            f"{len(info.vocabulary)} tokens. Choose another task, or another output layer or order."
        )
    return torch.tensor(info.counts, dtype=torch.int64)
