"""Training inputs: gold tokens, or a mixture with the model's predictions (scheduled mixing).

Every method tosses a coin for each position, or for each latent of a position. If at least one coin selects the
prediction of the previous step, the embedding of the gold token is replaced. Coins and noise depend only on the
example and the step, so batching and order do not matter.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import one_hot

from bench_core import Rng, SuiteError, Training, invert
from bench_ecoc.settings import CLVMS, DLVMS, Flips, Gold, Mixing, Scheduled, Soft, Softened
from bench_output_layers.api import Ecoc, HierarchicalSoftmax, ScoringHead

MAX_LOGIT = 30.0  # largest logit of a relaxed bit, and logit of a gold bit
MIXTURE = 64  # default number of tokens in a mixture of relaxed codes


@dataclass(frozen=True)
class Mix:
    """Parameters of the replacements in an update."""

    share: float  # p_mix, the probability of a replacement
    temperature: float  # tau of relaxed choices
    rng: Rng


@dataclass(frozen=True)
class ReplacedPositions:
    """M positions with replaced tokens."""

    hidden: Tensor  # [M, H] units that predict the token
    gold: Tensor  # [M]
    coins: Tensor  # [M, C] which latents are predicted
    ids: Tensor  # [M]
    step: int | Tensor  # of all positions, or of each [M]


@dataclass(frozen=True)
class Replacements:
    """The inputs at M positions."""

    embeddings: Tensor  # [M, E]
    changed: Tensor  # [M] share of the embedding from tokens other than the gold token


class Method(ABC):
    """A method of replacing gold tokens."""

    latents: int = 1  #: C, the number of coins per position

    def __init__(self, settings: Mixing, output: ScoringHead, embed: nn.Embedding) -> None:
        self.settings, self.output, self.embed = settings, output, embed

    def mix(self, training: Training) -> Mix:
        """Return the parameters of an update."""
        return self.mix_after(progress(training), training.rng)

    def mix_after(self, share: float, rng: Rng) -> Mix:
        """Return the parameters after a share of training."""
        settings, temperature = self.settings, 0.0
        if isinstance(settings, Softened):
            temperature = rising(1 - share if settings.reversed else share, settings.temperature)
        probability = settings.tau_max if settings.constant else rising(share, settings.tau_max)
        return Mix(probability, temperature, rng.fork("inputs"))

    def coins(self, ids: Tensor, step: int | Tensor, mix: Mix) -> Tensor:
        """Return which latents of a step are replaced [N, C]."""
        return mix.rng.fork("coins").uniform(ids, step, self.latents) < mix.share

    @abstractmethod
    def read(self, places: ReplacedPositions, mix: Mix) -> Replacements:
        """Return the inputs that replace the gold tokens."""

    @torch.no_grad()
    def changed(self, mix: Mix, hidden: Tensor, gold: Tensor, ids: Tensor, steps: Tensor) -> Tensor:
        """Return the share of the input at M positions that comes from other tokens than gold; 0 if it is gold."""
        coins = self.coins(ids, steps, mix)
        rows = coins.any(1).nonzero()[:, 0]
        shares = hidden.new_zeros(len(ids))
        if not len(rows):
            return shares
        places = ReplacedPositions(hidden[rows], gold[rows], coins[rows], ids[rows], steps[rows])
        return shares.index_copy(0, rows, self.read(places, mix).changed.to(shares.dtype))


class SingleToken(Method):
    """A method that reads a single token, without a gradient through the choice."""

    def read(self, places: ReplacedPositions, mix: Mix) -> Replacements:
        tokens = self.tokens(places, mix)
        return Replacements(self.embed(tokens), (tokens != places.gold).to(places.hidden.dtype))

    @abstractmethod
    def tokens(self, places: ReplacedPositions, mix: Mix) -> Tensor:
        """Return the tokens to read [M]."""


class Argmax(SingleToken):
    """The most probable token (Bengio et al., 2015, arXiv:1506.03099)."""

    @torch.no_grad()
    def tokens(self, places: ReplacedPositions, mix: Mix) -> Tensor:
        if isinstance(self.output, Ecoc):
            return self.output.best(self.output.bits(places.hidden))
        return self.output.scores(places.hidden).argmax(1)


class SampledToken(SingleToken):
    """A token sampled from the distribution that decoders use (section 2.2)."""

    @torch.no_grad()
    def tokens(self, places: ReplacedPositions, mix: Mix) -> Tensor:
        uniform = mix.rng.fork("sample").uniform(places.ids, places.step)
        return invert(self.output.distribution(places.hidden), uniform)


class SoftArgmax(Method):
    """sum_w softmax(score_w / tau) e_w, with its gradient (eq. 2)."""

    def read(self, places: ReplacedPositions, mix: Mix) -> Replacements:
        weights = soft_argmax(self.output.scores(places.hidden), mix.temperature)
        return Replacements(weights @ self.embed.weight, 1 - weights.detach().gather(1, places.gold[:, None])[:, 0])


class CodeMethod(Method):
    """A method whose latents are the bits of a code, each with its own coin."""

    output: Ecoc
    settings: CLVMS | DLVMS

    def __init__(self, settings: CLVMS | DLVMS, output: Ecoc, embed: nn.Embedding) -> None:
        super().__init__(settings, output, embed)
        self.latents = output.length
        factors = settings.factors
        self.factors = falling(self.latents) if factors == "falling" else factors
        if self.factors is not None and len(self.factors) != self.latents:
            raise SuiteError(
                f"`inputs: {settings.kind}` has {len(self.factors)} `factors`, but the code has {self.latents} "
                "bits. Provide one per bit, base bits first, or leave them out."
            )

    def coins(self, ids: Tensor, step: int | Tensor, mix: Mix) -> Tensor:
        uniform = mix.rng.fork("coins").uniform(ids, step, self.latents)
        if self.factors is None:
            return uniform < mix.share
        return uniform < mix.share * torch.tensor(self.factors, dtype=uniform.dtype, device=ids.device)


class MixedCode(CodeMethod, SingleToken):
    """CLVMS: the token nearest to a code of predicted and gold bits (section 2.1)."""

    @torch.no_grad()
    def tokens(self, places: ReplacedPositions, mix: Mix) -> Tensor:
        gold = self.output.codes(places.gold)
        predicted = (self.output.bits(places.hidden) > 0).to(gold.dtype)
        return self.output.nearest(torch.where(places.coins, predicted, gold))


class RelaxedCode(CodeMethod):
    """DLVMS: the most probable tokens under a code of relaxed bits, weighted by their probabilities (eq. 4).

    A predicted bit is a binary concrete variable; a gold bit is nearly certain. The product of the bit probabilities
    is renormalized over the tokens of the mixture.
    """

    def read(self, places: ReplacedPositions, mix: Mix) -> Replacements:
        return _mixture(*self.weights(places, mix), places.gold, self.embed)

    def weights(self, places: ReplacedPositions, mix: Mix) -> tuple[Tensor, Tensor]:
        """Return the tokens of the mixture [M, K] and their weights; gradients flow to the bits."""
        assert isinstance(self.settings, DLVMS)
        bits = self.output.bits(places.hidden)
        uniform = mix.rng.fork("concrete").uniform(places.ids, places.step, self.latents)
        gold = MAX_LOGIT * (2 * self.output.codes(places.gold) - 1)
        logits = torch.where(places.coins, concrete(bits, uniform, mix.temperature), gold)
        with torch.no_grad():
            scores = self.output.code_scores(logits)
            tokens = scores.topk(min(self.settings.best or MIXTURE, scores.shape[1]), 1).indices
        codes = self.output.codes(tokens)  # [M, K, d]
        return tokens, (codes @ logits[:, :, None])[:, :, 0].softmax(1)


class BitFlips(Method):
    """The tokens nearest to the gold code with one of the k least certain bits flipped, weighted by softmax(s).

    s is the log-likelihood of each flipped code, which equals the token's only if the code is a codeword.
    """

    output: Ecoc
    settings: Flips

    def __init__(self, settings: Flips, output: Ecoc, embed: nn.Embedding) -> None:
        super().__init__(settings, output, embed)
        if settings.k > output.length:
            raise SuiteError(
                f"`inputs: flips` flips {settings.k} bits, but the code has only {output.length}. "
                "Lower `k`, or choose a longer code."
            )

    def read(self, places: ReplacedPositions, mix: Mix) -> Replacements:
        bits, k = self.output.bits(places.hidden), self.settings.k
        least = bits.detach().abs().topk(k, 1, largest=False).indices  # [M, k]
        code = self.output.codes(places.gold)  # [M, d]
        old = code.gather(1, least)
        flipped = code[:, None].repeat(1, k, 1).scatter(2, least[:, :, None], 1 - old[:, :, None])
        tokens = self.output.nearest(flipped.flatten(0, 1)).view(-1, k)
        gains = (1 - 2 * old) * bits.gather(1, least)  # changes of the log-likelihood from the gold code
        return _mixture(tokens, gains.softmax(1), places.gold, self.embed)


class MixedClass(SingleToken):
    """CLVMS of a hierarchical softmax: class and index, each gold or predicted.

    A predicted index is the best index in the chosen class; a gold index beyond the end of the class is taken modulo
    the class size.
    """

    latents = 2
    output: HierarchicalSoftmax

    @torch.no_grad()
    def tokens(self, places: ReplacedPositions, mix: Mix) -> Tensor:
        output, (first, second) = self.output, places.coins.T
        best = output.class_logits(places.hidden).argmax(1)
        classes = torch.where(first, best, output.class_of[places.gold])
        leaves = output.leaf_logits(places.hidden, classes).argmax(1)
        index = torch.where(second, leaves, output.index_of[places.gold])
        return output.member[classes, index % output.sizes[classes]]


class RelaxedClass(Method):
    """DLVMS of a hierarchical softmax: relaxed classes, and a relaxed index in the gold class (eq. 3).

    Each is a Gumbel softmax, or one-hot if gold. The weights of the best classes are renormalized; a class other than
    the gold class is represented by its best token.
    """

    latents = 2
    output: HierarchicalSoftmax
    settings: DLVMS

    def read(self, places: ReplacedPositions, mix: Mix) -> Replacements:
        gold = self.output.class_of[places.gold]
        weights, classes = self._classes(places, mix, gold)  # [M, K]
        with torch.no_grad():
            units = places.hidden[:, None].expand(-1, classes.shape[1], -1)
            best = self.output.member[classes, self.output.leaf_logits(units, classes).argmax(2)]
        inside = self._inside(places, mix, gold)  # [M, S]
        vectors = _weighted_sum(inside, self.embed(self.output.member[gold].clamp(min=0)))[:, None]  # [M, 1, E]
        is_gold = classes == gold[:, None]
        embeddings = _weighted_sum(weights, torch.where(is_gold[:, :, None], vectors, self.embed(best)))
        ours = inside.gather(1, self.output.index_of[places.gold][:, None])[:, 0]
        return Replacements(embeddings, (1 - (weights * is_gold).sum(1) * ours).detach())

    def _classes(self, places: ReplacedPositions, mix: Mix, gold: Tensor) -> tuple[Tensor, Tensor]:
        """Return the weights and indices of the best classes [M, K]."""
        relaxed = _gumbel_softmax(self.output.class_logits(places.hidden), places, mix, "class")
        weights = torch.where(places.coins[:, :1], relaxed, one_hot(gold, relaxed.shape[1]))
        weights, classes = weights.topk(min(self.settings.best or 10, weights.shape[1]), 1)
        return weights / weights.sum(1, keepdim=True), classes

    def _inside(self, places: ReplacedPositions, mix: Mix, gold: Tensor) -> Tensor:
        """Return the weights of the tokens of the gold class [M, S]."""
        relaxed = _gumbel_softmax(self.output.leaf_logits(places.hidden, gold), places, mix, "index")
        index = one_hot(self.output.index_of[places.gold], relaxed.shape[1])
        return torch.where(places.coins[:, 1:], relaxed, index.to(relaxed.dtype))


def _scheduled(settings: Scheduled, output: ScoringHead, embed: nn.Embedding) -> Method:
    return (SampledToken if settings.choice == "sample" else Argmax)(settings, output, embed)


METHODS: dict[type[Mixing], Callable[..., Method]] = {Scheduled: _scheduled, Soft: SoftArgmax}
CODE_METHODS: dict[type[Mixing], Callable[..., Method]] = {CLVMS: MixedCode, DLVMS: RelaxedCode, Flips: BitFlips}
CLASS_METHODS: dict[type[Mixing], Callable[..., Method]] = {CLVMS: MixedClass, DLVMS: RelaxedClass}


def method(settings: Gold | Mixing, output: ScoringHead, embed: nn.Embedding) -> Method | None:
    """Create the method that the settings select (None for gold); raise SuiteError if it does not fit the code."""
    if isinstance(settings, Gold):
        return None
    kinds = METHODS | (CODE_METHODS if isinstance(output, Ecoc) else CLASS_METHODS)
    return kinds[type(settings)](settings, output, embed)  # the Config rejects other combinations


def rising(share: float, top: float) -> float:
    """Return top / (1 + exp(-ep / delta)) after a `share` of training: 0 in the first epoch, 1 in the last.

    For epoch i of N, share = i / (N - 1), ep = N (share - 1/2) and delta = N / (2 ln 249), so N cancels.
    """
    return float(top / (1 + 249 ** (1 - 2 * share)))


def falling(bits: int) -> tuple[float, ...]:
    """Return one factor per bit [d], falling linearly from 1 at the first bit to 1 / d at the last."""
    return tuple((bits - place) / bits for place in range(bits))


def progress(training: Training) -> float:
    """Return the completed share of training, the same for all updates of an epoch.

    If training is planned in updates, so that `epochs` is only the number of epochs begun, or has a single epoch, the
    share is computed from updates.
    """
    if training.epochs > 1 and training.step * training.epochs >= training.steps * training.epoch:
        return training.epoch / (training.epochs - 1)
    return training.step / max(1, training.steps - 1)


def soft_argmax(scores: Tensor, temperature: float) -> Tensor:
    """Return softmax(scores / tau) over the last dimension; for tau near 0, all weight is on the highest score."""
    return (scores / temperature).softmax(-1)


def concrete(logits: Tensor, uniform: Tensor, temperature: float) -> Tensor:
    """Return the logits of relaxed bits, (logit + log u - log(1 - u)) / tau, clipped to [-30, 30]."""
    noise = uniform.logit().to(logits.dtype)
    return ((logits + noise) / temperature).clamp(-MAX_LOGIT, MAX_LOGIT)


def gumbel(uniform: Tensor) -> Tensor:
    """Return -log(-log u); the argmax of log-probabilities plus this noise is a sample."""
    return -(-uniform.log()).log()


def _gumbel_softmax(logits: Tensor, places: ReplacedPositions, mix: Mix, name: str) -> Tensor:
    """Return a relaxed sample from a categorical distribution with logits [M, C]."""
    uniform = mix.rng.fork(name).uniform(places.ids, places.step, logits.shape[1])
    return soft_argmax(logits + gumbel(uniform).to(logits.dtype), mix.temperature)


def _mixture(tokens: Tensor, weights: Tensor, gold: Tensor, embed: nn.Embedding) -> Replacements:
    """Return mixtures of tokens [M, K] with weights [M, K] that sum to one."""
    changed = (weights * (tokens != gold[:, None])).sum(1).detach()
    return Replacements(_weighted_sum(weights, embed(tokens)), changed)


def _weighted_sum(weights: Tensor, vectors: Tensor) -> Tensor:
    """Return the sum [M, E] of vectors [M, K, E] with weights [M, K]."""
    return (weights[:, None].to(vectors.dtype) @ vectors)[:, 0]
