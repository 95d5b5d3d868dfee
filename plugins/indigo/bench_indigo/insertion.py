"""Insertion-based decoding with inferred orders (Gu et al., 2019).

Words and slots alternate: no `LanguageModel` of the kit, which generates from left to right.
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
    Noise,
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
from bench_indigo.blocks import Sources, sight
from bench_indigo.insertion_network import InsertionNetwork
from bench_indigo.kv_cache import Trail
from bench_indigo.orders import Ordering, make_order
from bench_indigo.plugin import IndigoConfig, Known
from bench_indigo.pointer import known_slots
from bench_indigo.prefixes import Prefixes, prefixes
from bench_indigo.relations import relations
from bench_indigo.search import search


@dataclass(frozen=True)
class Canvas(State):
    """What has been placed, and perhaps the half of what comes next: a word, or how many items are left of it."""

    trail: Trail
    hidden: Tensor  # [N, d] the top state of the item placed last
    half: Tensor | None = None  # [N]


@dataclass(frozen=True)
class Costs:
    """What the predictions along the orders of N targets cost, in nats; 0 at padding."""

    words: Tensor  # [N, I] of each item
    slots: Tensor  # [N, I]
    stops: Tensor  # [N, W] after each order
    ends: Tensor | None  # [N, W] likewise, of the slot for the end


class Indigo(InsertionNetwork, Stepper[Canvas], Scorer):
    """p(y, pi | x) = prod_t p(word_t | h_{t-1}) p(slot_t | h_{t-1}, word_t), then p(stop | h_n).

    The state h_t of the word placed as number t sees all that was placed before it, and relations are all that it
    knows of where: on which side of it each one is. So nothing changes for items that are there when another comes.

    As a Stepper it alternates words and slots: slot s, action s + 1, is before the s-th word of what is there so far.
    Of t slots with two keys each, s + 1 is the key of the item on the left, t + s + 1 that of the one on the right.
    With `position_first` slots come before words, and stop is a choice beside slots (see `slot_first`).

    By `order` it weighs the order of its Config, or the best of those found if that is searched; by `searched` all
    those found together. There are more orders than that, so both are bounds of log p(y | x).
    """

    actions_per_token = 2

    def __init__(self, config: IndigoConfig, info: TaskInfo) -> None:
        super().__init__(config, info)
        self.info = info
        self.orderings: dict[str, Ordering] = {}
        if config.order != "searched":
            self._ordering(config.order)

    def loss(self, batch: Batch, training: Training) -> Loss:
        config, sources = self._in(training), self.encode(batch)
        tree = self._tree(batch, sources, config, training)
        costs = self._costs(batch, tree, sources, training.label_smoothing, config.eod_slot)
        tokens, count = batch.length.sum(), (batch.length - 1).sum()
        stops = (costs.stops * tree.weight).sum()
        words, placing = (costs.words * tree.share).sum(), (costs.slots * tree.share).sum()
        if config.position_first:
            words, placing = words / count.clamp(min=1), (placing + stops) / tokens
        elif costs.ends is None:
            words, placing = (words + stops) / tokens, placing / count.clamp(min=1)
        else:
            words, placing = (words + stops) / tokens, (placing + (costs.ends * tree.weight).sum()) / tokens
        return Loss(words + placing, tokens, {"words": words, "slots": placing})

    def score(self, batch: Batch, scoring: Scoring) -> Scores:
        sources = self.encode(batch)
        if scoring.by == "order" and self.config.order != "searched":
            orders, alive = self._ordering(self.config.order)(batch, scoring.noise)[:, None], None
        else:
            orders, alive = search(self, batch, sources, self.config.beam)
        log_probs = self.weigh(batch, orders, alive, sources)
        return Scores(log_probs.amax(1) if scoring.by == "order" else log_probs.logsumexp(1))

    def weigh(self, batch: Batch, orders: Tensor, alive: Tensor | None, sources: Sources) -> Tensor:
        """Return log p(y, pi | x) [N, W] of orders [N, W, T]; -inf of those that are not `alive` [N, W]."""
        tree = prefixes(batch, orders, alive)
        costs = self._costs(batch, tree, sources, raw=self.config.raw_keys)
        steps = (costs.words + costs.slots).double()  # [N, I]; those of item 0 are 0
        total = -costs.stops.double() - steps.gather(1, tree.path.flatten(1)).view(tree.path.shape).sum(2)
        return total.masked_fill(tree.weight == 0, -torch.inf)

    def start(self, batch: Batch) -> tuple[Tensor, Canvas]:
        if batch.opening.shape[1] > 1:
            raise SuiteError("indigo places every word by itself and takes no prefix. Choose a task without one.")
        with torch.no_grad():
            hidden, trail = self.begin(self.encode(batch), self.note)
            return self._open(Canvas(trail, hidden))

    @torch.no_grad()
    def step(self, state: Canvas, actions: Tensor) -> tuple[Tensor, Canvas]:
        if state.half is None:
            return self._second(state, actions)
        if self.config.position_first:
            words, left = actions, state.half
        else:
            words, left = state.half, self._left(state, actions)
        embedded = self.dropout(self.embed(words))
        hidden, trail = self.stack.extend(state.trail, embedded, left, self.note)
        return self._open(Canvas(trail, hidden))

    def read(self, actions: list[int]) -> list[int]:
        words: list[int] = []
        for pair in zip(actions[::2], actions[1::2], strict=True):
            slot, word = pair if self.config.position_first else pair[::-1]
            words.insert((slot - 1) % (len(words) + 1), word)
        return words

    def chain(self, batch: Batch, noise: Noise) -> Tensor:
        """Place the words in the order that `score` weighs by `order`."""
        order = self.order(batch, noise)
        last = torch.arange(order.shape[1], device=order.device) >= batch.length[:, None] - 1
        slots = (order[:, None] < order[:, :, None]).tril(-1).sum(2)  # [N, T] words on the left when each one comes
        pairs = torch.stack([batch.gold.gather(1, order), slots + 1], 2)
        pairs = pairs.flip(2) if self.config.position_first else pairs
        return pairs.masked_fill(last[:, :, None], STOP).flatten(1)

    @torch.no_grad()
    def order(self, batch: Batch, noise: Noise) -> Tensor:
        """Return the order in which it evaluates each target [N, T]: that of its Config, or the best one found."""
        if self.config.order != "searched":
            return self._ordering(self.config.order)(batch, noise)
        sources = self.encode(batch)
        orders, alive = search(self, batch, sources, self.config.beam)
        best = self.weigh(batch, orders, alive, sources).argmax(1)
        return orders[torch.arange(len(orders), device=orders.device), best]

    def _open(self, state: Canvas) -> tuple[Tensor, Canvas]:
        """Return what may come next after whole words: log-probabilities of words, or of slots, and of stop."""
        if self.config.position_first:
            return slot_first.slot_log_probs(self, state.trail, state.hidden), state
        return self.log_probs(state.hidden), state

    def _second(self, state: Canvas, actions: Tensor) -> tuple[Tensor, Canvas]:
        """Return log-probabilities of slots for words, or of words for slots, and the state with that half."""
        if not self.config.position_first:
            return self._slots(state, actions), Canvas(state.trail, state.hidden, actions)
        left = self._left(state, actions)
        found = slot_first.word_states(self, state.trail, state.hidden, left)
        return self.log_probs(found, first=STOP + 1), Canvas(state.trail, state.hidden, left)

    def _left(self, state: Canvas, actions: Tensor) -> Tensor:
        """Return how many items are left of the slots that are meant [N]."""
        if not self.config.raw_keys:
            return actions
        return (actions - 1) % (state.trail.columns.shape[1] - 1) + 1

    def _slots(self, state: Canvas, words: Tensor) -> Tensor:
        """Return log-probabilities of the slots [N, I], the first for stop, which cannot be."""
        queries = self.pointer.query(state.hidden, self.embed(words))
        logits = self.choices(self.fit(queries, state.trail, state.trail.pool.notes[0]))
        return pad(logits.log_softmax(1), (1, 0), value=-torch.inf)

    def _costs(
        self,
        batch: Batch,
        tree: Prefixes,
        sources: Sources,
        smoothing: float = 0.0,
        ends: bool = False,
        raw: bool = False,
    ) -> Costs:
        """Return what all predictions of a tree cost, at once."""
        tokens = batch.gold.gather(1, tree.index)
        tokens[:, 0], tokens[:, 1] = self.tokens, self.tokens + 1
        embedded = self.embed(tokens)
        what = sight(tree.seen, relations(tree.places), embedded)
        states = self.stack(self.dropout(embedded), what, sources)
        if self.config.position_first:
            return Costs(*slot_first.costs(self, tree, tokens, states, smoothing, raw), ends=None)

        parents = torch.cat([tree.parent, tree.last], 1)  # [N, I + W]
        targets = torch.cat([tokens, torch.full_like(tree.last, STOP)], 1)
        real = by_host(lambda *shares: torch.cat(shares, 1) > 0, tree.share, tree.weight)
        words = self._word_costs(states, parents, targets, real, smoothing)
        slots = self._slot_costs(states, tree, tree.parent, embedded, tree.places, raw).where(tree.share > 0, 0.0)
        items = tokens.shape[1]
        return Costs(words[:, :items], slots, words[:, items:], self._end_costs(states, tree) if ends else None)

    def _word_costs(self, states: Tensor, parents: Tensor, targets: Tensor, real: Tensor, smoothing: float) -> Tensor:
        """Return -log p of `targets` [N, P] after `parents` [N, P], 0 where they are not `real`."""
        rows, places = by_host(torch.nonzero, real).unbind(1)
        costs = self.costs(states[rows, parents[rows, places]], targets[rows, places], smoothing)
        return costs.new_zeros(real.shape).masked_scatter(real, costs)

    def _slot_costs(
        self, states: Tensor, tree: Prefixes, parents: Tensor, embedded: Tensor, wanted: Tensor, raw: bool = False
    ) -> Tensor:
        """Return -log p of the slots of places `wanted` [N, P] for words [N, P, d], each after one of `parents`."""
        hidden = states.gather(1, parents[:, :, None].expand(-1, -1, states.shape[2]))
        seen = tree.seen.gather(1, parents[:, :, None].expand(-1, -1, states.shape[1]))
        queries = self.pointer.query(hidden, embedded)[:, None]
        scores = (queries @ self.pointer.keys(states).transpose(2, 3)).transpose(1, 2)  # [N, P, 2, I]
        return -known_slots(scores, tree.places, seen, wanted, raw)

    def _end_costs(self, states: Tensor, tree: Prefixes) -> Tensor:
        """Return -log p of the slot of the end, between the last word and the boundary [N, W]."""
        stop = self.embed(torch.full_like(tree.last, STOP))
        doubled = replace(tree, places=2 * tree.places)
        return self._slot_costs(states, doubled, tree.last, stop, doubled.places[:, 1:2] - 1).where(
            tree.weight > 0, 0.0
        )

    def _tree(self, batch: Batch, sources: Sources, config: IndigoConfig, training: Training) -> Prefixes:
        """Return the orders that an update learns from; those known beforehand are, in main memory."""
        if config.order != "searched":
            host, device = batch.on_host, batch.gold.device
            orders = self._ordering(config.order)(host, training.noise)[:, None]
            return prefixes(host, orders).change(lambda tensor: to_device(tensor, device))
        with waits_for_device("where a search of orders goes on is up to the weights"):
            tree = prefixes(batch, *self._learnt(batch, sources, config, training))
            for part in (tree.share, tree.weight):
                remember(part, on_host(part))
            return tree

    def _learnt(
        self, batch: Batch, sources: Sources, config: IndigoConfig, training: Training
    ) -> tuple[Tensor, Tensor | None]:
        """Return the searched orders that an update learns from [N, W, T], and which of them there are."""
        orders, alive = self._searched(batch, sources, config)
        if config.orders == "all":
            return orders, alive
        drawn = (training.noise.fork("one").uniform(batch.ids) * alive.sum(1)).long()
        return orders[torch.arange(len(orders), device=orders.device), drawn][:, None], None

    def _searched(self, batch: Batch, sources: Sources, config: IndigoConfig) -> tuple[Tensor, Tensor]:
        """Return the orders found for an update, by a model with dropout if there is to be noise."""
        if config.search_noise or not self.training:
            return search(self, batch, sources.change(Tensor.detach), config.beam)
        self.eval()
        try:
            with torch.no_grad():
                return search(self, batch, self.encode(batch), config.beam)
        finally:
            self.train()

    def _in(self, training: Training) -> IndigoConfig:
        """Return the settings of a phase; raise SuiteError where it sets what cannot be."""
        if not training.phase:
            return self.config
        try:
            return type(self.config).model_validate({**self.config.model_dump(), **training.phase})
        except ValidationError as error:
            found = "; ".join(f"`{'.'.join(map(str, one['loc']))}`: {one['msg']}" for one in error.errors())
            raise SuiteError(f"a phase of indigo sets what cannot be: {found}.") from None

    def _ordering(self, order: Known) -> Ordering:
        """Return what orders batches, made when it is first asked for."""
        if order not in self.orderings:
            self.orderings[order] = make_order(order, self.info)
        return self.orderings[order]
