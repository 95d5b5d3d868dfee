"""The parts that this plugin provides, as Configs and hooks; imports neither torch nor transformers."""

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
_SHORT = {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16", "fp64": "float64"}  # as in `precision`
DType: TypeAlias = Annotated[
    Literal["float32", "bfloat16", "float16", "float64"],
    BeforeValidator(lambda value: _SHORT.get(value, value) if isinstance(value, str) else value),
]


class CausalLMConfig(ModelConfig):
    """Causal language model of transformers, with the weights in a folder or with new ones of an architecture."""

    name, target = "hf-causal-lm", "bench_huggingface.lm:CausalLM"
    inspector = "bench_huggingface.inspecting:inspect_model"
    capabilities, sources = {Stepper, Scorer}, {Source.NONE}
    likelihoods = {"exact": Kind.EXACT}
    cites = ["wolf2020", "architecture.model_type=gpt2: radford2019"]

    path: PathOrName | None = None  #: a folder of `save_pretrained`, found as any file of a suite
    architecture: dict[str, Any] | None = None  #: `model_type`, and what its configuration takes; weights are drawn
    bos: bool = True  #: whether it reads its own first token where an opening begins with stop; without, none

    @model_validator(mode="after")
    def _one_origin(self) -> Self:
        if (self.path is None) == (self.architecture is None):
            raise ValueError("give either `path`, a folder with weights, or `architecture`, whose weights are drawn")
        if self.architecture is not None and not isinstance(self.architecture.get("model_type"), str):
            raise ValueError(
                "`architecture` needs a `model_type`, such as {model_type: gpt2, n_layer: 4, n_embd: 256}"
            )
        return self

    def files(self, data: Path) -> Mapping[str, Path]:
        """Return configuration, tokenizer and weights of `path`."""
        return {} if self.path is None else folder.files(data / self.path)

    def is_pretrained(self) -> bool:
        return self.path is not None

    def smooths_labels(self) -> bool:
        return True


class CheckpointConfig(ModelConfig):
    """What published models share: where the checkpoint is, and what texts it is given and may write."""

    inspector = "bench_huggingface.inspecting:inspect_checkpoint"

    capabilities, sources = {OwnVocabulary, Stepper, Scorer}, {Source.NONE, Source.TOKENS}
    likelihoods = {"exact": Kind.EXACT}
    cites = ["wolf2020"]
    access = {"allow_download"}
    family: ClassVar[checkpoint.Family]

    path: PathOrName | None = None  #: a folder of `save_pretrained`, found as any file of a suite
    hub: str | None = Field(None, pattern=f"^{HUB}$")  #: its name on the Hugging Face hub
    revision: str | None = Field(None, pattern=r"^[0-9a-f]{40}$")  #: of `hub`: all 40 digits of the commit
    allow_download: bool = False  #: whether it may be fetched from the hub where it is not on this machine
    dtype: DType = "float32"  #: of the weights
    prompt: str = "{prompt}"  #: what it reads, with the source or prefix of an example in place of `{prompt}`
    answer: str = "{answer}"  #: how a target follows it, to be scored; what precedes `{answer}` is taken off outputs
    control_tokens: bool = False  #: whether `<|endoftext|>` and the like in data are control tokens, not text
    thinking: Thinking = "refuse"  #: what becomes of `<think>...</think>` in outputs: an error, `drop` or `keep` it
    stop: list[str] = Field([], max_length=16)  #: strings that end a text, which is cut before the first of them

    @field_validator("prompt", "answer")
    @classmethod
    def _one_place(cls, value: str, info: Any) -> str:
        name = f"{{{info.field_name}}}"
        if value.count(name) != 1:
            raise ValueError(f"write {name} once, where the text goes; no other braces are replaced")
        return value

    @field_validator("stop")
    @classmethod
    def _not_empty(cls, value: list[str]) -> list[str]:
        if "" in value:
            raise ValueError("an empty stop string would end every text at once; leave it out")
        return value

    @model_validator(mode="after")
    def _one_origin(self) -> Self:
        if (self.path is None) == (self.hub is None):
            raise ValueError("give either `path`, a folder with a model, or `hub`, its name on the Hugging Face hub")
        if self.hub is not None and self.revision is None:
            raise ValueError(
                "`hub` needs a `revision`: all 40 digits of the commit, so that it stays the same model. That of "
                f"today is printed by `git ls-remote https://huggingface.co/{self.hub} HEAD`"
            )
        if self.hub is None and (self.revision is not None or self.allow_download):
            raise ValueError("`revision` and `allow_download` are settings of `hub`; leave them out with `path`")
        return self

    def files(self, data: Path) -> Mapping[str, Path]:
        """Return configuration, tokenizer and weights; raise DataError if one is missing, or it is of another family.

        What is not on this machine is fetched where `allow_download` says so.
        """
        if self.hub is not None:
            return hub.fetched(self.hub, self.revision, self.family, self.allow_download) if self.revision else {}
        place = data / (self.path or "")
        if not place.is_dir() and re.fullmatch(HUB, str(self.path)):
            raise DataError(
                f"there is no folder {self.path} with a model beside the suite, in the working directory or in "
                f"{data}. Correct its path, or write `hub: {self.path}` if that is its name on the Hugging Face hub."
            )
        return checkpoint.files(place, self.family)


class PretrainedLMConfig(CheckpointConfig):
    """Published causal language model that goes on from prompts, in its own tokens."""

    name, target = "hf-pretrained-lm", "bench_huggingface.pretrained_lm:PretrainedLM"
    family = "causal"
    evaluation = {"prompt", "answer", "control_tokens", "thinking", "stop", "stride", "chat", "system", "bos"}

    chat: bool = False  #: whether a prompt is a message of a user, in the chat template of the tokenizer
    stride: PositiveInt | None = None  #: tokens by which windows move over texts beyond its positions; None: an error
    system: str | None = None  #: the message of the system before it, with `chat`
    bos: bool | None = None  #: whether a prompt begins with the token that begins texts; by default as its tokenizer

    @model_validator(mode="after")
    def _of_chat(self) -> Self:
        if not self.chat and self.system is not None:
            raise ValueError("`system` is a message of a chat; set `chat: true`, or leave it out")
        if self.chat and self.bos is not None:
            raise ValueError("a chat template decides how a prompt begins; leave `bos` out")
        return self


class PretrainedSeq2SeqConfig(CheckpointConfig):
    """Published encoder-decoder that translates or transforms prompts, in its own tokens."""

    name, target = "hf-pretrained-seq2seq", "bench_huggingface.pretrained_seq2seq:PretrainedSeq2Seq"
    family = "seq2seq"
    evaluation = {"prompt", "answer", "control_tokens", "thinking", "stop", "source_language", "target_language"}

    source_language: str | None = None  #: its code, as the tokenizer of a multilingual model knows it
    target_language: str | None = None  #: likewise; the decoder begins with its token


@hookimpl
def bench_models() -> list[type[ModelConfig]]:
    """Return the models of transformers."""
    return [CausalLMConfig, PretrainedLMConfig, PretrainedSeq2SeqConfig]
