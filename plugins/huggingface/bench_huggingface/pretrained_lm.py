"""Published causal language models, attention-based or recurrent."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache
from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer

from bench_core import Batch, Prompt, State, SuiteError, TaskInfo
from bench_huggingface.joined_caches import has_places, join_caches
from bench_huggingface.joint_text import Joint
from bench_huggingface.plugin import PretrainedLMConfig
from bench_huggingface.pretrained import PretrainedModel, sources_of
from bench_huggingface.reader import NetworkReader

#: How prompts of different lengths are read: in batches of one row; at once, with left padding; or one length at a
#: time, with joined caches.
ALONE, PADDED, JOINED = range(3)


@dataclass(frozen=True)
class CausalState(State):
    """The state of a causal network for N rows."""

    past: Any  # a State
    length: Tensor  # [N] tokens read
    seen: Tensor | None  # [N, K] mask of cached positions that are not padding; None: all


class PretrainedLM(PretrainedModel):
    """p(y | x) = prod_t p(y_t | x, y_<t) of a causal language model after the prompt x."""

    family = "causal"
    together: Tensor  # [] ALONE, PADDED or JOINED, determined by `setup`

    def __init__(self, config: PretrainedLMConfig, info: TaskInfo) -> None:
        super().__init__(config, info)
        self.reader = NetworkReader(self.network)
        self.register_buffer("together", torch.tensor(ALONE, dtype=torch.uint8))

    def tokens_of(self, prompt: str) -> list[int]:
        return self.words.prompt(prompt)

    def joint(self, prompt: Prompt, target: str) -> Joint:
        return self.words.joint(prompt, target)

    def limit(self, batch: Batch) -> Tensor | None:
        return self.positions and self.positions[0] - sources_of(batch)[1] + 1  # the last token is not an input

    def begin(self, batch: Batch) -> tuple[Tensor, CausalState]:
        tokens, length = sources_of(batch)
        if bool((length == tokens.shape[1]).all()):
            logits, past = self.reader(tokens)
            return logits[:, 0], CausalState(past, length, None)
        mode = int(self.together)
        if mode == ALONE:
            raise SuiteError(
                f"{type(self.network).__name__} does not support prompts of several lengths in a batch. Set "
                "`limits: {batch_size: 1}`."
            )
        return self._read_padded(tokens, length) if mode == PADDED else self._read_joined(tokens, length)

    def advance(self, reading: CausalState, tokens: Tensor) -> tuple[Tensor, CausalState]:
        seen, more = reading.seen, dict[str, Any]()
        if seen is not None:
            seen = torch.cat([seen, torch.ones_like(seen[:, :1])], 1)
            more = {"attention_mask": seen, "position_ids": reading.length[:, None]}
        logits, past = self.reader(tokens[:, None], reading.past, **more)
        return logits[:, 0], CausalState(past, reading.length + 1, seen)

    def logits(self, batch: Batch) -> Tensor:
        """Concatenate prompts and targets; causal networks ignore the padding, which comes last."""
        source, length = sources_of(batch)
        gold = self.numbering.of_model(batch.gold)
        width = int((length + batch.length).max()) - 1  # maximum positions of a row
        positions = torch.arange(width, device=gold.device)
        in_target = positions - length[:, None]  # [N, width] positions in the target
        tokens = torch.cat([source, gold], 1)
        indices = torch.where(in_target < 0, positions, source.shape[1] + in_target.clamp(0, gold.shape[1] - 1))
        last = width - int(length.min()) + 1
        output = self.reader.logits(tokens.gather(1, indices), last)  # [N, last, M]
        wanted = length[:, None] - length.min() + torch.arange(gold.shape[1], device=gold.device)  # [N, T]
        wanted = wanted.clamp(max=last - 1)
        return output.gather(1, wanted[..., None].expand(-1, -1, output.shape[2]))

    def is_consistent(self) -> bool:
        """Return whether predictions agree; also set `together`, the way to read prompts of several lengths."""
        rows = self.sample_rows()
        if not (self.reader.returns_cache(sources_of(rows)[0]) and self.predicts_alike(rows.select(torch.arange(2)))):
            return False
        for mode in (PADDED, JOINED) if self._has_plain_attention() else (JOINED,):
            self.together.fill_(mode)
            if self._batches_are_consistent(rows):
                return True
        self.together.fill_(ALONE)
        return True

    def _batches_are_consistent(self, rows: Batch) -> bool:
        try:
            return self.predicts_alike(rows)
        except SuiteError:
            return False

    def _has_plain_attention(self) -> bool:
        kinds = {type(layer) for layer in DynamicCache(config=self.network.config).layers}
        return self.reader.cache == "past_key_values" and kinds <= {DynamicLayer, DynamicSlidingWindowLayer}

    def _read_padded(self, tokens: Tensor, length: Tensor) -> tuple[Tensor, CausalState]:
        """Read all rows at once, right-aligned."""
        places = torch.arange(tokens.shape[1], device=tokens.device) - (tokens.shape[1] - length)[:, None]
        seen, places = (places >= 0).long(), places.clamp(min=0)
        logits, past = self.reader(tokens.gather(1, places), attention_mask=seen, position_ids=places)
        return logits[:, 0], CausalState(past, length, seen)

    def _read_joined(self, tokens: Tensor, length: Tensor) -> tuple[Tensor, CausalState]:
        """Read the rows of one length at a time, and join their caches."""
        groups = [(length == each).nonzero()[:, 0] for each in sorted({*length.tolist()})]  # the longest is last
        results = [self.reader(tokens[rows, : int(length[rows[0]])]) for rows in groups]
        past = join_caches([past for _, past in results], len(results) - 1)
        places = torch.arange(tokens.shape[1], device=tokens.device)
        seen = (places >= tokens.shape[1] - length[torch.cat(groups), None]).long() if has_places(past) else None
        order = torch.cat(groups).argsort()
        reading = CausalState(past, length[torch.cat(groups)], seen).select(order)
        return torch.cat([logits[:, 0] for logits, _ in results])[order], reading
