"""Wraps functions that map prompts to texts as models, for a single call."""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from torch import nn

from bench_core.config import DecoderConfig, ModelConfig
from bench_core.data import Hypothesis, Prompt, Source
from bench_core.errors import PluginError
from bench_core.model import Generation, TextGenerator


class PromptFunction(TextGenerator):
    """The capability of prompt functions, which no other model has."""


class TextFunction(nn.Module, PromptFunction):
    """Calls a function with the texts of prompts; the returned texts are its outputs."""

    def __init__(self, function: Callable[[list[str]], Sequence[str]]) -> None:
        super().__init__()
        self.function = function

    def generate(self, prompts: Sequence[Prompt], generation: Generation) -> list[list[Hypothesis]]:
        texts: Any = self.function([prompt.text for prompt in prompts])
        if isinstance(texts, str) or not isinstance(texts, Sequence) or len(texts) != len(prompts):
            returned = f"{len(texts)} texts" if isinstance(texts, list | tuple) else f"a {type(texts).__name__}"
            raise PluginError(
                f"the function returned {returned} for {len(prompts)} prompts; return a list with a text for each."
            )
        return [[Hypothesis([], True, text=text, token_count=-1)] for text in texts]


class TextFunctionConfig(ModelConfig):
    """The Config of a prompt function; it runs with the first seed only."""

    capabilities: ClassVar = {PromptFunction}
    sources: ClassVar = {Source.NONE, Source.TOKENS, Source.BAG}

    def seeds(self, requested: Sequence[int]) -> Sequence[int]:
        return requested[:1]


class AsWrittenConfig(DecoderConfig):
    """Reports the outputs of prompt functions unchanged."""

    name, target = "as-written", "bench_core:TextDecoder"
    needs = PromptFunction
