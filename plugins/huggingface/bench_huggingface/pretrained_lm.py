"""Published causal language models, attention or recurrent."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache
from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer

from bench_core import Batch, Prompt, State, SuiteError, TaskInfo
from bench_huggingface.joined_caches import has_places, joined
from bench_huggingface.joint_text import Joint
from bench_huggingface.plugin import PretrainedLMConfig
from bench_huggingface.pretrained import Pretrained, sources_of
from bench_huggingface.reader import Reader

#: How prompts of several lengths are read: never together; all at once, the shorter ones behind padding; or those of
#: one length at a time, after which their caches are joined.
ALONE, PADDED, JOINED = range(3)


@dataclass(frozen=True)
class Reading(State):
    """What a network has read of N rows."""

    past: Any  # a State
    length: Tensor  # [N] tokens
    seen: Tensor | None  # [N, K] which places of the cache are real; None: all


class PretrainedLM(Pretrained):
    """p(y | x) = prod_t p(y_t | x, y_<t) of a causal language model that reads its prompt x."""

    family = "causal"
    together: Tensor  # [] ALONE, PADDED or JOINED, found out by `setup`

    def __init__(self, config: PretrainedLMConfig, info: TaskInfo) -> None:
        super().__init__(config, info)
        self.reader = Reader(self.network)
        self.register_buffer("together", torch.tensor(ALONE, dtype=torch.uint8))

    def tokens_of(self, prompt: str) -> list[int]:
        return self.words.prompt(prompt)

    def joint(self, prompt: Prompt, target: str) -> Joint:
        return self.words.joint(prompt, target)

    def limit(self, batch: Batch) -> Tensor | None:
        return self.positions and self.positions[0] - sources_of(batch)[1] + 1  # the last token is not read

    def begin(self, batch: Batch) -> tuple[Tensor, Reading]:
        tokens, length = sources_of(batch)
        if bool((length == tokens.shape[1]).all()):
            logits, past = self.reader(tokens)
            return logits[:, 0], Reading(past, length, None)
        way = int(self.together)
        if way == ALONE:
            raise SuiteError(
                f"{type(self.network).__name__} cannot go on from prompts of several lengths at once. Set "
                "`limits: {batch_size: 1}`."
            )
        return self._padded(tokens, length) if way == PADDED else self._joined(tokens, length)

    def go_on(self, reading: Reading, tokens: Tensor) -> tuple[Tensor, Reading]:
        seen, more = reading.seen, dict[str, Any]()
        if seen is not None:
            seen = torch.cat([seen, torch.ones_like(seen[:, :1])], 1)
            more = {"attention_mask": seen, "position_ids": reading.length[:, None]}
        logits, past = self.reader(tokens[:, None], reading.past, **more)
        return logits[:, 0], Reading(past, reading.length + 1, seen)

    def logits(self, batch: Batch) -> Tensor:
        """Put prompts and targets behind one another; padding comes last, which causal networks do not see."""
        source, length = sources_of(batch)
        gold = self.numbering.of_model(batch.gold)
        width = int((length + batch.length).max()) - 1  # no row has more positions
        places = torch.arange(width, device=gold.device)
        behind = places - length[:, None]  # [N, width] places in the target
        tokens = torch.cat([source, gold], 1)
        where = torch.where(behind < 0, places, source.shape[1] + behind.clamp(0, gold.shape[1] - 1))
        last = width - int(length.min()) + 1
        found = self.reader.logits(tokens.gather(1, where), last)  # [N, last, M]
        wanted = length[:, None] - length.min() + torch.arange(gold.shape[1], device=gold.device)  # [N, T]
        wanted = wanted.clamp(max=last - 1)
        return found.gather(1, wanted[..., None].expand(-1, -1, found.shape[2]))

    def goes_on(self) -> bool:
        """Also find out how prompts of several lengths can be read."""
        rows = self.sample_rows()
        if not (self.reader.remembers(sources_of(rows)[0]) and self.predicts_alike(rows.select(torch.arange(2)))):
            return False
        for way in (PADDED, JOINED) if self._only_attends() else (JOINED,):
            self.together.fill_(way)
            if self._reads_together(rows):
                return True
        self.together.fill_(ALONE)
        return True

    def _reads_together(self, rows: Batch) -> bool:
        try:
            return self.predicts_alike(rows)
        except SuiteError:
            return False

    def _only_attends(self) -> bool:
        kinds = {type(layer) for layer in DynamicCache(config=self.network.config).layers}
        return self.reader.cache == "past_key_values" and kinds <= {DynamicLayer, DynamicSlidingWindowLayer}

    def _padded(self, tokens: Tensor, length: Tensor) -> tuple[Tensor, Reading]:
        """Read all rows at once, aligned at their ends."""
        places = torch.arange(tokens.shape[1], device=tokens.device) - (tokens.shape[1] - length)[:, None]
        seen, places = (places >= 0).long(), places.clamp(min=0)
        given: dict[str, Any] = {"attention_mask": seen, "position_ids": places}
        logits, past = self.reader(tokens.gather(1, places), None, **given)
        return logits[:, 0], Reading(past, length, seen)

    def _joined(self, tokens: Tensor, length: Tensor) -> tuple[Tensor, Reading]:
        """Read the rows of one length at a time."""
        groups = [(length == one).nonzero()[:, 0] for one in sorted({*length.tolist()})]  # the longest comes last
        found = [self.reader(tokens[rows, : int(length[rows[0]])]) for rows in groups]
        past = joined([past for _, past in found], len(found) - 1)
        places = torch.arange(tokens.shape[1], device=tokens.device)
        seen = (places >= tokens.shape[1] - length[torch.cat(groups), None]).long() if has_places(past) else None
        order = torch.cat(groups).argsort()
        reading = Reading(past, length[torch.cat(groups)], seen).select(order)
        return torch.cat([logits[:, 0] for logits, _ in found])[order], reading
