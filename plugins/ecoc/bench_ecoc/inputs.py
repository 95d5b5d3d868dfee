"""Training inputs: gold tokens, or a mixture with the predictions of the model (scheduled mixing).

Every method tosses a coin for each position, or for each latent of a position. Where at least one says so, the
embedding that is read is made from the prediction of the step before. Coins and noise are numbers of an example and a
step, so that neither batch nor order matters.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import one_hot

from bench_core import Noise, SuiteError, Training
from bench_ecoc.ecoc import Ecoc
from bench_ecoc.hierarchical import Hierarchical
from bench_ecoc.layer import Layer
from bench_ecoc.settings import CLVMS, DLVMS, Flips, Gold, Mixing, Scheduled, Soft, Softened

CERTAIN = 30.0  # the largest logit of a relaxed bit, and that of a gold one


@dataclass(frozen=True)
class Mix:
    """How much of what is read at one update comes from the model."""

    share: float  # p_mix, the probability of a replacement
    temperature: float  # tau of relaxed choices
    noise: Noise


@dataclass(frozen=True)
class Places:
    """M positions whose token is replaced, all of one step."""

    hidden: Tensor  # [M, H] units from which it was predicted
    gold: Tensor  # [M]
    coins: Tensor  # [M, C] which latents are predicted ones
    ids: Tensor  # [M] of their examples
    step: int


class Method(ABC):
    """A way of replacing gold tokens."""

    latents: int = 1  #: C, coins for each position

    def __init__(self, settings: Mixing, output: Layer, embed: nn.Embedding) -> None:
        self.settings, self.output, self.embed = settings, output, embed

    def mix(self, training: Training) -> Mix:
        """Return how much is replaced at an update."""
        settings, share = self.settings, done(training)
        temperature = 0.0
        if isinstance(settings, Softened):
            temperature = rising(1 - share if settings.reversed else share, settings.temperature)
        probability = settings.tau_max if settings.constant else rising(share, settings.tau_max)
        return Mix(probability, temperature, training.noise.fork("inputs"))

    def coins(self, ids: Tensor, step: int, mix: Mix) -> Tensor:
        """Return which latents of a step are replaced [N, C]."""
        return mix.noise.fork("coins").uniform(ids, step, self.latents) < mix.share

    @abstractmethod
    def read(self, places: Places, mix: Mix) -> Tensor:
        """Return what is read instead of the embeddings of gold tokens [M, E]."""


class Argmax(Method):
    """The most probable token, without a gradient through the choice (Bengio et al., 2015, arXiv:1506.03099)."""

    def read(self, places: Places, mix: Mix) -> Tensor:
        with torch.no_grad():
            tokens = self._choice(places.hidden)
        return self.embed(tokens)  # type: ignore[no-any-return]

    def _choice(self, hidden: Tensor) -> Tensor:
        if isinstance(self.output, Ecoc):
            return self.output.best(self.output.bits(hidden))
        return self.output.scores(hidden).argmax(1)


class SoftArgmax(Method):
    """sum_w softmax(score_w / tau) e_w, with its gradient (eq. 2)."""

    def read(self, places: Places, mix: Mix) -> Tensor:
        return soft_argmax(self.output.scores(places.hidden), mix.temperature) @ self.embed.weight


class Codes(Method):
    """A method whose latents are the bits of a code, all with coins of their own."""

    output: Ecoc
    settings: CLVMS | DLVMS

    def __init__(self, settings: CLVMS | DLVMS, output: Ecoc, embed: nn.Embedding) -> None:
        super().__init__(settings, output, embed)
        self.latents = output.length
        if settings.factors is not None and len(settings.factors) != self.latents:
            raise SuiteError(
                f"`inputs: {settings.kind}` has {len(settings.factors)} `factors`, and the code {self.latents} bits. "
                "Give one for each bit, those that number the token first, or leave them out."
            )

    def coins(self, ids: Tensor, step: int, mix: Mix) -> Tensor:
        uniform = mix.noise.fork("coins").uniform(ids, step, self.latents)
        if self.settings.factors is None:
            return uniform < mix.share
        return uniform < mix.share * torch.tensor(self.settings.factors, dtype=uniform.dtype, device=ids.device)


class MixedCode(Codes):
    """CLVMS: the token nearest to a code of predicted and gold bits (section 2.2), without a gradient."""

    def read(self, places: Places, mix: Mix) -> Tensor:
        return self.embed(self.tokens(places))  # type: ignore[no-any-return]

    @torch.no_grad()
    def tokens(self, places: Places) -> Tensor:
        """Return the tokens that are read [M]."""
        gold = self.output.codes(places.gold)
        predicted = (self.output.bits(places.hidden) > 0).to(gold.dtype)
        return self.output.nearest(torch.where(places.coins, predicted, gold))


class RelaxedCode(Codes):
    """DLVMS: the best tokens of a code of relaxed bits, as likely as these make them (eq. 4).

    A predicted bit is a binary concrete variable, a gold one as good as certain. The product of the bits'
    probabilities is renormalised over the tokens of the mix.
    """

    def read(self, places: Places, mix: Mix) -> Tensor:
        tokens, weights = self.weights(places, mix)
        return _weighted(weights, self.embed(tokens))

    def weights(self, places: Places, mix: Mix) -> tuple[Tensor, Tensor]:
        """Return the tokens that are mixed [M, K] and how much of each; the gradient goes to the bits."""
        assert isinstance(self.settings, DLVMS)
        bits = self.output.bits(places.hidden)
        uniform = mix.noise.fork("concrete").uniform(places.ids, places.step, self.latents)
        gold = CERTAIN * (2 * self.output.codes(places.gold) - 1)
        logits = torch.where(places.coins, concrete(bits, uniform, mix.temperature), gold)
        with torch.no_grad():
            scores = self.output.code_scores(logits)
            tokens = scores.topk(min(self.settings.best or 64, scores.shape[1]), 1).indices
        codes = self.output.codes(tokens)  # [M, K, d]
        return tokens, (codes @ logits[:, :, None])[:, :, 0].softmax(1)


class BitFlips(Method):
    """The gold code with one bit flipped, for the k least certain bits: their nearest tokens, mixed by softmax(s).

    s is the log-likelihood of each such code, the token's own only where the code is one.
    """

    output: Ecoc
    settings: Flips

    def __init__(self, settings: Flips, output: Ecoc, embed: nn.Embedding) -> None:
        super().__init__(settings, output, embed)
        if settings.k > output.length:
            raise SuiteError(
                f"`inputs: flips` flips {settings.k} bits, and the code has {output.length}. "
                "Lower `k`, or choose a longer code."
            )

    def read(self, places: Places, mix: Mix) -> Tensor:
        bits, k = self.output.bits(places.hidden), self.settings.k
        least = bits.detach().abs().topk(k, 1, largest=False).indices  # [M, k]
        code = self.output.codes(places.gold)  # [M, d]
        old = code.gather(1, least)
        flipped = code[:, None].repeat(1, k, 1).scatter(2, least[:, :, None], 1 - old[:, :, None])
        tokens = self.output.nearest(flipped.flatten(0, 1)).view(-1, k)
        gains = (1 - 2 * old) * bits.gather(1, least)  # to the gold code's log-likelihood
        return _weighted(gains.softmax(1), self.embed(tokens))


class MixedClass(Method):
    """CLVMS of a hierarchical softmax: class and index in it, each gold or predicted, without a gradient.

    A predicted index is the best of the class that is read; one that the class lacks is taken modulo its size.
    """

    latents = 2
    output: Hierarchical

    def read(self, places: Places, mix: Mix) -> Tensor:
        return self.embed(self.tokens(places))  # type: ignore[no-any-return]

    @torch.no_grad()
    def tokens(self, places: Places) -> Tensor:
        """Return the tokens that are read [M]."""
        output, (first, second) = self.output, places.coins.T
        best = output.class_logits(places.hidden).argmax(1)
        classes = torch.where(first, best, output.class_of[places.gold])
        leaves = output.leaf_logits(places.hidden, classes).argmax(1)
        index = torch.where(second, leaves, output.index_of[places.gold])
        return output.member[classes, index % output.sizes[classes]]


class RelaxedClass(Method):
    """DLVMS of a hierarchical softmax: relaxed classes, and a relaxed index in the gold one (eq. 3).

    Each is a Gumbel softmax, or gold, all of it on one class or token. The weights of the best classes are
    renormalised; a class that is not gold stands for its best token.
    """

    latents = 2
    output: Hierarchical
    settings: DLVMS

    def read(self, places: Places, mix: Mix) -> Tensor:
        gold = self.output.class_of[places.gold]
        weights, classes = self._classes(places, mix, gold)  # [M, K]
        with torch.no_grad():
            units = places.hidden[:, None].expand(-1, classes.shape[1], -1)
            best = self.output.member[classes, self.output.leaf_logits(units, classes).argmax(2)]
        inside = self._inside(places, mix, gold)[:, None]  # [M, 1, E]
        return _weighted(weights, torch.where((classes == gold[:, None])[:, :, None], inside, self.embed(best)))

    def _classes(self, places: Places, mix: Mix, gold: Tensor) -> tuple[Tensor, Tensor]:
        """Return the weights of the best classes [M, K], and which these are."""
        relaxed = _gumbel_softmax(self.output.class_logits(places.hidden), places, mix, "class")
        weights = torch.where(places.coins[:, :1], relaxed, one_hot(gold, relaxed.shape[1]))
        weights, classes = weights.topk(min(self.settings.best or 10, weights.shape[1]), 1)
        return weights / weights.sum(1, keepdim=True), classes

    def _inside(self, places: Places, mix: Mix, gold: Tensor) -> Tensor:
        """Return what is read of the gold class [M, E]."""
        relaxed = _gumbel_softmax(self.output.leaf_logits(places.hidden, gold), places, mix, "index")
        index = one_hot(self.output.index_of[places.gold], relaxed.shape[1])
        weights = torch.where(places.coins[:, 1:], relaxed, index)
        return _weighted(weights, self.embed(self.output.member[gold].clamp(min=0)))


METHODS: dict[type[Mixing], Callable[..., Method]] = {Scheduled: Argmax, Soft: SoftArgmax}
OF_CODES: dict[type[Mixing], Callable[..., Method]] = {CLVMS: MixedCode, DLVMS: RelaxedCode, Flips: BitFlips}
OF_CLASSES: dict[type[Mixing], Callable[..., Method]] = {CLVMS: MixedClass, DLVMS: RelaxedClass}


def method(settings: Gold | Mixing, output: Layer, embed: nn.Embedding) -> Method | None:
    """Return the method that settings ask for, None for gold; raise SuiteError if it does not fit the code."""
    if isinstance(settings, Gold):
        return None
    kinds = METHODS | (OF_CODES if isinstance(output, Ecoc) else OF_CLASSES)
    return kinds[type(settings)](settings, output, embed)  # its Config refuses other combinations


def rising(share: float, top: float) -> float:
    """Return top / (1 + exp(-ep / delta)), where `share` of training is done: 0 in its first epoch, 1 in its last.

    For epoch i of N that is share = i / (N - 1), ep = N (share - 1/2) and delta = N / (2 ln 249), so N drops out.
    """
    return float(top / (1 + 249 ** (1 - 2 * share)))


def done(training: Training) -> float:
    """Return the share of training that is done, the same for all updates of an epoch.

    Where it is planned in updates, and `epochs` counts but those begun so far, or where there is one epoch alone, the
    updates tell it.
    """
    if training.epochs > 1 and training.step * training.epochs >= training.steps * training.epoch:
        return training.epoch / (training.epochs - 1)
    return training.step / max(1, training.steps - 1)


def soft_argmax(scores: Tensor, temperature: float) -> Tensor:
    """Return softmax(scores / tau) over the last dimension; for tau near 0 all is on the highest."""
    return (scores / temperature).softmax(-1)


def concrete(logits: Tensor, uniform: Tensor, temperature: float) -> Tensor:
    """Return logits of relaxed bits, (logit + log u - log(1 - u)) / tau, of which none is certain beyond 30."""
    noise = uniform.logit().to(logits.dtype)
    return ((logits + noise) / temperature).clamp(-CERTAIN, CERTAIN)


def gumbel(uniform: Tensor) -> Tensor:
    """Return -log(-log u): the choice with the highest sum of it and a log-probability is a draw."""
    return -(-uniform.log()).log()


def _gumbel_softmax(logits: Tensor, places: Places, mix: Mix, name: str) -> Tensor:
    """Return a relaxed draw of one out of logits [M, C]."""
    uniform = mix.noise.fork(name).uniform(places.ids, places.step, logits.shape[1])
    return soft_argmax(logits + gumbel(uniform).to(logits.dtype), mix.temperature)


def _weighted(weights: Tensor, vectors: Tensor) -> Tensor:
    """Return the sum [M, E] of vectors [M, K, E] times their weights [M, K]."""
    return (weights[:, None].to(vectors.dtype) @ vectors)[:, 0]
