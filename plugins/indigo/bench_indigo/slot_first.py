"""The variant that predicts slots before words (Gu et al., 2019, section 3), with a separate end action.

The query of the last item alone, q = (h E) / sqrt(d), chooses among the slots and the end, which is an additional
choice with the keys e_stop C and e_stop D, as if EOS were a placed item. Then the word (EOS is excluded) is predicted
from (h + a L + b R) / sqrt(3) instead of h, where a and b are the states of the slot's neighbours.
"""

import torch
from torch import Tensor

from bench_core import STOP, by_host
from bench_indigo.insertion_network import InsertionNetwork
from bench_indigo.kv_cache import Trail
from bench_indigo.network import LOGITS
from bench_indigo.pointer import end_log_probs, slot_logits, target_slot_log_probs
from bench_indigo.prefixes import Prefixes
from bench_indigo.relations import neighbours


def end_logits(model: InsertionNetwork, queries: Tensor) -> Tensor:
    """Return the logit of the end [*] for queries [*, d]."""
    stop = model.embed(torch.full((1, 1), STOP, device=queries.device))
    return (queries @ model.pointer.keys(stop)[0, :, 0].T).logsumexp(-1)


def slot_log_probs(model: InsertionNetwork, trail: Trail, hidden: Tensor) -> Tensor:
    """Return log-probabilities [N, I] of the end and the slots (or the slots' keys), given last items [N, d]."""
    queries = model.pointer.alone(hidden)
    scores = model.fit(queries, trail, trail.pool.notes[0])
    return torch.cat([end_logits(model, queries)[:, None], model.choices(scores)], 1).log_softmax(1)


def word_states(model: InsertionNetwork, trail: Trail, hidden: Tensor, left: Tensor) -> Tensor:
    """Return the states [N, d] that predict the word of a slot with `left` [N] items on its left."""
    sides = trail.pool.notes[1]
    before, after = (trail.columns.gather(1, left[:, None] + shift)[:, 0] for shift in (-1, 0))
    states: Tensor = model.beside(hidden, sides[trail.owner, 0, before], sides[trail.owner, 1, after])
    return states


def costs(
    model: InsertionNetwork, tree: Prefixes, tokens: Tensor, states: Tensor, smoothing: float, raw: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """Return -log p of words and slots of all items [N, I], and of the end of each order [N, W]; 0 at padding."""
    items, real = tokens.shape[1], by_host(lambda share: share > 0, tree.share)
    parents = torch.cat([tree.parent, tree.last], 1)[:, :, None]  # [N, I + W, 1]
    hidden = states.gather(1, parents.expand(-1, -1, states.shape[2]))
    seen = tree.seen.gather(1, parents.expand(-1, -1, items))
    queries = model.pointer.alone(hidden)
    scores = (queries[:, None] @ model.pointer.keys(states).transpose(2, 3)).transpose(1, 2)  # [N, I + W, 2, I]
    ends = end_logits(model, queries)
    slots = -target_slot_log_probs(scores[:, :items], tree.places, seen[:, :items], tree.places, raw, ends[:, :items])
    stops = -end_log_probs(scores[:, items:], seen[:, items:], ends[:, items:])

    sides, where = model.beside.sides(states), neighbours(tree.places, seen[:, :items], tree.places)
    left, right = (
        side.gather(1, item[:, :, None].expand(-1, -1, states.shape[2]))
        for side, item in zip(sides.unbind(1), where, strict=True)
    )
    chosen = by_host(lambda real: real.flatten().nonzero()[:, 0], real)
    units = model.beside(hidden[:, :items], left, right).flatten(0, 1)[chosen]
    flat_costs = model.costs(units, tokens.flatten()[chosen], smoothing, first=STOP + 1)
    words = flat_costs.new_zeros(real.shape).masked_scatter(real, flat_costs)
    return words, slots.where(real, 0.0), stops.where(tree.weight > 0, 0.0)


def gains(
    model: InsertionNetwork, hidden: Tensor, trail: Trail, slots: Tensor, words: Tensor, rest: Tensor
) -> Tensor:
    """Return log p(slot, word) [M, K] of the remaining words `rest` [M, K]; 0 elsewhere.

    Each slot of a remaining word needs its own distribution over V words: up to n^2 / 4 for an order of n words,
    whereas a search with words first needs n.
    """
    queries = model.pointer.alone(hidden)
    scores = slot_logits(model.fit(queries, trail, trail.pool.notes[0]))
    placing = torch.cat([end_logits(model, queries)[:, None], scores], 1).log_softmax(1)
    row, place = rest.nonzero().unbind(1)  # [R] rows ascend, and the slots within a row
    slot = slots[row, place]
    pairs, pair = torch.unique_consecutive(row * placing.shape[1] + slot, return_inverse=True)
    owner = pairs // placing.shape[1]
    states = word_states(model, trail.select(owner), hidden[owner], pairs % placing.shape[1] + 1)
    log_probs = placing[row, slot + 1] + _log_probs(model, states, pair, words[row, place])
    return log_probs.new_zeros(rest.shape).index_put((row, place), log_probs).double()


def _log_probs(model: InsertionNetwork, states: Tensor, pair: Tensor, words: Tensor) -> Tensor:
    """Return log p of words [R], each predicted from row `pair` [R] of `states` [P, d]; `pair` ascends."""
    size, parts = max(1, LOGITS // model.tokens), []
    for first in range(0, len(states), size):
        logits = model.words(states[first : first + size], model.embed)[:, STOP + 1 :]
        selected = (pair >= first) & (pair < first + size)
        number = pair[selected] - first
        parts.append(logits[number, words[selected] - STOP - 1] - logits.logsumexp(1)[number])
    return torch.cat(parts)
