"""Hierarchical softmax with two levels: class, then token."""

from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from bench_core import Rng, SuiteError, TaskInfo
from bench_output_layers.layer import LogitRows, ScoringHead, chunks, counts_of
from bench_output_layers.orders import at_random, by_count, by_similarity
from bench_output_layers.vectors import Vectors, vectors_of

ClassOrder: TypeAlias = Literal["random", "unigram", "embedding"]


class HierarchicalSoftmax(ScoringHead):
    """p(w) = p(class of w) p(w | its class), with classes of equal size (Goodman, 2001, arXiv:cs/0108006).

    A class consists of consecutive tokens, in random order, by decreasing count, or by decreasing similarity to the
    most frequent token (`embedding`). The last class may be smaller. Similarities are computed from the word
    vectors in `info.files["vectors"]`, or from skip-gram vectors of `vector_size` dimensions that `fit_statistics`
    learns; until then, classes are by count.
    """

    class_of: Tensor  # [V] class of each token
    index_of: Tensor  # [V] position of each token within its class
    member: Tensor  # [K, S] tokens of each class, padded with -1
    sizes: Tensor  # [K] number of tokens of each class

    def __init__(
        self,
        hidden: int,
        tokens: int,
        order: ClassOrder,
        size: int = 10,
        sparse: bool = False,
        vector_size: int = 300,
    ) -> None:
        super().__init__()
        if size < 1:
            raise SuiteError(f"a class cannot have {size} tokens. Set the size of classes to 1 or more.")
        self.tokens, self.order, self.size, self.vector_size = tokens, order, size, vector_size
        self._notes: Mapping[str, str] = {}
        self._missing = order == "embedding"
        number = -(-tokens // size)
        self.classes = nn.Linear(hidden, number)
        self.leaves: nn.Embedding = LogitRows(tokens, hidden, sparse=sparse)
        self.bias = nn.Parameter(torch.zeros(tokens))
        for name, shape in (("class_of", (tokens,)), ("index_of", (tokens,)), ("sizes", (number,))):
            self.register_buffer(name, torch.zeros(shape, dtype=torch.int64))
        self.register_buffer("member", torch.zeros(number, size, dtype=torch.int64))

    def setup(self, info: TaskInfo, rng: Rng) -> None:
        if self.order == "random":
            self.place(at_random(self.tokens, rng.fork("order")))
            return
        self.place(by_count(counts_of(info, "this output layer makes classes")))
        if self._missing and (vectors := vectors_of(info, self.vector_size)):
            self._place_by(vectors, info)

    @property
    def needs_statistics(self) -> bool:
        return self._missing

    def fit_statistics(self, sentences: Sequence[list[int]], info: TaskInfo, rng: Rng) -> None:
        if self._missing and (vectors := vectors_of(info, self.vector_size, sentences, rng)):
            self._place_by(vectors, info)

    def notes(self) -> Mapping[str, str]:
        return self._notes

    def _place_by(self, vectors: Vectors, info: TaskInfo) -> None:
        """Form classes of similar tokens."""
        counts = counts_of(info, "this output layer makes classes")
        self.place(by_similarity(vectors.values, vectors.known, counts))
        self._notes, self._missing = {"word vectors": vectors.description(counts)}, False

    def place(self, order: Tensor) -> None:
        """Form classes of consecutive tokens of an order [V]."""
        order, places = order.to(self.member.device), torch.arange(self.tokens, device=self.member.device)
        self.class_of[order], self.index_of[order] = places // self.size, places % self.size
        self.member.fill_(-1).view(-1)[: self.tokens] = order
        self.sizes.copy_((self.member >= 0).sum(1))

    def tie(self, embedding: nn.Embedding) -> None:
        self.leaves = embedding

    def class_logits(self, hidden: Tensor) -> Tensor:
        """Return the logit of every class [*, K], given `hidden` [*, H]."""
        return self.classes(hidden)  # type: ignore[no-any-return]

    def leaf_logits(self, hidden: Tensor, classes: Tensor) -> Tensor:
        """Return the logits [*, S] of the tokens of `classes` [*], given `hidden` [*, H]; -inf at padding."""
        members = self.member[classes]
        real = members.clamp(min=0)
        logits: Tensor = (self.leaves(real) @ hidden[..., None])[..., 0] + self.bias[real]
        return logits.masked_fill(members < 0, -torch.inf)

    def log_probs_of(self, units: Tensor, gold: Tensor) -> Tensor:
        parts = chunks(len(self.sizes) + self.size * units.shape[1], units, gold)
        return torch.cat([self._gold_log_probs(*part) for part in parts])

    def scores(self, hidden: Tensor) -> Tensor:
        """Return the log-probability of every token [*, V]."""
        leaves = linear(hidden, self.leaves.weight, self.bias)
        by_class = leaves[..., self.member.clamp(min=0)].masked_fill(self.member < 0, -torch.inf)  # [*, K, S]
        classes = self.class_logits(hidden).log_softmax(-1) - by_class.logsumexp(-1)
        return leaves + classes[..., self.class_of]

    def _gold_log_probs(self, units: Tensor, gold: Tensor) -> Tensor:
        classes = self.class_of[gold]
        of_class = self.class_logits(units).log_softmax(1).gather(1, classes[:, None])
        of_leaf = self.leaf_logits(units, classes).log_softmax(1).gather(1, self.index_of[gold][:, None])
        return (of_class + of_leaf)[:, 0]
