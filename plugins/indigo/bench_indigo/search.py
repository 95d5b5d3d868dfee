"""Beam search for the most probable orders of a target (Gu et al., 2019, section 4.2)."""

from dataclasses import replace

import torch
from torch import Tensor

from bench_core import Batch, topk_stable
from bench_indigo import slot_first
from bench_indigo.blocks import EncodedSources
from bench_indigo.insertion_network import InsertionNetwork
from bench_indigo.kv_cache import Note, Trail
from bench_indigo.pointer import slot_logits

TIE = 2**-20  # nats; smaller differences count as ties


@torch.no_grad()
def search(model: InsertionNetwork, batch: Batch, sources: EncodedSources, width: int) -> tuple[Tensor, Tensor]:
    """Return `width` orders of each target [N, W, T], as input to `prefixes`, and which of them exist [N, W].

    The beam is ranked by log p of the words and slots so far. A decoder state scores all remaining words at once,
    because the slot of every word is known. The last word is not scored, because there is no choice. If a target has
    fewer than `width` orders, all are found.
    """
    number = batch.length - 1  # [N] words
    rows, steps = batch.gold.shape
    orders = torch.arange(steps, device=number.device).expand(rows, width, steps).clone()
    alive = (torch.arange(width, device=number.device) == 0).repeat(rows, 1)
    example = (number > 1).nonzero()[:, 0]  # [M] target of each order, ascending; best order of a target first
    if not len(example):
        return orders, alive
    words = batch.gold[:, :-1]
    unavailable = torch.arange(steps - 1, device=number.device) >= number[example, None]  # [M, K]
    chosen = unavailable.new_empty(len(example), 0, dtype=torch.long)  # [M, step]
    totals = torch.zeros(len(example), dtype=torch.float64, device=number.device)
    hidden, trail = _begin(model, sources, example, words[example])
    for step in range(1, steps):
        slots = _slots(unavailable, number[example])
        gains = _gains(model, hidden, trail, slots, words[example], unavailable)
        parents, tokens, totals = _best(totals[:, None] + gains, trail, width)
        left = slots[parents, tokens] + 1
        example, chosen = example[parents], torch.cat([chosen[parents], tokens[:, None]], 1)
        unavailable = unavailable[parents].scatter(1, tokens[:, None], True)

        ended = number[example] == step + 1
        if (done := ended.nonzero()[:, 0]).numel():
            row, rank = example[done], _ranks(example)[done]
            last = unavailable[done].to(torch.uint8).argmin(1, keepdim=True)
            alive[row, rank], orders[row, rank, : step + 1] = True, torch.cat([chosen[done], last], 1)
        live = (~ended).nonzero()[:, 0]
        if not len(live):
            break
        trail, left = trail.select(parents[live]), left[live]
        example, chosen, unavailable, totals = example[live], chosen[live], unavailable[live], totals[live]
        embedded = model.dropout(model.embed(words[example, chosen[:, -1]]))
        hidden, trail = model.stack.extend(trail, embedded, left, _note(model))
    return orders, alive


def _begin(model: InsertionNetwork, sources: EncodedSources, example: Tensor, words: Tensor) -> tuple[Tensor, Trail]:
    """Return the states after both boundaries [M, d], and trails, for targets `example` [M] with these `words`."""
    some = sources.change(lambda tensor: tensor.index_select(0, example))
    return model.begin(replace(some, more=model.pointer.of_word(model.embed(words))), _note(model))


def _ranks(example: Tensor) -> Tensor:
    """Return the rank of each order [M] within its target; target numbers `example` [M] ascend."""
    return torch.arange(len(example), device=example.device) - torch.searchsorted(example, example)


def _note(model: InsertionNetwork) -> Note:
    """Cache pointer keys and each target word's scores with these keys; with slots first, use `model.note`."""
    if model.config.position_first:
        return model.note

    def note(states: Tensor, sources: EncodedSources) -> tuple[Tensor, Tensor]:
        keys = model.pointer.keys(states)  # [B, 2, Q, d]
        assert sources.more is not None
        return keys, keys @ sources.more[:, None].transpose(2, 3)  # [B, 2, Q, K]

    return note


def _slots(placed: Tensor, number: Tensor) -> Tensor:
    """Return the slot of each word [M, K], which is the number of placed words on its left."""
    real = torch.arange(placed.shape[1], device=placed.device) < number[:, None]
    there = (placed & real).long()
    return there.cumsum(1) - there


def _gains(
    model: InsertionNetwork, hidden: Tensor, trail: Trail, slots: Tensor, words: Tensor, unavailable: Tensor
) -> Tensor:
    """Return log p of each word and its slot [M, K], -inf where `unavailable` [M, K]."""
    if model.config.position_first:
        gains = slot_first.gains(model, hidden, trail, slots, words, ~unavailable)
    else:
        gains = _word_gains(model, hidden, words) + _slot_gains(model, hidden, trail, slots)
    return gains.masked_fill(unavailable, -torch.inf)


def _word_gains(model: InsertionNetwork, hidden: Tensor, words: Tensor) -> Tensor:
    """Return log p of each word [M, K]."""
    logits: Tensor = model.words(hidden, model.embed)
    return (logits.gather(1, words) - logits.logsumexp(1, keepdim=True)).double()


def _slot_gains(model: InsertionNetwork, hidden: Tensor, trail: Trail, slots: Tensor) -> Tensor:
    """Return log p of each word's slot [M, K]; the scores of keys with the word's part of the query are cached."""
    keys, fits = trail.pool.notes
    scores = model.fit(model.pointer.of_state(hidden), trail, keys)  # [M, 2, I]
    known = fits[trail.owner[:, None], :, trail.columns].transpose(1, 2)  # [M, 2, I, K]
    log_probs = slot_logits(scores[..., None] + known).log_softmax(1)  # [M, I - 1, K]
    return log_probs.gather(1, slots[:, None].clamp(max=log_probs.shape[1] - 1))[:, 0].double()


def _best(totals: Tensor, trail: Trail, width: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return the parent, word and log-probability of the `width` best orders of each target [M'], best first.

    Equal words for the same slot have equal scores up to rounding; ties go to the first parent or word.
    """
    seats, words = trail.seats(), totals.shape[1]
    table = totals.new_full((seats.sources * seats.width, words), -torch.inf).index_copy(0, seats.seat, totals)
    table = table.view(seats.sources, -1)
    ranks, flat = topk_stable((table / TIE).round(), width)
    possible = ranks > -torch.inf
    row = seats.seat.new_zeros(seats.sources * seats.width)
    row[seats.seat] = torch.arange(len(totals), device=totals.device)
    first = torch.arange(seats.sources, device=totals.device)[:, None] * seats.width
    return row[(first + flat // words)[possible]], (flat % words)[possible], table.gather(1, flat)[possible]
