"""Insertion-based decoding with inferred orders (Gu et al., 2019).

Words and slots alternate, so the model is not a `LanguageModel` of the kit, which generates from left to right.
"""

from dataclasses import dataclass, replace

import torch
from pydantic import ValidationError
from torch import Tensor
from torch.nn.functional import pad

from bench_core import (
    STOP,
    Batch,
    Loss,
    Rng,
    Scorer,
    Scores,
    Scoring,
    State,
    Stepper,
    SuiteError,
    TaskInfo,
    Training,
    by_host,
    on_host,
    remember,
    to_device,
    waits_for_device,
)
from bench_indigo import slot_first
from bench_indigo.blocks import EncodedSources, attention_mask
from bench_indigo.insertion_network import InsertionNetwork
from bench_indigo.kv_cache import Trail
from bench_indigo.learned_order import OrderPosterior, imitation, learned_loss, posterior_of
from bench_indigo.order_weights import OrderCosts, sharpness, weighted
from bench_indigo.orders import Ordering, make_order
from bench_indigo.plackett_luce import WeightedOrders, best_order, including, orders_to_score, uniform
from bench_indigo.plugin import FixedOrder, IndigoConfig
from bench_indigo.pointer import target_slot_log_probs
from bench_indigo.prefixes import Prefixes, prefixes
from bench_indigo.relations import relations
from bench_indigo.right_orders import right_share
from bench_indigo.search import search


@dataclass(frozen=True)
class PartialSequence(State):
    """A partial sequence, and the first half of its next pair: a word, or the number of items left of a slot."""

    trail: Trail
    hidden: Tensor  # [N, d] top state of the last item
    half: Tensor | None = None  # [N]


class Indigo(InsertionNetwork, Stepper[PartialSequence], Scorer):
    """p(y, pi | x) = prod_t p(word_t | h_{t-1}) p(slot_t | h_{t-1}, word_t), then p(stop | h_n).

    The state h_t of word t depends on all items placed before it and on which side of word t each of them stands, but
    not on distances. Therefore, inserting another item does not change the states of existing items.

    As a Stepper it alternates words and slots: slot s, action s + 1, is before the s-th word of the partial output.
    With two keys for each of t slots, s + 1 is the key of the item on the left, t + s + 1 of the item on the right.
    With `position_first`, slots come before words, and the end is an alternative to slots (see `slot_first`).

    Likelihood `order` uses the Config's order or, if orders are searched, the best order found; `searched` sums over
    all orders found and the Config's order. Neither covers all orders, so both are lower bounds on log p(y | x).
    Likelihood `elbo` is the bound E_q[log p(y, pi | x) - log q(pi | y, x)] for the orders that the model learns from.
    """

    actions_per_token = 2

    def __init__(self, config: IndigoConfig, info: TaskInfo) -> None:
        super().__init__(config, info)
        self.info = info
        self.orderings: dict[str, Ordering] = {}
        self.posterior = OrderPosterior(config, info) if config.order == "learned" else None
        if config.order != "searched" and config.order != "learned":
            self._ordering(config.order)

    def loss(self, batch: Batch, training: Training) -> Loss:
        config, sources = self._phase_config(training), self.encode(batch)
        if config.order == "learned":
            return learned_loss(self, posterior_of(self.posterior), batch, sources, config, training)
        tree = self._tree(batch, sources, config, training)
        costs = self._costs(batch, tree, sources, training.label_smoothing, config.eod_slot)
        tokens, count = batch.length.sum(), (batch.length - 1).sum().clamp(min=1)
        rate = sharpness(config, training.progress)
        if rate is not None:  # one denominator, as the weights are those of the sum of words and slots
            tree, count = weighted(tree, costs, rate), tokens
        stops = (costs.stops * tree.weight).sum()
        words, placing = (costs.words * tree.share).sum(), (costs.slots * tree.share).sum()
        if config.position_first:
            words, placing = words / count, (placing + stops) / tokens
        elif costs.ends is None:
            words, placing = (words + stops) / tokens, placing / count
        else:
            words, placing = (words + stops) / tokens, (placing + (costs.ends * tree.weight).sum()) / tokens
        value = words + placing
        if self.posterior is not None:  # it learns by gradient alone: the value stays that of the model
            imitated = imitation(self.posterior, batch, tree)
            value = value + imitated - imitated.detach()
        return Loss(value, tokens, {"words": words, "slots": placing})

    def score(self, batch: Batch, scoring: Scoring) -> Scores:
        """Return log-probabilities and, for the best of the orders used, its own, and the nats of words and slots."""
        sources = self.encode(batch)
        chosen = self._orders_to_score(batch, sources, scoring)
        tree = prefixes(batch, chosen.orders, chosen.alive)
        words, slots = self.order_costs(batch, tree, sources, raw=self.config.raw_keys)
        log_probs = -(words + slots).masked_fill(tree.weight == 0, torch.inf)
        value, best = log_probs.max(1)
        values = {"best-order": value, "entropy": chosen.entropy()} | {
            name: nats.gather(1, best[:, None])[:, 0] for name, nats in (("words", words), ("slots", slots))
        }
        values |= right_share(batch, chosen.orders, log_probs)
        if scoring.by == "elbo":
            return Scores(chosen.elbo(log_probs), values)
        return Scores(value if scoring.by == "order" else log_probs.logsumexp(1), values)

    def weigh(self, batch: Batch, orders: Tensor, alive: Tensor | None, sources: EncodedSources) -> Tensor:
        """Return log p(y, pi | x) [N, W] of orders [N, W, T]; -inf for orders that are not `alive` [N, W]."""
        tree = prefixes(batch, orders, alive)
        words, slots = self.order_costs(batch, tree, sources, raw=self.config.raw_keys)
        return -(words + slots).masked_fill(tree.weight == 0, torch.inf)

    def order_costs(
        self,
        batch: Batch,
        tree: Prefixes,
        sources: EncodedSources,
        smoothing: float = 0.0,
        ends: bool = False,
        raw: bool = False,
    ) -> tuple[Tensor, Tensor]:
        """Return -log p of the words and of the slots along each order of a tree, in float64 [N, W].

        EOS counts as a word, or as a slot if slots come first; the slot of the end counts only with `ends`.
        """
        return self._costs(batch, tree, sources, smoothing, ends, raw).along(tree)

    def _orders_to_score(self, batch: Batch, sources: EncodedSources, scoring: Scoring) -> WeightedOrders:
        """Return the orders that a likelihood covers; their probabilities matter to `elbo` only."""
        order, number = self.config.order, batch.length - 1
        if scoring.by == "searched" or order == "searched":
            orders, alive = search(self, batch, sources, self.config.beam)
            if order not in ("searched", "rnd"):
                orders, alive = including(orders, alive, self.order(batch, scoring.rng))
            return uniform(orders, alive)
        if scoring.by == "elbo" and order == "learned":
            scores, rng = posterior_of(self.posterior)(batch), scoring.rng.fork("learned order")
            return orders_to_score(scores, number, batch.ids, self.config.bound_samples, rng)
        orders = self.order(batch, scoring.rng)[:, None]
        chosen = uniform(orders, torch.ones(orders.shape[:2], dtype=torch.bool, device=orders.device))
        if order != "rnd":
            return chosen
        return replace(chosen, log_q=-torch.lgamma(number[:, None].double() + 1))  # all orders are equally probable

    def start(self, batch: Batch) -> tuple[Tensor, PartialSequence]:
        if batch.prompt.shape[1] > 1:
            raise SuiteError("indigo places every word itself and takes no prompt. Choose a task without prompts.")
        with torch.no_grad():
            hidden, trail = self.begin(self.encode(batch), self.note)
            return self._open(PartialSequence(trail, hidden))

    @torch.no_grad()
    def step(self, state: PartialSequence, actions: Tensor) -> tuple[Tensor, PartialSequence]:
        if state.half is None:
            return self._second(state, actions)
        if self.config.position_first:
            words, left = actions, state.half
        else:
            words, left = state.half, self._left(state, actions)
        embedded = self.dropout(self.embed(words))
        hidden, trail = self.stack.extend(state.trail, embedded, left, self.note)
        return self._open(PartialSequence(trail, hidden))

    def read(self, actions: list[int]) -> list[int]:
        words: list[int] = []
        for pair in zip(actions[::2], actions[1::2], strict=True):
            slot, word = pair if self.config.position_first else pair[::-1]
            words.insert((slot - 1) % (len(words) + 1), word)
        return words

    def chain(self, batch: Batch, rng: Rng) -> Tensor:
        """Return the actions that place the words in the order that likelihood `order` evaluates."""
        order = self.order(batch, rng)
        last = torch.arange(order.shape[1], device=order.device) >= batch.length[:, None] - 1
        slots = (order[:, None] < order[:, :, None]).tril(-1).sum(2)  # [N, T] words on the left at insertion
        pairs = torch.stack([batch.gold.gather(1, order), slots + 1], 2)
        pairs = pairs.flip(2) if self.config.position_first else pairs
        return pairs.masked_fill(last[:, :, None], STOP).flatten(1)

    @torch.no_grad()
    def order(self, batch: Batch, rng: Rng) -> Tensor:
        """Return the evaluation order of each target [N, T]: the Config's order, or the best order found."""
        if self.config.order == "learned":
            return best_order(posterior_of(self.posterior)(batch), batch.length - 1)
        if self.config.order != "searched":
            return self._ordering(self.config.order)(batch, rng)
        sources = self.encode(batch)
        orders, alive = search(self, batch, sources, self.config.beam)
        best = self.weigh(batch, orders, alive, sources).argmax(1)
        return orders[torch.arange(len(orders), device=orders.device), best]

    def _open(self, state: PartialSequence) -> tuple[Tensor, PartialSequence]:
        """Return log-probabilities of the next action (a word, a slot or EOS), and the state."""
        if self.config.position_first:
            return slot_first.slot_log_probs(self, state.trail, state.hidden), state
        return self.log_probs(state.hidden), state

    def _second(self, state: PartialSequence, actions: Tensor) -> tuple[Tensor, PartialSequence]:
        """Return log-probabilities of the second half of a pair, and the state with the first half."""
        if not self.config.position_first:
            return self._slots(state, actions), PartialSequence(state.trail, state.hidden, actions)
        left = self._left(state, actions)
        states = slot_first.word_states(self, state.trail, state.hidden, left)
        return self.log_probs(states, first=STOP + 1), PartialSequence(state.trail, state.hidden, left)

    def _left(self, state: PartialSequence, actions: Tensor) -> Tensor:
        """Return the number of items left of the chosen slots [N]."""
        if not self.config.raw_keys:
            return actions
        return (actions - 1) % (state.trail.columns.shape[1] - 1) + 1

    def _slots(self, state: PartialSequence, words: Tensor) -> Tensor:
        """Return log-probabilities [N, I] of EOS, which is impossible here, and of the slots."""
        queries = self.pointer.query(state.hidden, self.embed(words))
        logits = self.choices(self.fit(queries, state.trail, state.trail.pool.notes[0]))
        return pad(logits.log_softmax(1), (1, 0), value=-torch.inf)

    def _costs(
        self,
        batch: Batch,
        tree: Prefixes,
        sources: EncodedSources,
        smoothing: float = 0.0,
        ends: bool = False,
        raw: bool = False,
    ) -> OrderCosts:
        """Return the costs of all predictions in a prefix tree, computed in one pass."""
        tokens = batch.gold.gather(1, tree.index)
        tokens[:, 0], tokens[:, 1] = self.tokens, self.tokens + 1
        embedded = self.embed(tokens)
        mask = attention_mask(tree.seen, relations(tree.places), embedded)
        states = self.stack(self.dropout(embedded), mask, sources)
        if self.config.position_first:
            return OrderCosts(*slot_first.costs(self, tree, tokens, states, smoothing, raw), None, slots_first=True)

        parents = torch.cat([tree.parent, tree.last], 1)  # [N, I + W]
        targets = torch.cat([tokens, torch.full_like(tree.last, STOP)], 1)
        real = by_host(lambda *shares: torch.cat(shares, 1) > 0, tree.share, tree.weight)
        words = self._word_costs(states, parents, targets, real, smoothing)
        slots = self._slot_costs(states, tree, tree.parent, embedded, tree.places, raw).where(tree.share > 0, 0.0)
        items = tokens.shape[1]
        return OrderCosts(words[:, :items], slots, words[:, items:], self._end_costs(states, tree) if ends else None)

    def _word_costs(self, states: Tensor, parents: Tensor, targets: Tensor, real: Tensor, smoothing: float) -> Tensor:
        """Return -log p of `targets` [N, P] after `parents` [N, P]; 0 if not `real`."""
        rows, places = by_host(torch.nonzero, real).unbind(1)
        costs = self.costs(states[rows, parents[rows, places]], targets[rows, places], smoothing)
        return costs.new_zeros(real.shape).masked_scatter(real, costs)

    def _slot_costs(
        self, states: Tensor, tree: Prefixes, parents: Tensor, embedded: Tensor, wanted: Tensor, raw: bool = False
    ) -> Tensor:
        """Return -log p of the slots where places `wanted` [N, P] belong, for words [N, P, d] after their parents."""
        hidden = states.gather(1, parents[:, :, None].expand(-1, -1, states.shape[2]))
        seen = tree.seen.gather(1, parents[:, :, None].expand(-1, -1, states.shape[1]))
        queries = self.pointer.query(hidden, embedded)[:, None]
        scores = (queries @ self.pointer.keys(states).transpose(2, 3)).transpose(1, 2)  # [N, P, 2, I]
        return -target_slot_log_probs(scores, tree.places, seen, wanted, raw)

    def _end_costs(self, states: Tensor, tree: Prefixes) -> Tensor:
        """Return -log p [N, W] of the end slot, which is between the last word and the right boundary."""
        stop = self.embed(torch.full_like(tree.last, STOP))
        doubled = replace(tree, places=2 * tree.places)
        return self._slot_costs(states, doubled, tree.last, stop, doubled.places[:, 1:2] - 1).where(
            tree.weight > 0, 0.0
        )

    def _tree(self, batch: Batch, sources: EncodedSources, config: IndigoConfig, training: Training) -> Prefixes:
        """Return the prefix tree of the orders for an update; trees of fixed orders are built in host memory."""
        if config.order != "searched":
            assert config.order != "learned", "its loss is `learned_loss`"
            host, device = batch.on_host, batch.gold.device
            orders = self._ordering(config.order)(host, training.rng)[:, None]
            return prefixes(host, orders).change(lambda tensor: to_device(tensor, device))
        with waits_for_device("the orders that a search keeps depend on the weights"):
            tree = prefixes(batch, *self._training_orders(batch, sources, config, training))
            for part in (tree.share, tree.weight):
                remember(part, on_host(part))
            return tree

    def _training_orders(
        self, batch: Batch, sources: EncodedSources, config: IndigoConfig, training: Training
    ) -> tuple[Tensor, Tensor | None]:
        """Return the searched orders [N, W, T] for an update, and which of them exist [N, W]."""
        orders, alive = self._search(batch, sources, config)
        if config.orders == "all":
            return orders, alive
        drawn = (training.rng.fork("one").uniform(batch.ids) * alive.sum(1)).long()
        return orders[torch.arange(len(orders), device=orders.device), drawn][:, None], None

    def _search(self, batch: Batch, sources: EncodedSources, config: IndigoConfig) -> tuple[Tensor, Tensor]:
        """Search for orders for an update, with dropout if `search_noise` is set."""
        if config.search_noise or not self.training:
            return search(self, batch, sources.change(Tensor.detach), config.beam)
        self.eval()
        try:
            with torch.no_grad():
                return search(self, batch, self.encode(batch), config.beam)
        finally:
            self.train()

    def _phase_config(self, training: Training) -> IndigoConfig:
        """Return the Config of the current phase; raise SuiteError if its values are invalid."""
        if not training.phase:
            return self.config
        try:
            return type(self.config).model_validate({**self.config.model_dump(), **training.phase})
        except ValidationError as error:
            problems = "; ".join(f"`{'.'.join(map(str, entry['loc']))}`: {entry['msg']}" for entry in error.errors())
            raise SuiteError(f"a phase of indigo has invalid settings: {problems}.") from None

    def _ordering(self, order: FixedOrder) -> Ordering:
        """Return the ordering called `order`, created on first use."""
        if order not in self.orderings:
            self.orderings[order] = make_order(order, self.info)
        return self.orderings[order]
