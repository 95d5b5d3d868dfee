"""What the plugin offers."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from bench_small.plugin import LettersConfig

from bench_core import (
    DecoderConfig,
    Kind,
    MetricConfig,
    Model,
    ModelConfig,
    Scorer,
    Source,
    Stepper,
    TaskConfig,
    TextGenerator,
    TextScorer,
    hookimpl,
)
from bench_core import OwnVocabulary as Own


class Echo(TextGenerator):
    """Says what it was told."""


class Oracle(TextGenerator):
    """Says what nobody told it."""


class EchoConfig(ModelConfig):
    """Repeats each prompt, in capital letters."""

    name, target = "echo", "bench_writers.parts:Capitals"
    capabilities, sources = {Echo}, {Source.NONE, Source.TOKENS}
    breaks: str = "never"
    fixed: bool = True  # whether all seeds are the same

    def seeds(self, asked: Sequence[int]) -> Sequence[int]:
        return asked[:1] if self.fixed else asked


class OracleConfig(ModelConfig):
    """Answers by the seed, split and settings that it is asked with."""

    name, target = "oracle", "bench_writers.parts:Asked"
    capabilities, sources = {Oracle}, {Source.NONE, Source.TOKENS}
    access = {"door"}
    door: str = "oracle"  # where it is asked: no key knows


class JudgeConfig(ModelConfig):
    """Scores texts, all characters alike."""

    name, target = "judge", "bench_writers.parts:Judge"
    capabilities, sources = {TextScorer}, {Source.NONE, Source.TOKENS}
    likelihoods = {"exact": Kind.EXACT}
    breaks: str = "never"
    stop: bool = True

    def lacks(self, capability: type[Model]) -> str | None:
        return "judge is blind." if self.breaks == "blind" else None


class AsEchoedConfig(DecoderConfig):
    """Decodes an echo."""

    name, target = "as-echoed", "bench_core:TextDecoder"
    needs = Echo
    times: int = 1


class AskConfig(DecoderConfig):
    """Asks an oracle."""

    name, target = "ask", "bench_core:TextDecoder"
    needs = Oracle
    loudly: bool = False
    chance: bool = True  # whether seeds matter

    def seeds(self, asked: Sequence[int]) -> Sequence[int]:
        return asked if self.chance else asked[:1]


class CharactersConfig(ModelConfig):
    """A bigram model of characters that reads only the last one of a prompt."""

    name, target = "characters", "bench_writers.parts:Characters"
    capabilities, sources = {Own, Stepper, Scorer}, {Source.NONE, Source.TOKENS}
    likelihoods = {"exact": Kind.EXACT}


class TextLengthConfig(MetricConfig):
    """The mean number of characters of first outputs."""

    name, target = "text-length", "bench_writers.parts:TextLength"

    def bounds(self):
        return 0, inf


class NamedLettersConfig(LettersConfig):
    """Words over a few letters that have names, such as `test/3`."""

    name, target = "named-letters", "bench_writers.parts:NamedLetters"


@hookimpl
def bench_tasks() -> list[type[TaskConfig]]:
    return [NamedLettersConfig]


@hookimpl
def bench_models() -> list[type[ModelConfig]]:
    return [EchoConfig, OracleConfig, CharactersConfig, JudgeConfig]


@hookimpl
def bench_decoders() -> list[type[DecoderConfig]]:
    return [AsEchoedConfig, AskConfig]


@hookimpl
def bench_metrics() -> list[type[MetricConfig]]:
    return [TextLengthConfig]
