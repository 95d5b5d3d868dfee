"""Their Configs."""

from bench_core import DecoderConfig, MetricConfig, ModelConfig, Source, hookimpl, invert
from bench_core.kit import EncoderDecoderConfig, ExampleMetricConfig, LanguageModelConfig, StepDecoderConfig
from bench_decoders.plugin import ProcessorConfig


class BigramConfig(LanguageModelConfig):
    """Each token depends on the one before it."""

    size: int = 32


class StackedLSTMConfig(LanguageModelConfig):
    """Stacked LSTM layers."""

    size: int = 256
    layers: int = 2


class SmallGPTConfig(LanguageModelConfig):
    """A small GPT."""

    size: int = 256
    layers: int = 4
    heads: int = 4


class MinGRUConfig(LanguageModelConfig):
    """A recurrent layer whose steps are computed all at once."""

    size: int = 256


class AttentiveConfig(EncoderDecoderConfig):
    """A recurrent encoder-decoder with attention."""

    size: int = 256


class AnySourceConfig(EncoderDecoderConfig):
    """Begins with the mean of its source."""

    sources = {*Source} - {Source.NONE}
    size: int = 6


class OverlapConfig(ExampleMetricConfig):
    """The words of the best reference that the output has, as a share."""

    unit = "%"

    def score(self, hypothesis, references):
        found, wanted = {*hypothesis.split()}, [{*text.split()} for text in references]
        return max((len(words & found) / max(1, len(words)) for words in wanted), default=0)


class EpsilonGreedyConfig(StepDecoderConfig):
    """The most probable action, or with probability epsilon a random one."""

    epsilon: float = 0.1

    def choose(self, log_probs, uniform):
        drawn = invert(log_probs, (uniform / self.epsilon).clamp(max=1))
        return drawn.where(uniform < self.epsilon, log_probs.argmax(1))


class LikelyConfig(ProcessorConfig):
    """Excludes all actions but those nearly as probable as the best."""

    nats: float = 2.0

    def process(self, log_probs, actions):
        return log_probs.masked_fill(log_probs < log_probs.amax(1, keepdim=True) - self.nats, float("-inf"))


@hookimpl
def bench_models() -> list[type[ModelConfig]]:
    return [BigramConfig, StackedLSTMConfig, SmallGPTConfig, MinGRUConfig, AttentiveConfig, AnySourceConfig]


@hookimpl
def bench_metrics() -> list[type[MetricConfig]]:
    return [OverlapConfig]


@hookimpl
def bench_decoders() -> list[type[DecoderConfig]]:
    return [EpsilonGreedyConfig]


@hookimpl
def bench_processors() -> list[type[ProcessorConfig]]:
    return [LikelyConfig]
