"""Error-correcting output codes: a token is a codeword whose bits are predicted independently.

    s_w = sum over bits of [ C_wc log sig(z_c) + (1 - C_wc) log sig(-z_c) ] = C_w . z - sum_c softplus(z_c)

Training minimizes -s of the gold token and involves no other token. A reading turns the bits into a distribution over
tokens (`bench_output_layers.readings`). The naive reading is a softmax whose output embeddings are the codewords:

    log p(w) = s_w - logsumexp_v s_v = C_w . z - logsumexp_v C_v . z

With K codewords per token (`group`), namely its own and K - 1 with one of its check bits flipped, training uses the
best s_w, and p(w) is summed over all K codewords.
"""

from abc import abstractmethod
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits

from bench_core import Batch, Rng, State, SuiteError, TaskInfo, Training
from bench_output_layers.code_groups import CodeGroups
from bench_output_layers.code_table import CodeTable
from bench_output_layers.code_vectors import about, vectors_for
from bench_output_layers.codebook_kinds import GrayWalkConfig
from bench_output_layers.codebooks import CodebookConfig
from bench_output_layers.gray_walk import ranks
from bench_output_layers.layer import ScoringHead, chunks, counts_of
from bench_output_layers.orders import by_count
from bench_output_layers.packed_codes import check_codewords, code_length, unpack
from bench_output_layers.readings import Code, NaiveReading, ReadingMethod
from bench_output_layers.vectors import Vectors


class CodedHead(ScoringHead):
    """An output layer whose distribution over tokens is read from bits."""

    @abstractmethod
    def fit_reading(self, units: Tensor, gold: Tensor) -> None:
        """Fit the settings of the reading that are not given to tokens `gold` [M], given `units` [M, H]."""

    @abstractmethod
    def bit_errors(self, hidden: Tensor, gold: Tensor) -> Tensor:
        """Return the share of wrongly predicted bits [M] of each token of `gold` [M], given `hidden` [M, H]."""


class Ecoc(CodedHead):
    """Codewords of `bits` bits, by default as few as possible, from a codebook.

    Codebooks that need word vectors use the file `info.files["vectors"]`, or skip-gram vectors that `fit_statistics`
    learns; until then, the codewords are a Gray walk.

    Scores of tokens are sums of about d / 2 logits, all of which change in an update. With `exact` likelihood
    training, logits start at 0 and are multiplied by a `gain`, so that scores do not jump, and each token has a bias.
    """

    counts: Tensor  # [V] counts of tokens in the training split; 1 if the task has none

    def __init__(
        self,
        hidden: int,
        tokens: int,
        bits: int | None,
        codebook: CodebookConfig,
        group: int = 1,
        exact: bool = False,
        gain: float | None = None,
        vocabulary: int | None = None,
        reading: ReadingMethod | None = None,
    ) -> None:
        super().__init__()
        self.reading = reading or NaiveReading()
        self.tokens, self.config, self.exact = tokens, codebook, exact
        self.length = code_length(codebook, tokens, bits, vocabulary or tokens)
        walks, identity = type(codebook) is GrayWalkConfig, codebook.one_bit_per_token
        if group < 1 or (group > 1 and not walks):
            raise SuiteError(
                f"a group of {group} codewords per token is not possible with `codes: {codebook.name}`: the others "
                "differ in check bits, which only `gray-walk` has. Set another `group`, or other `codes`."
            )
        self.gain = gain or ((2 / self.length) ** 0.5 if exact and not identity else 1.0)
        self.linear = nn.Linear(hidden, self.length)
        self.token_bias = nn.Parameter(torch.zeros(tokens)) if exact and not identity else None
        self.table = CodeTable(tokens, self.length, walks, identity, group)
        self.groups = CodeGroups(self.table) if group > 1 else None
        self.register_buffer("counts", torch.ones(tokens, dtype=torch.int64))
        self._notes: Mapping[str, str] = {}
        self._missing = codebook.needs_vectors()

    # codewords

    def setup(self, info: TaskInfo, rng: Rng) -> None:
        self.prepare(info, rng, vectors_for(self.config, info))

    def prepare(self, info: TaskInfo, rng: Rng, vectors: Vectors | None) -> None:
        """Assign codewords to the tokens of `info`, with the vectors of these tokens if they are available."""
        if self.config.needs_counts():
            counts_of(info, f"`codes: {self.config.name}` ranks tokens")
        self._names, self._rng = info.vocabulary, rng
        self.counts.copy_(torch.tensor(info.counts or [1] * self.tokens))
        if self._missing and vectors is None:
            self._assign(GrayWalkConfig(order="unigram" if info.counts else "random"), None)
        else:
            self.assign(vectors)

    def assign(self, vectors: Vectors | None) -> None:
        """Assign codewords, after `prepare`; raise DataError if no token has a vector and the codebook needs them."""
        if vectors is not None:
            self._notes, self._missing = about(vectors, self.counts.cpu(), self.config), False
        self._assign(self.config, vectors)

    @property
    def needs_statistics(self) -> bool:
        return self._missing

    def fit_statistics(self, sentences: Sequence[list[int]], info: TaskInfo, rng: Rng) -> None:
        if self._missing:
            self.assign(vectors_for(self.config, info, sentences, rng))

    def notes(self) -> Mapping[str, str]:
        return self._notes

    @property
    def coded(self) -> Tensor:
        """Return the ids of the tokens with codewords [R]: all tokens."""
        return torch.arange(self.tokens, device=self.counts.device)

    @property
    def codebook(self) -> Tensor:
        """Return the codewords of the tokens `coded`, uint8 [R, d]; cached, so do not modify them."""
        return self.table.codes

    def codes(self, tokens: Tensor) -> Tensor:
        """Return the codewords of tokens, as numbers 0 and 1 [*, d]."""
        return unpack(self.table.packed[tokens], self.length).to(self.linear.weight.dtype)

    # bits

    def bits(self, hidden: Tensor) -> Tensor:
        """Return z, the logit of every bit [*, d]."""
        z: Tensor = self.linear(hidden).to(self.linear.weight.dtype)
        return z if self.gain == 1 else self.gain * z

    def code_scores(self, z: Tensor) -> Tensor:
        """Return C_w . z of every token [*, V]."""
        return self.table.products(z)

    def bit_costs(self, units: Tensor, gold: Tensor) -> Tensor:
        """Return -s of each token of `gold` [M], summed over bits, for the best codeword of its group."""
        z = self.bits(units)
        costs = binary_cross_entropy_with_logits(z, self.codes(gold), reduction="none").sum(1)
        return costs if self.groups is None else costs - self.groups.best_gain(z, gold)

    def bit_errors(self, hidden: Tensor, gold: Tensor) -> Tensor:
        parts = chunks(self.length, hidden, gold)
        wrong = ((self._without_nan(self.bits(units)) > 0) != self.codes(some).bool() for units, some in parts)
        return torch.cat([errors.double().mean(1) for errors in wrong])

    # tokens

    def scores(self, hidden: Tensor) -> Tensor:
        return self.naive(self.bits(hidden))

    def naive(self, z: Tensor) -> Tensor:
        """Return scores of all tokens [*, V] whose softmax treats the bits as independent, for logits `z` [*, d].

        This is the log of the sum of exp(C . z) over the codewords of each token, plus its bias.
        """
        scores = self.table.products(z)
        if self.groups is not None:
            scores = scores + self.groups.summed_gains(z)
        return scores if self.token_bias is None else scores + self.token_bias

    @property
    def code(self) -> Code:
        """Return the inputs of readings; cached."""
        dtype = torch.promote_types(self.linear.weight.dtype, torch.float32)  # half precision cannot add up shares
        more = self.code_scores, self.naive
        return self.table.cached(f"code {dtype}", lambda: Code(self.table.numbers(dtype), self.counts, *more))

    def log_probs(self, hidden: Tensor, past: State) -> tuple[Tensor, State]:
        log_probs, _ = self.reading_of(hidden.flatten(0, -2))
        return log_probs.view(*hidden.shape[:-1], self.tokens), past

    def log_probs_of(self, units: Tensor, gold: Tensor) -> Tensor:
        return self._reading.log_probs_of(self.bits(units), gold, self.code)

    def reading_of(self, units: Tensor) -> tuple[Tensor, Mapping[str, Tensor]]:
        return self._reading.distribution(self.bits(units), self.code)

    def fit_reading(self, units: Tensor, gold: Tensor) -> None:
        self.reading = self.reading.fitted(self.bits(units), gold, self.code)

    @property
    def _reading(self) -> ReadingMethod:
        """Return the reading; the naive one in training, which no setting of the evaluation may change."""
        return NaiveReading() if self.training else self.reading

    @torch.no_grad()
    def best(self, z: Tensor) -> Tensor:
        """Return the token of the most probable codeword [*]; ties go to the lowest rank."""
        tokens = []
        for some in torch.split(self._without_nan(z).reshape(-1, self.length), self.table.chunk):
            scores = self.table.products_by_rank(some)
            if self.groups is not None:
                scores = scores + self.groups.best_gains(some)[:, self.table.order]
            if self.token_bias is not None:
                scores = scores + self.token_bias[self.table.order]
            tokens.append(self.table.order[scores.argmax(1)])
        return torch.cat(tokens).view(z.shape[:-1])

    @torch.no_grad()
    def nearest(self, code: Tensor) -> Tensor:
        """Return the tokens whose codewords differ from codes [*, d] of 0 and 1 in the fewest bits.

        Ties go to the lowest rank; numbers between 0 and 1 count as expected differences. Groups are ignored.
        """
        flat = (2 * self._without_nan(code).to(self.linear.weight.dtype) - 1).reshape(-1, self.length)
        parts = (self.table.products_by_rank(some) for some in torch.split(flat, self.table.chunk))
        return torch.cat([self.table.order[products.argmax(1)] for products in parts]).view(code.shape[:-1])

    # costs

    def costs(self, units: Tensor, gold: Tensor, batch: Batch, training: Training) -> Tensor:
        return super().costs(units, gold, batch, training) if self.exact else self.bit_costs(units, gold)

    def loss(self, hidden: Tensor, batch: Batch, past: State, training: Training) -> tuple[Tensor, State]:
        """Return the training costs, even in evaluation mode: the bits are the model, not an approximation of it."""
        return self.costs(batch.at_real(hidden), batch.at_real(batch.gold), batch, training), past

    def score(self, hidden: Tensor, batch: Batch, past: State, by: str) -> tuple[Tensor, State]:
        if by != "bits":
            return super().score(hidden, batch, past, by)
        parts = chunks(self.length, batch.at_real(hidden), batch.at_real(batch.gold))
        return torch.cat([self.bound(units, gold) for units, gold in parts]), past

    def bound(self, units: Tensor, gold: Tensor) -> Tensor:
        """Return a lower bound of the log-probability of each token of `gold` [M]: s, from the bits alone.

        With biases b, it is s_w + b_w - max b, since the sum of exp(s_v + b_v) is at most exp(max b).
        """
        bound = -self.bit_costs(units, gold)
        return bound if self.token_bias is None else bound + self.token_bias[gold] - self.token_bias.max()

    # set-up

    def _assign(self, codebook: CodebookConfig, vectors: Vectors | None) -> None:
        """Store the codewords of a codebook; initialize biases from training frequencies of bits."""
        counts = self.counts.cpu()
        codes = codebook.codewords(counts, self.length, self._rng, vectors)
        codes = check_codewords(codes, codebook, self.length, self._names)
        walks = type(codebook) is GrayWalkConfig
        self.table.fill(codes, ranks(codes) if walks else by_count(counts).argsort())
        if self.groups is not None:
            self.groups.fill()
        if not self.exact:
            with torch.no_grad():
                self.linear.bias.copy_(self.table.frequencies(counts).logit())

    def _without_nan(self, z: Tensor) -> Tensor:
        """Return `z` [*, d]; outside of training, whose loss is checked, raise an error if it contains NaN."""
        if not self.training and bool(z.isnan().any()):
            wrong = int(z.isnan().any(-1).sum())
            raise SuiteError(
                f"the logits of bits are NaN at {wrong:,} of {z.shape[:-1].numel():,} positions, so no token can be "
                "ranked. The weights have diverged: lower `lr`, or set `clip`."
            )
        return z
