"""Error-correcting output codes: a token is a codeword whose bits are predicted independently.

    s_w = sum over bits of [ C_wc log sig(z_c) + (1 - C_wc) log sig(-z_c) ] = C_w . z - sum_c softplus(z_c)

Training minimises -s of the gold token and never looks at another. As a distribution over tokens,

    log p(w) = s_w - logsumexp_v s_v = C_w . z - logsumexp_v C_v . z

is a softmax whose output embeddings are the codewords. With K codewords for each token (`group`), its own and those
with one of its allotted check bits flipped, s_w is that of the best in training, and p(w) sums over all of them.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypeAlias, TypeVar

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits

from bench_core import Batch, Noise, State, SuiteError, TaskInfo, Training
from bench_ecoc import orders
from bench_ecoc.codebook import CELLS, base_bits, codewords, own_checks, pack, unpack
from bench_ecoc.layer import Layer, chunks, counts_of
from bench_ecoc.scan import Scan
from bench_ecoc.vectors import Vectors, learn, read

T = TypeVar("T")
Order: TypeAlias = Literal["random", "unigram", "embedding", "tour", "identity"]

FEW = 2**21  # scores computed at a time where they are not kept
SMALL = 2**20  # bits of a codebook for which a product of matrices is as good as a scan
MADE_OF_VECTORS = {"embedding": orders.by_similarity, "tour": orders.by_tour}


class Ecoc(Layer):
    """Codes of `bits` bits, by default as few as there can be; of the order `identity`, one for each token.

    The orders `embedding` and `tour` are made of the word vectors in `info.files["vectors"]`, or else of skip-gram
    vectors of `size` dimensions that `fit_statistics` learns; until then the order is `unigram`.

    Scores of tokens are sums of about d / 2 logits, all of which an update changes. Where they are learnt by their
    `exact` likelihood, logits begin at 0 and are multiplied by a `gain`, so that scores do not leap.
    """

    codes_packed: Tensor  # uint8 [V, ceil(d / 8)], by token
    ranks: Tensor  # [V], by token
    own_checks: Tensor  # [V, K - 1], columns of the check bits whose flipping gives the other codewords of a token

    def __init__(
        self,
        hidden: int,
        tokens: int,
        bits: int | None,
        order: Order,
        group: int = 1,
        size: int = 300,
        exact: bool = False,
        gain: float | None = None,
    ) -> None:
        super().__init__()
        self.tokens, self.order, self.group, self.size = tokens, order, group, size
        self.length = _length(tokens, bits, order)
        if group < 1 or (order == "identity" and group > 1):
            raise SuiteError(f"a group of {group} codewords for each token cannot be, with the order {order}.")
        self.exact = exact
        self.gain = gain or ((2 / self.length) ** 0.5 if exact and order != "identity" else 1.0)
        self.linear = nn.Linear(hidden, self.length)
        self.register_buffer("codes_packed", torch.zeros(tokens, -(-self.length // 8), dtype=torch.uint8))
        self.register_buffer("ranks", torch.zeros(tokens, dtype=torch.int64))
        self.register_buffer("own_checks", torch.zeros(tokens, group - 1, dtype=torch.int64))
        self._vectors: Mapping[str, str] = {}
        self._missing = order in MADE_OF_VECTORS
        self._kept: tuple[Any, dict[str, Any]] = (None, {})

    def setup(self, info: TaskInfo, noise: Noise) -> None:
        codes = self._codewords(noise.fork("checks"))
        self.codes_packed.copy_(pack(codes))  # by rank, until the tokens are placed
        self.own_checks.copy_(own_checks(codes, self.group - 1))
        self.ranks.copy_(torch.arange(self.tokens))
        if self.order in MADE_OF_VECTORS and "vectors" in info.files:
            self._place_by(read(info.files["vectors"], info.vocabulary), info)
        else:
            self._place(self._first_order(info, noise), info)

    @property
    def surveys(self) -> bool:
        return self._missing

    def fit_statistics(self, sentences: Sequence[list[int]], info: TaskInfo, noise: Noise) -> None:
        if self._missing:
            self._place_by(learn(sentences, info.vocabulary, self.size, noise), info)

    def notes(self) -> Mapping[str, str]:
        return self._vectors

    @property
    def codebook(self) -> Tensor:
        """Return the codeword of every token, uint8 [V, d]; kept, so not to be changed."""
        return self._keep("codebook", lambda: unpack(self.codes_packed, self.length))

    def codes(self, tokens: Tensor) -> Tensor:
        """Return the codewords of some tokens, as numbers 0 and 1 [*, d]."""
        return unpack(self.codes_packed[tokens], self.length).to(self.linear.weight.dtype)

    def bits(self, hidden: Tensor) -> Tensor:
        """Return z, the logit of every bit [*, d]."""
        z: Tensor = self.linear(hidden).to(self.linear.weight.dtype)
        return z if self.gain == 1 else self.gain * z

    def code_scores(self, z: Tensor) -> Tensor:
        """Return C_w . z of every token [*, V]."""
        if self.order == "identity":
            return z
        if self._scans(z):
            return self._scan(z.dtype)(z.reshape(-1, self.length)).view(*z.shape[:-1], self.tokens)
        return z @ self._numbers(z.dtype).T

    def scores(self, hidden: Tensor) -> Tensor:
        return self._summed(self.bits(hidden))

    def log_probs(self, hidden: Tensor, past: State) -> tuple[Tensor, State]:
        if torch.is_grad_enabled():
            return super().log_probs(hidden, past)
        z = self.bits(hidden).reshape(-1, self.length)
        found = z.new_empty(len(z), self.tokens)
        parts = zip(torch.split(found, self._rows), torch.split(z, self._rows), strict=True)
        for place, some in parts:  # few at a time are quicker, as what is between stays in the processor's cache
            place.copy_(self._summed(some).log_softmax(1))
        return found.view(*hidden.shape[:-1], self.tokens), past

    def best(self, z: Tensor) -> Tensor:
        """Return the token of the most probable codeword [*], the lowest rank of equals."""
        found = []
        with torch.no_grad():
            for some in torch.split(z.reshape(-1, self.length), self._rows):
                scores = self._ranked_scores(some)
                if self.group > 1:
                    scores = scores + torch.stack(self._gains_of_all(some)).amax(0).clamp(min=0)[:, self._order]
                found.append(self._order[scores.argmax(1)])
        return torch.cat(found).view(z.shape[:-1])

    def nearest(self, code: Tensor) -> Tensor:
        """Return the tokens whose codewords differ from codes [*, d] of 0 and 1 in the fewest bits.

        The lowest rank of equals; numbers between 0 and 1 count as expected differences. Groups do not matter.
        """
        flat = (2 * code.detach().to(self.linear.weight.dtype) - 1).reshape(-1, self.length)
        with torch.no_grad():
            found = [self._order[self._ranked_scores(some).argmax(1)] for some in torch.split(flat, self._rows)]
        return torch.cat(found).view(code.shape[:-1])

    def bit_errors(self, hidden: Tensor, gold: Tensor) -> Tensor:
        """Return the share of bits [M] on the wrong side of 1/2, for tokens `gold` [M] after `hidden` [M, H]."""
        parts = chunks(self.length, hidden, gold)
        wrong = ((self.bits(units) > 0) != self.codes(some).bool() for units, some in parts)
        return torch.cat([one.double().mean(1) for one in wrong])

    def costs(self, units: Tensor, gold: Tensor, batch: Batch, training: Training) -> Tensor:
        return super().costs(units, gold, batch, training) if self.exact else self.bit_costs(units, gold)

    def loss(self, hidden: Tensor, batch: Batch, past: State, training: Training) -> tuple[Tensor, State]:
        """Return the costs of training, in evaluation mode too: the bits are the model, not its approximation."""
        return self.costs(batch.at_real(hidden), batch.at_real(batch.gold), batch, training), past

    def score(self, hidden: Tensor, batch: Batch, past: State, by: str) -> tuple[Tensor, State]:
        if by != "bits":
            return super().score(hidden, batch, past, by)
        parts = chunks(self.length, batch.at_real(hidden), batch.at_real(batch.gold))
        return torch.cat([-self.bit_costs(units, gold) for units, gold in parts]), past

    def bit_costs(self, units: Tensor, gold: Tensor) -> Tensor:
        """Return -s of each token of `gold` [M], summed over bits, by the best codeword of its group."""
        z = self.bits(units)
        costs = binary_cross_entropy_with_logits(z, self.codes(gold), reduction="none").sum(1)
        if self.group == 1:
            return costs
        return costs - self._gains(z, self.codes_packed[gold], self.own_checks[gold]).amax(1).clamp(min=0)

    def _gains(self, z: Tensor, packed: Tensor, columns: Tensor) -> Tensor:
        """Return what flipping each of their own check bits adds to s [M, K - 1]; -inf where there is none."""
        codes = unpack(packed, self.length).gather(1, columns.clamp(min=0)).to(z.dtype)
        return ((1 - 2 * codes) * z.gather(1, columns.clamp(min=0))).masked_fill(columns < 0, -torch.inf)

    def _gains_of_all(self, z: Tensor) -> list[Tensor]:
        """Return the same for all tokens, a tensor [*, V] for each bit."""
        signed = torch.cat([z, -z, z.new_full((*z.shape[:-1], 1), -torch.inf)], -1)
        return [signed[..., column] for column in self._keep("gains", self._signed_checks)]

    def _signed_checks(self) -> list[Tensor]:
        """Return where in [z, -z, -inf] the gains of all tokens are, [V] for each bit."""
        bits = self.codebook.gather(1, self.own_checks.clamp(min=0)).long()
        found = self.own_checks + self.length * bits
        return list(found.where(self.own_checks >= 0, 2 * self.length).unbind(1))

    def _summed(self, z: Tensor) -> Tensor:
        """Return the log of the sum over each group of e^(C . z) [*, V]."""
        scores = self.code_scores(z)
        if self.group == 1:
            return scores
        extra = torch.zeros_like(scores)
        for gain in self._gains_of_all(z):
            extra = torch.logaddexp(extra, gain)
        return scores + extra

    def _codewords(self, noise: Noise) -> Tensor:
        """Return the codewords by rank, uint8 [V, d]."""
        if self.order == "identity":
            return torch.eye(self.tokens, dtype=torch.uint8)
        return codewords(self.tokens, self.length, noise)

    def _first_order(self, info: TaskInfo, noise: Noise) -> Tensor:
        if self.order == "identity":
            return torch.arange(self.tokens)
        if self.order == "random":
            return orders.at_random(self.tokens, noise.fork("order"))
        return orders.by_count(counts_of(info, f"the order {self.order} ranks tokens"))

    def _place_by(self, vectors: Vectors, info: TaskInfo) -> None:
        """Rank the tokens by word vectors."""
        counts = counts_of(info, f"the order {self.order} begins")
        self._place(MADE_OF_VECTORS[self.order](vectors.values, vectors.known, counts), info)
        self._vectors, self._missing = {"word vectors": vectors.described(counts)}, False

    def _place(self, order: Tensor, info: TaskInfo) -> None:
        """Give the codewords to the tokens in this order [V]; bits begin as probable as they are in training."""
        order = order.to(self.ranks.device)
        before = self.ranks.argsort()
        for by_token in (self.codes_packed, self.own_checks):
            by_token[order] = by_token[before]
        self.ranks[order] = torch.arange(self.tokens, device=order.device)
        if not self.exact:
            with torch.no_grad():
                self.linear.bias.copy_(self._bit_frequencies(info).logit())

    def _bit_frequencies(self, info: TaskInfo) -> Tensor:
        """Return how often each bit is 1 in the training split [d], float64; never quite never, nor always."""
        counts = torch.tensor(info.counts or [1] * self.tokens, dtype=torch.float64)
        total, ones = counts.sum().clamp(min=1), torch.zeros(self.length, dtype=torch.float64)
        packs, parts = (torch.split(one, max(1, CELLS // self.length)) for one in (self.codes_packed.cpu(), counts))
        for packed, some in zip(packs, parts, strict=True):
            ones += some @ unpack(packed, self.length).double()
        least = 0.5 / (total + 1)
        return (ones / total).clamp(float(least), float(1 - least))

    @property
    def _rows(self) -> int:
        """Return how many positions are looked at together."""
        return max(1, FEW // self.tokens)

    @property
    def _order(self) -> Tensor:
        return self._keep("order", self.ranks.argsort)

    def _scans(self, z: Tensor) -> bool:
        learns = z.requires_grad and torch.is_grad_enabled()
        return not learns and z.device.type == "cpu" and self.tokens * self.length > SMALL

    def _ranked_scores(self, z: Tensor) -> Tensor:
        """Return C_r . z by rank [N, V], for `z` [N, d]."""
        if self.order != "identity" and self._scans(z):
            return self._scan(z.dtype).by_rank(z)
        return self.code_scores(z)[:, self._order]

    def _numbers(self, dtype: torch.dtype) -> Tensor:
        return self._keep(str(dtype), lambda: self.codebook.to(dtype))

    def _scan(self, dtype: torch.dtype) -> Scan:
        return self._keep(f"scan {dtype}", lambda: Scan(self.codes_packed, self.ranks, self.length, dtype))

    def _keep(self, name: str, make: Callable[[], T]) -> T:
        """Return what `make` once made of the buffers; made anew as soon as these are others, or elsewhere."""
        buffers = (self.codes_packed, self.ranks, self.own_checks)
        now = [(each.device, each.data_ptr(), 0 if each.is_inference() else each._version) for each in buffers]
        if self._kept[0] != now:
            self._kept = (now, {})
        if name not in self._kept[1]:
            with torch.inference_mode(False), torch.no_grad():  # it may have to meet gradients later
                self._kept[1][name] = make()
        found: T = self._kept[1][name]
        return found


def _length(tokens: int, bits: int | None, order: Order) -> int:
    """Return the length of codes, once it is one that can be."""
    least = base_bits(tokens)
    if order == "identity":
        if bits not in (None, tokens):
            raise SuiteError(
                f"the order identity has a bit for each of {tokens:,} tokens, not {bits:,} in all. Leave `bits` out."
            )
        return tokens
    length = least if bits is None else bits
    if length < least:
        raise SuiteError(
            f"codes of {length:,} bits cannot tell {tokens:,} tokens apart. Set `bits` to {least} or more, or leave "
            "it out."
        )
    if length > max(least, tokens):
        raise SuiteError(
            f"codes of {length:,} bits are longer than there are tokens, {tokens:,}. Set `bits` to {least} at least "
            f"and {max(least, tokens):,} at most, or take the order identity."
        )
    return length
