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

from bench_core import Rng, SuiteError, Training
from bench_ecoc.settings import CLVMS, DLVMS, Flips, Gold, Mixing, Scheduled, Soft, Softened
from bench_output_layers.api import Ecoc, HierarchicalSoftmax, ScoringHead

MAX_LOGIT = 30.0  # largest logit of a relaxed bit, and logit of a gold bit


@dataclass(frozen=True)
class Mix:
    """Parameters of the replacements in an update."""

    share: float  # p_mix, the probability of a replacement
    temperature: float  # tau of relaxed choices
    rng: Rng


@dataclass(frozen=True)
class ReplacedPositions:
    """M positions with replaced tokens, all at the same step."""

    hidden: Tensor  # [M, H] units that predict the token
    gold: Tensor  # [M]
    coins: Tensor  # [M, C] which latents are predicted
    ids: Tensor  # [M]
    step: int


class Method(ABC):
    """A method of replacing gold tokens."""

    latents: int = 1  #: C, the number of coins per position

    def __init__(self, settings: Mixing, output: ScoringHead, embed: nn.Embedding) -> None:
        self.settings, self.output, self.embed = settings, output, embed

    def mix(self, training: Training) -> Mix:
        """Return the parameters of an update."""
        settings, share = self.settings, progress(training)
        temperature = 0.0
        if isinstance(settings, Softened):
            temperature = rising(1 - share if settings.reversed else share, settings.temperature)
        probability = settings.tau_max if settings.constant else rising(share, settings.tau_max)
        return Mix(probability, temperature, training.rng.fork("inputs"))

    def coins(self, ids: Tensor, step: int, mix: Mix) -> Tensor:
        """Return which latents of a step are replaced [N, C]."""
        return mix.rng.fork("coins").uniform(ids, step, self.latents) < mix.share

    @abstractmethod
    def read(self, places: ReplacedPositions, mix: Mix) -> Tensor:
        """Return the embeddings [M, E] that replace the embeddings of the gold tokens."""


class Argmax(Method):
    """The most probable token, without a gradient through the choice (Bengio et al., 2015, arXiv:1506.03099)."""

    def read(self, places: ReplacedPositions, mix: Mix) -> Tensor:
        with torch.no_grad():
            tokens = self._choice(places.hidden)
        return self.embed(tokens)  # type: ignore[no-any-return]

    def _choice(self, hidden: Tensor) -> Tensor:
        if isinstance(self.output, Ecoc):
            return self.output.best(self.output.bits(hidden))
        return self.output.scores(hidden).argmax(1)


class SoftArgmax(Method):
    """sum_w softmax(score_w / tau) e_w, with its gradient (eq. 2)."""

    def read(self, places: ReplacedPositions, mix: Mix) -> Tensor:
        return soft_argmax(self.output.scores(places.hidden), mix.temperature) @ self.embed.weight


class CodeMethod(Method):
    """A method whose latents are the bits of a code, each with its own coin."""

    output: Ecoc
    settings: CLVMS | DLVMS

    def __init__(self, settings: CLVMS | DLVMS, output: Ecoc, embed: nn.Embedding) -> None:
        super().__init__(settings, output, embed)
        self.latents = output.length
        if settings.factors is not None and len(settings.factors) != self.latents:
            raise SuiteError(
                f"`inputs: {settings.kind}` has {len(settings.factors)} `factors`, but the code has {self.latents} "
                "bits. Provide one per bit, base bits first, or leave them out."
            )

    def coins(self, ids: Tensor, step: int, mix: Mix) -> Tensor:
        uniform = mix.rng.fork("coins").uniform(ids, step, self.latents)
        if self.settings.factors is None:
            return uniform < mix.share
        return uniform < mix.share * torch.tensor(self.settings.factors, dtype=uniform.dtype, device=ids.device)


class MixedCode(CodeMethod):
    """CLVMS: the token nearest to a code of predicted and gold bits (section 2.2), without a gradient."""

    def read(self, places: ReplacedPositions, mix: Mix) -> Tensor:
        return self.embed(self.tokens(places))  # type: ignore[no-any-return]

    @torch.no_grad()
    def tokens(self, places: ReplacedPositions) -> Tensor:
        """Return the tokens to read [M]."""
        gold = self.output.codes(places.gold)
        predicted = (self.output.bits(places.hidden) > 0).to(gold.dtype)
        return self.output.nearest(torch.where(places.coins, predicted, gold))


class RelaxedCode(CodeMethod):
    """DLVMS: the most probable tokens under a code of relaxed bits, weighted by their probabilities (eq. 4).

    A predicted bit is a binary concrete variable; a gold bit is nearly certain. The product of the bit probabilities
    is renormalized over the tokens of the mixture.
    """

    def read(self, places: ReplacedPositions, mix: Mix) -> Tensor:
        tokens, weights = self.weights(places, mix)
        return _weighted_sum(weights, self.embed(tokens))

    def weights(self, places: ReplacedPositions, mix: Mix) -> tuple[Tensor, Tensor]:
        """Return the tokens of the mixture [M, K] and their weights; gradients flow to the bits."""
        assert isinstance(self.settings, DLVMS)
        bits = self.output.bits(places.hidden)
        uniform = mix.rng.fork("concrete").uniform(places.ids, places.step, self.latents)
        gold = MAX_LOGIT * (2 * self.output.codes(places.gold) - 1)
        logits = torch.where(places.coins, concrete(bits, uniform, mix.temperature), gold)
        with torch.no_grad():
            scores = self.output.code_scores(logits)
            tokens = scores.topk(min(self.settings.best or 64, scores.shape[1]), 1).indices
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

    def read(self, places: ReplacedPositions, mix: Mix) -> Tensor:
        bits, k = self.output.bits(places.hidden), self.settings.k
        least = bits.detach().abs().topk(k, 1, largest=False).indices  # [M, k]
        code = self.output.codes(places.gold)  # [M, d]
        old = code.gather(1, least)
        flipped = code[:, None].repeat(1, k, 1).scatter(2, least[:, :, None], 1 - old[:, :, None])
        tokens = self.output.nearest(flipped.flatten(0, 1)).view(-1, k)
        gains = (1 - 2 * old) * bits.gather(1, least)  # changes of the log-likelihood from the gold code
        return _weighted_sum(gains.softmax(1), self.embed(tokens))


class MixedClass(Method):
    """CLVMS of a hierarchical softmax: class and index, each gold or predicted, without a gradient.

    A predicted index is the best index in the chosen class; a gold index beyond the end of the class is taken modulo
    the class size.
    """

    latents = 2
    output: HierarchicalSoftmax

    def read(self, places: ReplacedPositions, mix: Mix) -> Tensor:
        return self.embed(self.tokens(places))  # type: ignore[no-any-return]

    @torch.no_grad()
    def tokens(self, places: ReplacedPositions) -> Tensor:
        """Return the tokens to read [M]."""
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

    def read(self, places: ReplacedPositions, mix: Mix) -> Tensor:
        gold = self.output.class_of[places.gold]
        weights, classes = self._classes(places, mix, gold)  # [M, K]
        with torch.no_grad():
            units = places.hidden[:, None].expand(-1, classes.shape[1], -1)
            best = self.output.member[classes, self.output.leaf_logits(units, classes).argmax(2)]
        inside = self._inside(places, mix, gold)[:, None]  # [M, 1, E]
        return _weighted_sum(weights, torch.where((classes == gold[:, None])[:, :, None], inside, self.embed(best)))

    def _classes(self, places: ReplacedPositions, mix: Mix, gold: Tensor) -> tuple[Tensor, Tensor]:
        """Return the weights and indices of the best classes [M, K]."""
        relaxed = _gumbel_softmax(self.output.class_logits(places.hidden), places, mix, "class")
        weights = torch.where(places.coins[:, :1], relaxed, one_hot(gold, relaxed.shape[1]))
        weights, classes = weights.topk(min(self.settings.best or 10, weights.shape[1]), 1)
        return weights / weights.sum(1, keepdim=True), classes

    def _inside(self, places: ReplacedPositions, mix: Mix, gold: Tensor) -> Tensor:
        """Return the embedding read for the gold class [M, E]."""
        relaxed = _gumbel_softmax(self.output.leaf_logits(places.hidden, gold), places, mix, "index")
        index = one_hot(self.output.index_of[places.gold], relaxed.shape[1])
        weights = torch.where(places.coins[:, 1:], relaxed, index)
        return _weighted_sum(weights, self.embed(self.output.member[gold].clamp(min=0)))


METHODS: dict[type[Mixing], Callable[..., Method]] = {Scheduled: Argmax, Soft: SoftArgmax}
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


def _weighted_sum(weights: Tensor, vectors: Tensor) -> Tensor:
    """Return the sum [M, E] of vectors [M, K, E] with weights [M, K]."""
    return (weights[:, None].to(vectors.dtype) @ vectors)[:, 0]
