"""Tiny checkpoints of published families with random weights and a tokenizer, as `save_pretrained` writes them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForSeq2SeqLM, PreTrainedTokenizerFast

from bench_core import Prompt, Rng, TaskInfo
from bench_huggingface.plugin import CheckpointConfig, PretrainedLMConfig, PretrainedSeq2SeqConfig

LIKE_LLAMA = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
GROUPED = {"num_key_value_heads": 2, "max_position_embeddings": 64}
CAUSAL: dict[str, dict[str, Any]] = {
    "gpt2": {"n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 64},
    "llama": {**LIKE_LLAMA, **GROUPED},
    "mistral": {**LIKE_LLAMA, **GROUPED, "sliding_window": 4},
    "gemma2": {**LIKE_LLAMA, **GROUPED, "head_dim": 4, "sliding_window": 4},
    "bloom": {"hidden_size": 16, "n_layer": 2, "n_head": 2},  # its positions follow from the mask
    "mamba": {"hidden_size": 16, "num_hidden_layers": 2, "state_size": 4},
    "mamba2": {
        "hidden_size": 16, "num_hidden_layers": 2, "state_size": 4, "num_heads": 4, "head_dim": 8, "n_groups": 1,
        "chunk_size": 4,
    },
    "rwkv": {"hidden_size": 16, "num_hidden_layers": 8, "attention_hidden_size": 16, "intermediate_size": 32},
    "xlstm": {"hidden_size": 128, "num_hidden_layers": 2, "num_heads": 2, "chunk_size": 8, "mode": "inference"},
    "recurrent_gemma": {
        "hidden_size": 16, "intermediate_size": 32, "num_attention_heads": 4, "num_key_value_heads": 2,
        "lru_width": 16, "attention_window_size": 4, "num_hidden_layers": 3,
        "block_types": ["recurrent", "attention", "recurrent"],
    },
    "jamba": {
        **LIKE_LLAMA, "num_key_value_heads": 2, "attn_layer_period": 2, "attn_layer_offset": 1,
        "expert_layer_period": 2, "expert_layer_offset": 1, "num_experts": 2, "mamba_d_state": 4, "mamba_dt_rank": 4,
    },
}  # fmt: skip
LAYERS = {"encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 2, "decoder_attention_heads": 2}
WIDE = {"d_model": 16, "encoder_ffn_dim": 32, "decoder_ffn_dim": 32, "max_position_embeddings": 64, **LAYERS}
SEQ2SEQ: dict[str, dict[str, Any]] = {
    "t5": {"d_model": 16, "d_kv": 8, "d_ff": 32, "num_layers": 2, "num_heads": 2, "decoder_start_token_id": 3},
    "bart": {**WIDE, "decoder_start_token_id": 2, "forced_bos_token_id": 1, "forced_eos_token_id": None},
    "marian": {**WIDE, "decoder_start_token_id": 3, "forced_eos_token_id": None, "bad_words_ids": [[3]]},
    "m2m_100": {**WIDE, "decoder_start_token_id": 2},
}
LINES = ["abba cab", "bad cafe", "face a b c", "cab", "a dead bee", "fade", "b", "decade of abc", "feed a cab"]


def tokenizer_with(ends: bool, chat: str | None = None, codes: tuple[str, ...] = ()) -> Any:
    """Return a tokenizer of bytes whose end is not token 0; `ends`: it puts that behind each text, as T5's does."""
    words = Tokenizer(models.BPE(unk_token="<unk>"))
    words.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    words.decoder = decoders.ByteLevel()
    special = ["<unk>", "<s>", "</s>", "<pad>", "<turn>", *codes]
    words.train_from_iterator(
        LINES, trainers.BpeTrainer(vocab_size=40 + len(codes), special_tokens=special, show_progress=False)
    )
    if ends:
        words.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 2)])
    found = PreTrainedTokenizerFast(
        tokenizer_object=words, bos_token="<s>", eos_token="</s>", unk_token="<unk>", pad_token="<pad>",
        extra_special_tokens=["<turn>", *codes],
    )  # fmt: skip
    found.chat_template = chat
    return found


@dataclass(frozen=True)
class Published:
    """A checkpoint in a folder, and its network as transformers loads it, in float64."""

    folder: Path
    network: Any
    tokenizer: Any
    kind: type[CheckpointConfig]

    @property
    def is_causal(self) -> bool:
        return self.kind is PretrainedLMConfig

    def config(self, **settings: Any) -> Any:
        return self.kind.model_validate({"path": str(self.folder), "dtype": "float64", **settings})

    def info(self, settled: Any) -> TaskInfo:
        """Return what a task says, which has other tokens, and where the core finds the files of the model."""
        return TaskInfo(["<stop>", "a"], files=settled.files(self.folder))

    def model(self, **settings: Any) -> Any:
        settled = self.config(**settings)
        info = self.info(settled)
        model = settled.load()(settled, info).eval()
        model.setup(info, Rng(0))
        return model

    def rewrite(self, name: str = "config.json", **settings: Any) -> None:
        path = self.folder / name
        path.write_text(json.dumps({**json.loads(path.read_text()), **settings}))


def publish(
    folder: Path, name: str, seed: int = 3, scale: float | None = None, chat: str | None = None, codes: tuple[str, ...] = (),
    **settings: Any,
) -> Published:  # fmt: skip
    """Save a network with weights larger than usual, so that what it has read matters."""
    causal = name in CAUSAL
    tokenizer = tokenizer_with(ends=not causal, chat=chat, codes=codes)
    torch.manual_seed(seed)
    own = (CAUSAL if causal else SEQ2SEQ)[name]
    config = AutoConfig.for_model(
        name,
        **{"vocab_size": len(tokenizer), "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 3, **own, **settings},
    )
    kind: Any = AutoModelForCausalLM if causal else AutoModelForSeq2SeqLM
    network = kind.from_config(config).eval()
    scale = scale or (16.0 if name in SEQ2SEQ and "d_ff" not in own else 3.0)
    with torch.no_grad():
        for weights in network.parameters():
            weights.mul_(scale)
    network.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    network = kind.from_pretrained(folder, dtype=torch.float64).eval()
    network.set_experts_implementation("eager")
    return Published(folder, network, tokenizer, PretrainedLMConfig if causal else PretrainedSeq2SeqConfig)


def prompts(number: int, seed: int = 5) -> list[Prompt]:
    """Return prompts of several lengths, one of them empty."""
    chance = torch.Generator().manual_seed(seed)
    found = []
    for row in range(number):
        letters = torch.randint(0, 7, (row % 6,), generator=chance).tolist()
        found.append(Prompt(row, "".join("abcdef "[letter] for letter in letters)))
    return found
