"""Tiny models with random weights, and folders as `save_pretrained` writes them."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import AutoConfig, AutoModelForCausalLM

from bench_core import Batch, Rng, TaskInfo
from bench_huggingface.plugin import CausalLMConfig
from bench_text.api import corpora

WORDS = ["<stop>", *"abcdefghijk"]
OF_LLAMA = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
GROUPED = {"num_key_value_heads": 2, "max_position_embeddings": 64}
ARCHITECTURES: dict[str, dict[str, Any]] = {
    "gpt2": {"n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 64},
    "llama": {**OF_LLAMA, **GROUPED},  # rotary positions, queries that share keys
    "gpt_neox": {**OF_LLAMA, "max_position_embeddings": 64, "tie_word_embeddings": True},
    "mistral": {**OF_LLAMA, **GROUPED, "sliding_window": 4},
    "gemma2": {**OF_LLAMA, **GROUPED, "head_dim": 4, "sliding_window": 4, "final_logit_softcapping": 2.0},
    "mpt": {"d_model": 16, "n_heads": 2, "n_layers": 2, "max_seq_len": 64},  # an attention of its own
    "mamba": {"hidden_size": 16, "num_hidden_layers": 2, "state_size": 4},  # no keys and values at all
}


def _config(name: str = "gpt2", bos: bool = True, **settings: Any) -> CausalLMConfig:
    return CausalLMConfig(architecture={"model_type": name, **ARCHITECTURES[name], **settings}, bos=bos)


@pytest.fixture
def config() -> Callable[..., CausalLMConfig]:
    """Return a function that gives the settings of a tiny model of an architecture."""
    return _config


@pytest.fixture
def tiny() -> Callable[..., Any]:
    """Return a function that builds a model whose weights are larger than usual, so that what it has read matters."""

    def build(
        name: str = "gpt2", words: list[str] = WORDS, seed: int = 0, scale: float = 3.0, **settings: Any
    ) -> Any:
        torch.manual_seed(seed)
        settled, info = _config(name, **settings), TaskInfo(words)
        model = settled.load()(settled, info).eval()
        model.setup(info, Rng(0))
        with torch.no_grad():
            for weights in model.parameters():
                weights.mul_(scale)
        return model

    return build


@pytest.fixture
def rows() -> Callable[..., Batch]:
    """Return a function that makes openings, and targets of unequal lengths."""

    def make(number: int = 5, prefix: int = 3, longest: int = 9, words: int = len(WORDS), seed: int = 1) -> Batch:
        chance = torch.Generator().manual_seed(seed)
        length = torch.randint(1, longest + 1, (number,), generator=chance)
        length[0] = longest
        gold = torch.randint(1, words, (number, longest), generator=chance)
        gold = gold.where(torch.arange(longest) < length[:, None] - 1, 0)
        prompt = torch.randint(1, words, (number, prefix + 1), generator=chance)
        prompt[:, 0] = 0
        return Batch(torch.arange(number), prompt, gold, length)

    return make


@dataclass(frozen=True)
class Saved:
    """A model in a data directory, with a tokenizer whose stop is not its token 0."""

    data: Path
    network: Any
    tokenizer: Tokenizer
    path: str = "model"

    @property
    def folder(self) -> Path:
        return self.data / self.path

    def config(self, **settings: Any) -> CausalLMConfig:
        return CausalLMConfig(path=self.path, **settings)

    def info(self, settled: CausalLMConfig, more: tuple[str, ...] = (), **extras: Any) -> TaskInfo:
        """Return what a task with this tokenizer says, and where the core finds the model's files."""
        stop = self.tokenizer.token_to_id("</s>")
        names = [self.tokenizer.id_to_token(token) for token in range(self.tokenizer.get_vocab_size())]
        names[0], names[stop] = names[stop], names[0]
        known = {"tokenizer": corpora.digest(self.folder / "tokenizer.json"), "stop": stop, **extras}
        return TaskInfo([*names, *more], extras=known, files=settled.files(self.data))

    def model(self, **settings: Any) -> Any:
        settled = self.config(**settings)
        info = self.info(settled)
        model = settled.load()(settled, info).eval()
        model.setup(info, Rng(0))
        return model


@pytest.fixture
def save(tmp_path) -> Callable[..., Saved]:
    """Return a function that saves a model of an architecture."""

    def saving(name: str = "gpt2", shard: str = "5GB", padding: int = 0, bos: str = "<s>", **settings: Any) -> Saved:
        words = Tokenizer(models.BPE(unk_token="<unk>"))
        words.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
        words.decoder = decoders.ByteLevel()
        words.train_from_iterator(
            ["abba cab", "bad cafe", "face a b c"],
            trainers.BpeTrainer(vocab_size=24, special_tokens=["<unk>", "<s>", "</s>"], show_progress=False),
        )
        size = words.get_vocab_size()
        torch.manual_seed(3)
        settled = AutoConfig.for_model(
            name, vocab_size=size + padding, **{**ARCHITECTURES[name], **settings},
            bos_token_id=words.token_to_id(bos), eos_token_id=words.token_to_id("</s>"), pad_token_id=None,
        )  # fmt: skip
        network = AutoModelForCausalLM.from_config(settled).eval()
        with torch.no_grad():
            for weights in network.parameters():
                weights.mul_(3)
        folder = tmp_path / "model"
        network.save_pretrained(folder, max_shard_size=shard)
        words.save(str(folder / "tokenizer.json"))
        (folder / "tokenizer_config.json").write_text(json.dumps({"eos_token": "</s>"}))
        return Saved(tmp_path, network, words)

    return saving
