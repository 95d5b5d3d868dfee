"""A learned posterior over generation orders, trained together with the insertion model.

A network that reads source and target scores the places of the words; the orders of a target are Plackett-Luce with
these scores. Both networks maximize E_q[log p(y, pi | x) - log q(pi | y, x)], a lower bound of log p(y | x): the
model by its own gradient, the posterior by the score function with a leave-one-out baseline (Kool, van Hoof and
Welling, 2019). Learned posteriors over orders: Li et al. (2021, arXiv:2110.15797).
"""

from typing import Protocol

from torch import Tensor, nn

from bench_core import Batch, Loss, SuiteError, TaskInfo, Training, on_host, remember, waits_for_device
from bench_indigo.blocks import Embedding, EncodedSources, Shape, attention_mask, sinusoids
from bench_indigo.encoder import SourceEncoder
from bench_indigo.kv_cache import DecoderStack
from bench_indigo.plackett_luce import log_prob, sample_orders
from bench_indigo.plugin import IndigoConfig
from bench_indigo.prefixes import Prefixes, prefixes


class OrderPosterior(nn.Module):
    """Scores of the places of a target, by a Transformer that reads source and target with its own weights.

    The last layer starts at 0, so all orders are equally probable at first.
    """

    def __init__(self, config: IndigoConfig, info: TaskInfo) -> None:
        super().__init__()
        layers = config.posterior_layers
        settings = config.model_copy(update={"layers": layers, "shared": False})
        self.encoder = SourceEncoder(settings, info, None)
        self.embed = Embedding(len(info.vocabulary), config.d_model)
        shape = Shape(config.d_model, config.heads, config.feed_forward, config.dropout, relative=False)
        self.stack = DecoderStack(shape, layers)
        self.dropout = nn.Dropout(config.dropout)
        self.score = nn.Linear(config.d_model, 1, bias=False)
        nn.init.zeros_(self.score.weight)

    def forward(self, batch: Batch) -> Tensor:
        """Return the score of each place of `gold` [N, T]; scores of EOS and padding have no meaning."""
        sources = self.stack.read(*self.encoder(batch))
        states = self.embed(batch.gold)
        states = self.dropout(states + sinusoids(0, states.shape[1], states))
        seen = batch.mask[:, None].expand(-1, states.shape[1], -1)
        states = self.stack(states, attention_mask(seen, None, states), sources)
        scores: Tensor = self.score(states)[:, :, 0]
        return scores


class OrderCosting(Protocol):
    """The part of the insertion model that a posterior trains with."""

    def order_costs(
        self, batch: Batch, tree: Prefixes, sources: EncodedSources, smoothing: float = 0.0, ends: bool = False
    ) -> tuple[Tensor, Tensor]:
        """Return -log p of the words and of the slots along each order [N, W]."""
        ...


def posterior_of(posterior: OrderPosterior | None) -> OrderPosterior:
    """Return the posterior of a model; raise SuiteError if it has none."""
    if posterior is None:
        raise SuiteError(
            "a phase sets `order: learned`, but the model has no posterior over orders. Set `order: learned` in the "
            "settings of the model, and other orders in its phases."
        )
    return posterior


def learned_loss(
    model: OrderCosting,
    posterior: OrderPosterior,
    batch: Batch,
    sources: EncodedSources,
    config: IndigoConfig,
    training: Training,
) -> Loss:
    """Return the negative bound per token; its gradient is an unbiased estimate for both networks.

    The entropy of the posterior counts `config.entropy` times; the value is the bound only if this is 1.
    """
    scores, number = posterior(batch), batch.length - 1
    with waits_for_device("the orders that are sampled depend on the weights"):
        rng = training.rng.fork("learned order")
        orders = sample_orders(scores.detach(), number, batch.ids, config.samples, rng)
        tree = prefixes(batch, orders)
        for part in (tree.share, tree.weight):
            remember(part, on_host(part))
    words, slots = model.order_costs(batch, tree, sources, training.label_smoothing, config.eod_slot)
    log_q = log_prob(scores, orders, number)
    log_probs, tokens = -(words + slots), batch.length.sum()
    policy = score_function(log_q, (log_probs - config.entropy * log_q).detach())
    bound = log_probs.mean(1) - config.entropy * log_q.detach().mean(1) + policy - policy.detach()
    parts = {"words": words.mean(1), "slots": slots.mean(1), "entropy": -log_q.mean(1)}
    return Loss(-bound.sum() / tokens, tokens, {name: part.sum() / tokens for name, part in parts.items()})


def imitation(posterior: OrderPosterior, batch: Batch, tree: Prefixes) -> Tensor:
    """Return -log q of the orders of a prefix tree, per target token: what the posterior learns in other phases.

    A later phase of learned orders then starts from the orders that the model knows.
    """
    orders = tree.index.gather(1, tree.path.flatten(1)).view(tree.path.shape)  # [N, W, T - 1]
    log_q = log_prob(posterior(batch)[:, : orders.shape[2]], orders, batch.length - 1)
    return -(log_q * tree.weight).sum() / batch.length.sum()


def score_function(log_q: Tensor, rewards: Tensor) -> Tensor:
    """Return a term [N] whose gradient estimates that of E_q[reward], given W samples for each of N targets [N, W].

    The baseline of a sample is the mean reward of the other samples, so the estimate is unbiased.
    """
    others = (rewards.sum(1, keepdim=True) - rewards) / (rewards.shape[1] - 1)
    return ((rewards - others) * log_q).mean(1)
