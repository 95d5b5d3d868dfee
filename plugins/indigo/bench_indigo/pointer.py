"""The pointer network that chooses the slot of a word (Gu et al., 2019, section 3.2)."""

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from bench_indigo.relations import neighbours


class Pointer(nn.Module):
    """Every item has a key for each side, h C and h D; a slot is chosen by the right key of the item before it or by
    the left key of the item after it. The query combines the last item and the word to place:

        q = (h E + e_word) / sqrt(2),  and p(key) is proportional to exp(q . key / sqrt(d)).

    The left boundary has no left slot and the right boundary no right slot: t items have 2 (t - 1) keys, t - 1 slots.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(3, width, width))  # C, D and E
        self.scale: float = (2 * width) ** -0.5
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Reinitialize the weights."""
        for part in self.weight:
            nn.init.xavier_uniform_(part)

    def keys(self, states: Tensor) -> Tensor:
        """Return the keys [N, 2, I, d] of items [N, I, d], left keys first."""
        projected: Tensor = linear(states, self.weight[:2].flatten(0, 1))
        return projected.view(*states.shape[:2], 2, -1).transpose(1, 2)

    def query(self, states: Tensor, embedded: Tensor) -> Tensor:
        """Return the scaled queries [*, d] of last items [*, d] and embedded words [*, d]."""
        return self.of_state(states) + self.of_word(embedded)

    def alone(self, states: Tensor) -> Tensor:
        """Return the queries of last items [*, d] without a word: h E / sqrt(d)."""
        return self.of_state(states) * 2**0.5

    def of_state(self, states: Tensor) -> Tensor:
        """Return the part of the query that depends on the last item."""
        part: Tensor = linear(states, self.weight[2])
        return part * self.scale

    def of_word(self, embedded: Tensor) -> Tensor:
        """Return the part of the query that depends on the word."""
        return embedded * self.scale


def slot_logits(scores: Tensor) -> Tensor:
    """Return the logit of each slot [N, I - 1, *], given the key logits of items in reading order [N, 2, I, *]."""
    return torch.logaddexp(scores[:, 1, :-1], scores[:, 0, 1:])


def target_slot_log_probs(
    scores: Tensor, places: Tensor, seen: Tensor, wanted: Tensor, raw: bool = False, ends: Tensor | None = None
) -> Tensor:
    """Return log p [N, P] of the slots where places `wanted` [N, P] belong, given the logits of keys [N, P, 2, I].

    `places` [N, I] are the places of items; `seen` [N, P, I] marks items that exist. If `raw`, return log p of the
    key of the item on the left. `ends` [N, P] are logits of the end, if the end is an alternative to slots.
    """
    scores = _live(scores, seen)
    left, right = neighbours(places, seen, wanted)
    chosen = scores[:, :, 1].gather(2, left[:, :, None])[:, :, 0]
    if not raw:
        chosen = torch.logaddexp(chosen, scores[:, :, 0].gather(2, right[:, :, None])[:, :, 0])
    return chosen - _total(scores, ends)


def end_log_probs(scores: Tensor, seen: Tensor, ends: Tensor) -> Tensor:
    """Return log p(end) [N, P] as an alternative to slots, given the logits of the end and of all keys."""
    return ends - _total(_live(scores, seen), ends)


def _live(scores: Tensor, seen: Tensor) -> Tensor:
    """Return the logits of keys [N, P, 2, I], -inf for keys that do not exist."""
    live = torch.stack([seen, seen], 2)
    live[:, :, 0, 0] = live[:, :, 1, 1] = False  # left of `<s>` and right of `</s>`
    return scores.masked_fill(~live, -torch.inf)


def _total(scores: Tensor, ends: Tensor | None) -> Tensor:
    total = scores.flatten(2).logsumexp(2)
    return total if ends is None else torch.logaddexp(total, ends)
