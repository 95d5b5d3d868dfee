"""Configs and hooks of this plugin; does not import torch or transformers."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self, TypeAlias

from pydantic import BeforeValidator, Field, PositiveInt, field_validator, model_validator

from bench_core import (
    DataError,
    Kind,
    ModelConfig,
    OwnVocabulary,
    PathOrName,
    Scorer,
    Source,
    Stepper,
    Thinking,
    hookimpl,
)
from bench_huggingface import checkpoint, folder, hub

HUB = r"[\w-][\w.-]*(/[\w-][\w.-]*)?"  #: a name on the Hugging Face hub
_DTYPES = {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16", "fp64": "float64"}  # `precision` -> dtype
DType: TypeAlias = Annotated[
    Literal["float32", "bfloat16", "float16", "float64"],
    BeforeValidator(lambda value: _DTYPES.get(value, value) if isinstance(value, str) else value),
]


class CausalLMConfig(ModelConfig):
    """Causal language model of transformers, with weights from a folder or a randomly initialized architecture."""

    name, target = "hf-causal-lm", "bench_huggingface.lm:CausalLM"
    inspector = "bench_huggingface.inspecting:inspect_model"
    capabilities, sources = {Stepper, Scorer}, {Source.NONE}
    likelihoods = {"exact": Kind.EXACT}
    cites = ["wolf2020", "architecture.model_type=gpt2: radford2019"]

    path: PathOrName | None = None  #: folder written by `save_pretrained`, resolved like other paths in a suite
    architecture: dict[str, Any] | None = None  #: `model_type` and settings of a network to initialize
    bos: bool = True  #: whether texts begin with the model's BOS token; if not, they begin with the prompt

    @model_validator(mode="after")
    def _one_origin(self) -> Self:
        if (self.path is None) == (self.architecture is None):
            raise ValueError(
                "set either `path`, a folder with weights, or `architecture`, which is initialized randomly"
            )
        if self.architecture is not None and not isinstance(self.architecture.get("model_type"), str):
            raise ValueError(
                "`architecture` needs a `model_type`, such as {model_type: gpt2, n_layer: 4, n_embd: 256}"
            )
        return self

    def files(self, data: Path) -> Mapping[str, Path]:
        """Return the configuration, tokenizer and weights in `path`."""
        return {} if self.path is None else folder.files(data / self.path)

    def is_pretrained(self) -> bool:
        return self.path is not None

    def smooths_labels(self) -> bool:
        return True


class CheckpointConfig(ModelConfig):
    """Base Config of published models: the location of the checkpoint, and how texts are formatted."""

    inspector = "bench_huggingface.inspecting:inspect_checkpoint"

    capabilities, sources = {OwnVocabulary, Stepper, Scorer}, {Source.NONE, Source.TOKENS}
    likelihoods = {"exact": Kind.EXACT}
    cites = ["wolf2020"]
    access = {"allow_download"}
    family: ClassVar[checkpoint.Family]

    path: PathOrName | None = None  #: folder written by `save_pretrained`, resolved like other paths in a suite
    hub: str | None = Field(None, pattern=f"^{HUB}$")  #: name on the Hugging Face hub
    revision: str | None = Field(None, pattern=r"^[0-9a-f]{40}$")  #: commit of `hub`, all 40 digits
    allow_download: bool = False  #: whether to download the model if it is not in the local cache
    dtype: DType = "float32"  #: dtype of the weights
    prompt: str = "{prompt}"  #: template of the model's input; `{prompt}` becomes the source or prefix
    answer: str = "{answer}"  #: template of a scored target; text before `{answer}` is removed from outputs
    control_tokens: bool = False  #: whether texts such as `<|endoftext|>` in data are read as control tokens
    thinking: Thinking = "refuse"  #: `<think>...</think>` in outputs: `refuse` (an error), `drop` or `keep`
    stop: list[str] = Field([], max_length=16)  #: stop strings; outputs are truncated before the first that occurs

    @field_validator("prompt", "answer")
    @classmethod
    def _one_place(cls, value: str, info: Any) -> str:
        name = f"{{{info.field_name}}}"
        if value.count(name) != 1:
            raise ValueError(f"use {name} exactly once, where the text goes; other braces are not replaced")
        return value

    @field_validator("stop")
    @classmethod
    def _not_empty(cls, value: list[str]) -> list[str]:
        if "" in value:
            raise ValueError("an empty stop string would end every text immediately; remove it")
        return value

    @model_validator(mode="after")
    def _one_origin(self) -> Self:
        if (self.path is None) == (self.hub is None):
            raise ValueError("set either `path`, a folder with a model, or `hub`, its name on the Hugging Face hub")
        if self.hub is not None and self.revision is None:
            raise ValueError(
                "`hub` needs a `revision`, all 40 digits of the commit, to fix the model. To print the current "
                f"one, run `git ls-remote https://huggingface.co/{self.hub} HEAD`"
            )
        if self.hub is None and (self.revision is not None or self.allow_download):
            raise ValueError("`revision` and `allow_download` apply only to `hub`; remove them")
        return self

    def files(self, data: Path) -> Mapping[str, Path]:
        """Return configuration, tokenizer and weights; raise DataError for missing files or a wrong model family.

        Downloads a model that is not in the local cache if `allow_download` is set.
        """
        if self.hub is not None:
            return hub.fetch(self.hub, self.revision, self.family, self.allow_download) if self.revision else {}
        place = data / (self.path or "")
        if not place.is_dir() and re.fullmatch(HUB, str(self.path)):
            raise DataError(
                f"no folder {self.path} was found next to the suite, in the working directory or in {data}. "
                f"Correct the path, or set `hub: {self.path}` if that is its name on the Hugging Face hub."
            )
        return checkpoint.files(place, self.family)


class PretrainedLMConfig(CheckpointConfig):
    """Published causal language model that continues prompts, with its own tokenizer."""

    name, target = "hf-pretrained-lm", "bench_huggingface.pretrained_lm:PretrainedLM"
    family = "causal"
    evaluation = {"prompt", "answer", "control_tokens", "thinking", "stop", "stride", "chat", "system", "bos"}

    chat: bool = False  #: whether to format the prompt as a user message with the tokenizer's chat template
    stride: PositiveInt | None = None  #: step of sliding windows over long texts; default: long texts are errors
    system: str | None = None  #: system message before the prompt, with `chat`
    bos: bool | None = None  #: whether a prompt begins with BOS; default: the tokenizer decides

    @model_validator(mode="after")
    def _suits_chat(self) -> Self:
        if not self.chat and self.system is not None:
            raise ValueError("`system` needs `chat: true`; set it, or remove `system`")
        if self.chat and self.bos is not None:
            raise ValueError("the chat template determines how a prompt begins; remove `bos`")
        return self


class PretrainedSeq2SeqConfig(CheckpointConfig):
    """Published encoder-decoder that translates or transforms prompts, with its own tokenizer."""

    name, target = "hf-pretrained-seq2seq", "bench_huggingface.pretrained_seq2seq:PretrainedSeq2Seq"
    family = "seq2seq"
    evaluation = {"prompt", "answer", "control_tokens", "thinking", "stop", "source_language", "target_language"}

    source_language: str | None = None  #: language code of a multilingual tokenizer
    target_language: str | None = None  #: language code; the decoder's input begins with its token


@hookimpl
def bench_models() -> list[type[ModelConfig]]:
    """Return the models of this plugin."""
    return [CausalLMConfig, PretrainedLMConfig, PretrainedSeq2SeqConfig]
