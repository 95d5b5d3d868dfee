"""Error-correcting output codes: a token is a codeword whose bits are predicted independently.

    s_w = sum over bits of [ C_wc log sig(z_c) + (1 - C_wc) log sig(-z_c) ] = C_w . z - sum_c softplus(z_c)

Training minimizes -s of the gold token and involves no other token. As a distribution over tokens,

    log p(w) = s_w - logsumexp_v s_v = C_w . z - logsumexp_v C_v . z

is a softmax whose output embeddings are the codewords. With K codewords per token (`group`), namely its own and K - 1
with one of its check bits flipped, training uses the best s_w, and p(w) is summed over all K codewords.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypeAlias, TypeVar

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits

from bench_core import Batch, Rng, State, SuiteError, TaskInfo, Training
from bench_output_layers import orders
from bench_output_layers.codebook import CHUNK_BITS, base_bits, codewords, own_checks, pack, unpack
from bench_output_layers.layer import ScoringHead, chunks, counts_of
from bench_output_layers.scan import Scan
from bench_output_layers.vectors import Vectors, learn, read

T = TypeVar("T")
Order: TypeAlias = Literal["random", "unigram", "embedding", "tour", "identity"]

CHUNK_SCORES = 2**21  # scores per chunk
MAX_MATMUL_BITS = 2**20  # bits of a codebook up to which a matrix product is as fast as a scan
VECTOR_ORDERS = {"embedding": orders.by_similarity, "tour": orders.by_tour}


class Ecoc(ScoringHead):
    """Codes of `bits` bits, by default as few as possible; with the order `identity`, one bit per token.

    The orders `embedding` and `tour` use the word vectors in `info.files["vectors"]`, or skip-gram vectors of `size`
    dimensions that `fit_statistics` learns; until then the order is `unigram`.

    Scores of tokens are sums of about d / 2 logits, all of which change in an update. With `exact` likelihood
    training, logits start at 0 and are multiplied by a `gain`, so that scores do not jump.
    """

    codes_packed: Tensor  # uint8 [V, ceil(d / 8)], by token
    ranks: Tensor  # [V] rank of each token
    own_checks: Tensor  # [V, K - 1] columns of the check bits to flip for a token's other codewords

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
            raise SuiteError(
                f"a group of {group} codewords per token is not possible with the order {order}. Set another `group`."
            )
        self.exact = exact
        self.gain = gain or ((2 / self.length) ** 0.5 if exact and order != "identity" else 1.0)
        self.linear = nn.Linear(hidden, self.length)
        self.register_buffer("codes_packed", torch.zeros(tokens, -(-self.length // 8), dtype=torch.uint8))
        self.register_buffer("ranks", torch.zeros(tokens, dtype=torch.int64))
        self.register_buffer("own_checks", torch.zeros(tokens, group - 1, dtype=torch.int64))
        self._vectors: Mapping[str, str] = {}
        self._missing = order in VECTOR_ORDERS
        self._cache: tuple[Any, dict[str, Any]] = (None, {})

    def setup(self, info: TaskInfo, rng: Rng) -> None:
        codes = self._codewords(rng.fork("checks"))
        self.codes_packed.copy_(pack(codes))  # by rank, until tokens are assigned
        self.own_checks.copy_(own_checks(codes, self.group - 1))
        self.ranks.copy_(torch.arange(self.tokens))
        if self.order in VECTOR_ORDERS and "vectors" in info.files:
            self._place_by(read(info.files["vectors"], info.vocabulary), info)
        else:
            self._place(self._first_order(info, rng), info)

    @property
    def needs_statistics(self) -> bool:
        return self._missing

    def fit_statistics(self, sentences: Sequence[list[int]], info: TaskInfo, rng: Rng) -> None:
        if self._missing:
            self._place_by(learn(sentences, info.vocabulary, self.size, rng), info)

    def notes(self) -> Mapping[str, str]:
        return self._vectors

    @property
    def codebook(self) -> Tensor:
        """Return the codeword of every token, uint8 [V, d]; cached, so do not modify it."""
        return self._memoize("codebook", lambda: unpack(self.codes_packed, self.length))

    def codes(self, tokens: Tensor) -> Tensor:
        """Return the codewords of tokens, as numbers 0 and 1 [*, d]."""
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
        return self._group_scores(self.bits(hidden))

    def log_probs(self, hidden: Tensor, past: State) -> tuple[Tensor, State]:
        if torch.is_grad_enabled():
            return super().log_probs(hidden, past)
        z = self.bits(hidden).reshape(-1, self.length)
        log_probs_ = z.new_empty(len(z), self.tokens)
        parts = zip(torch.split(log_probs_, self._rows), torch.split(z, self._rows), strict=True)
        for place, some in parts:  # small chunks are faster: intermediate results stay in the processor's cache
            place.copy_(self._group_scores(some).log_softmax(1))
        return log_probs_.view(*hidden.shape[:-1], self.tokens), past

    def best(self, z: Tensor) -> Tensor:
        """Return the token of the most probable codeword [*]; ties go to the lowest rank."""
        tokens = []
        with torch.no_grad():
            for some in torch.split(z.reshape(-1, self.length), self._rows):
                scores = self._ranked_scores(some)
                if self.group > 1:
                    scores = scores + torch.stack(self._gains_of_all(some)).amax(0).clamp(min=0)[:, self._order]
                tokens.append(self._order[scores.argmax(1)])
        return torch.cat(tokens).view(z.shape[:-1])

    def nearest(self, code: Tensor) -> Tensor:
        """Return the tokens whose codewords differ from codes [*, d] of 0 and 1 in the fewest bits.

        Ties go to the lowest rank; numbers between 0 and 1 count as expected differences. Groups are ignored.
        """
        flat = (2 * code.detach().to(self.linear.weight.dtype) - 1).reshape(-1, self.length)
        with torch.no_grad():
            tokens = [self._order[self._ranked_scores(some).argmax(1)] for some in torch.split(flat, self._rows)]
        return torch.cat(tokens).view(code.shape[:-1])

    def bit_errors(self, hidden: Tensor, gold: Tensor) -> Tensor:
        """Return the share of wrongly predicted bits [M] of each token of `gold` [M], given `hidden` [M, H]."""
        parts = chunks(self.length, hidden, gold)
        wrong = ((self.bits(units) > 0) != self.codes(some).bool() for units, some in parts)
        return torch.cat([errors.double().mean(1) for errors in wrong])

    def costs(self, units: Tensor, gold: Tensor, batch: Batch, training: Training) -> Tensor:
        return super().costs(units, gold, batch, training) if self.exact else self.bit_costs(units, gold)

    def loss(self, hidden: Tensor, batch: Batch, past: State, training: Training) -> tuple[Tensor, State]:
        """Return the training costs, even in evaluation mode: the bits are the model, not an approximation of it."""
        return self.costs(batch.at_real(hidden), batch.at_real(batch.gold), batch, training), past

    def score(self, hidden: Tensor, batch: Batch, past: State, by: str) -> tuple[Tensor, State]:
        if by != "bits":
            return super().score(hidden, batch, past, by)
        parts = chunks(self.length, batch.at_real(hidden), batch.at_real(batch.gold))
        return torch.cat([-self.bit_costs(units, gold) for units, gold in parts]), past

    def bit_costs(self, units: Tensor, gold: Tensor) -> Tensor:
        """Return -s of each token of `gold` [M], summed over bits, for the best codeword of its group."""
        z = self.bits(units)
        costs = binary_cross_entropy_with_logits(z, self.codes(gold), reduction="none").sum(1)
        if self.group == 1:
            return costs
        return costs - self._gains(z, self.codes_packed[gold], self.own_checks[gold]).amax(1).clamp(min=0)

    def _gains(self, z: Tensor, packed: Tensor, columns: Tensor) -> Tensor:
        """Return the change of s if each check bit is flipped [M, K - 1]; -inf for missing check bits."""
        codes = unpack(packed, self.length).gather(1, columns.clamp(min=0)).to(z.dtype)
        return ((1 - 2 * codes) * z.gather(1, columns.clamp(min=0))).masked_fill(columns < 0, -torch.inf)

    def _gains_of_all(self, z: Tensor) -> list[Tensor]:
        """Return the changes of s for all tokens, as one tensor [*, V] per check bit."""
        signed = torch.cat([z, -z, z.new_full((*z.shape[:-1], 1), -torch.inf)], -1)
        return [signed[..., column] for column in self._memoize("gains", self._signed_checks)]

    def _signed_checks(self) -> list[Tensor]:
        """Return the columns of [z, -z, -inf] that hold the changes of all tokens, [V] per bit."""
        bits = self.codebook.gather(1, self.own_checks.clamp(min=0)).long()
        columns = self.own_checks + self.length * bits
        return list(columns.where(self.own_checks >= 0, 2 * self.length).unbind(1))

    def _group_scores(self, z: Tensor) -> Tensor:
        """Return the log of the sum of exp(C . z) over the codewords of each token [*, V]."""
        scores = self.code_scores(z)
        if self.group == 1:
            return scores
        extra = torch.zeros_like(scores)
        for gain in self._gains_of_all(z):
            extra = torch.logaddexp(extra, gain)
        return scores + extra

    def _codewords(self, rng: Rng) -> Tensor:
        """Return the codewords by rank, uint8 [V, d]."""
        if self.order == "identity":
            return torch.eye(self.tokens, dtype=torch.uint8)
        return codewords(self.tokens, self.length, rng)

    def _first_order(self, info: TaskInfo, rng: Rng) -> Tensor:
        if self.order == "identity":
            return torch.arange(self.tokens)
        if self.order == "random":
            return orders.at_random(self.tokens, rng.fork("order"))
        return orders.by_count(counts_of(info, f"the order {self.order} ranks tokens"))

    def _place_by(self, vectors: Vectors, info: TaskInfo) -> None:
        """Rank the tokens by word vectors."""
        counts = counts_of(info, f"the order {self.order} chooses its first token")
        self._place(VECTOR_ORDERS[self.order](vectors.values, vectors.known, counts), info)
        self._vectors, self._missing = {"word vectors": vectors.description(counts)}, False

    def _place(self, order: Tensor, info: TaskInfo) -> None:
        """Assign codewords to tokens in this order [V]; initialize biases from training frequencies of bits."""
        order = order.to(self.ranks.device)
        before = self.ranks.argsort()
        for by_token in (self.codes_packed, self.own_checks):
            by_token[order] = by_token[before]
        self.ranks[order] = torch.arange(self.tokens, device=order.device)
        if not self.exact:
            with torch.no_grad():
                self.linear.bias.copy_(self._bit_frequencies(info).logit())

    def _bit_frequencies(self, info: TaskInfo) -> Tensor:
        """Return how often each bit is 1 in the training split [d], float64; strictly between 0 and 1."""
        counts = torch.tensor(info.counts or [1] * self.tokens, dtype=torch.float64)
        total, ones = counts.sum().clamp(min=1), torch.zeros(self.length, dtype=torch.float64)
        packs, parts = (
            torch.split(tensor, max(1, CHUNK_BITS // self.length)) for tensor in (self.codes_packed.cpu(), counts)
        )
        for packed, some in zip(packs, parts, strict=True):
            ones += some @ unpack(packed, self.length).double()
        least = 0.5 / (total + 1)
        return (ones / total).clamp(float(least), float(1 - least))

    @property
    def _rows(self) -> int:
        """Return the number of positions per chunk."""
        return max(1, CHUNK_SCORES // self.tokens)

    @property
    def _order(self) -> Tensor:
        return self._memoize("order", self.ranks.argsort)

    def _scans(self, z: Tensor) -> bool:
        learns = z.requires_grad and torch.is_grad_enabled()
        return not learns and z.device.type == "cpu" and self.tokens * self.length > MAX_MATMUL_BITS

    def _ranked_scores(self, z: Tensor) -> Tensor:
        """Return C_r . z by rank [N, V], for `z` [N, d]."""
        if self.order != "identity" and self._scans(z):
            return self._scan(z.dtype).by_rank(z)
        return self.code_scores(z)[:, self._order]

    def _numbers(self, dtype: torch.dtype) -> Tensor:
        return self._memoize(str(dtype), lambda: self.codebook.to(dtype))

    def _scan(self, dtype: torch.dtype) -> Scan:
        return self._memoize(f"scan {dtype}", lambda: Scan(self.codes_packed, self.ranks, self.length, dtype))

    def _memoize(self, name: str, make: Callable[[], T]) -> T:
        """Return the cached result of `make`, which is called again when buffers were changed or moved."""
        buffers = (self.codes_packed, self.ranks, self.own_checks)
        now = [(each.device, each.data_ptr(), 0 if each.is_inference() else each._version) for each in buffers]
        if self._cache[0] != now:
            self._cache = (now, {})
        if name not in self._cache[1]:
            with torch.inference_mode(False), torch.no_grad():  # the result may be used with gradients later
                self._cache[1][name] = make()
        value: T = self._cache[1][name]
        return value


def _length(tokens: int, bits: int | None, order: Order) -> int:
    """Return the length of codes; raise SuiteError if it is impossible."""
    least = base_bits(tokens)
    if order == "identity":
        if bits not in (None, tokens):
            raise SuiteError(
                f"`order: identity` has a bit for each of {tokens:,} tokens, so `bits` cannot be {bits:,}. Omit it."
            )
        return tokens
    length = least if bits is None else bits
    if length < least:
        raise SuiteError(
            f"codes of {length:,} bits cannot distinguish {tokens:,} tokens. Set `bits` to {least} or more, or leave "
            "it out."
        )
    if length > max(least, tokens):
        raise SuiteError(
            f"codes of {length:,} bits are longer than the number of tokens, {tokens:,}. Set `bits` to a number from "
            f"{least} to {max(least, tokens):,}, or use `order: identity`."
        )
    return length
