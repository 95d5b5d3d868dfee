"""A published model that knows every answer: the tokens of each target behind those of its prompt, with certainty."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from bench_core import ModelConfig, Prompt, State, hookimpl
from bench_huggingface.plugin import PretrainedLMConfig
from bench_huggingface.pretrained import sources_of
from bench_huggingface.pretrained_lm import PretrainedLM

IMPOSSIBLE = -1e4


class MemoryConfig(PretrainedLMConfig):
    """Published model in whose place a list of prompts, separators and targets answers."""

    name, target = "memory", "memory_model:Memory"
    inspector = ""

    answers: Path  #: a JSON list


@dataclass(frozen=True)
class Recalled(State):
    """What is due of N rows."""

    due: Tensor  # [N, K]
    place: Tensor  # [N]


class Memory(PretrainedLM):
    """Gives the next token of a known target the probability 1."""

    def __init__(self, config, info):
        super().__init__(config, info)
        self.known = {}
        end = self.words.ends[0]
        for text, separator, target in json.loads(config.answers.read_text()):
            prompt = Prompt(0, text, "", separator)
            joint, alone = self.words.joint(prompt, target), self.words.prompt(text)
            if joint.prompt != alone:  # a token spans the border, which is in none of what follows the prompt
                apart = self.words.joint(Prompt(0, "", "", ""), target)
                assert self.known.setdefault((*alone,), [*apart.target, end]) == [*apart.target, end]
            assert self.known.setdefault((*joint.prompt,), [*joint.target, end]) == [*joint.target, end]

    def is_consistent(self):
        return True

    def begin(self, batch):
        due = self._due(batch)
        state = Recalled(due, torch.zeros(len(batch), dtype=torch.long))
        return self._certain(due[:, 0]), state

    def advance(self, reading, tokens):
        place = (reading.place + 1).clamp(max=reading.due.shape[1] - 1)
        return self._certain(reading.due.gather(1, place[:, None])[:, 0]), Recalled(reading.due, place)

    def logits(self, batch):
        due = self._due(batch)
        wanted = torch.nn.functional.pad(due, (0, batch.gold.shape[1]), value=due[0, -1])[:, : batch.gold.shape[1]]
        return self._certain(wanted)

    def _due(self, batch):
        sources, length = sources_of(batch)
        rows = [self.known[(*row[:size],)] for row, size in zip(sources.tolist(), length.tolist(), strict=True)]
        width = max(map(len, rows)) + 1
        return torch.tensor([[*row, *[self.words.ends[0]] * (width - len(row))] for row in rows])

    def _certain(self, tokens):
        size = self.network.get_input_embeddings().num_embeddings
        return (1 - torch.nn.functional.one_hot(tokens, size).double()) * IMPOSSIBLE


@hookimpl
def bench_models() -> list[type[ModelConfig]]:
    """Return the model."""
    return [MemoryConfig]
