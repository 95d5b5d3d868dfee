"""Functions of prompts as models of one call: systems that turn texts into texts."""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from torch import nn

from bench_core.config import DecoderConfig, ModelConfig
from bench_core.data import Hypothesis, Prompt, Source
from bench_core.errors import PluginError
from bench_core.model import Generation, TextGenerator


class Written(TextGenerator):
    """The capability of functions."""


class TextFunction(nn.Module, Written):
    """Calls a function with the texts of prompts, and takes what it returns for its outputs."""

    def __init__(self, function: Callable[[list[str]], Sequence[str]]) -> None:
        super().__init__()
        self.function = function

    def generate(self, prompts: Sequence[Prompt], generation: Generation) -> list[list[Hypothesis]]:
        texts: Any = self.function([one.text for one in prompts])
        if isinstance(texts, str) or not isinstance(texts, Sequence) or len(texts) != len(prompts):
            found = f"{len(texts)} texts" if isinstance(texts, list | tuple) else f"a {type(texts).__name__}"
            raise PluginError(
                f"the function returned {found} for {len(prompts)} prompts; it is a list, a text for each."
            )
        return [[Hypothesis([], True, text=text, token_count=-1)] for text in texts]


class TextFunctionConfig(ModelConfig):
    """The Config of a function of prompts; it is one system, whatever the seeds."""

    capabilities: ClassVar = {Written}
    sources: ClassVar = {Source.NONE, Source.TOKENS, Source.BAG}

    def seeds(self, asked: Sequence[int]) -> Sequence[int]:
        return asked[:1]


class AsWrittenConfig(DecoderConfig):
    """Takes the outputs of functions as they are."""

    name, target = "as-written", "bench_core:TextDecoder"
    needs = Written
