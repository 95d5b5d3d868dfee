"""The model and the decoder of recorded outputs."""

from collections.abc import Mapping, Sequence
from math import isfinite

from torch import nn

from bench_core import Generation, Hypothesis, Prompt, TaskInfo, TextDecoder, TextGenerator
from bench_recorded.matching import Matched, matched
from bench_recorded.plugin import AsRecordedConfig, Recorded, RecordedConfig
from bench_recorded.reading.recording import recording
from bench_recorded.reading.records import Output


class RecordedOutputs(nn.Module, Recorded):
    """Gives the outputs that were recorded; texts are as in the file and pass no vocabulary."""

    def __init__(self, config: RecordedConfig, info: TaskInfo) -> None:
        super().__init__()
        self.config = config
        self.read: dict[tuple[str, int], Matched] = {}  # by split and seed

    def notes(self) -> Mapping[str, str]:
        config = self.config
        pieces = {"pieces of outputs": _told(config.pieces)} if config.pieces else {}
        return {**pieces, **({"thinking in outputs": config.thinking} if config.thinking != "refuse" else {})}

    def generate(self, prompts: Sequence[Prompt], generation: Generation) -> list[list[Hypothesis]]:
        """Return all outputs of each prompt; raise DataError if one has none, or the file is not of the split."""
        if not prompts:
            return []
        found = self._matched(prompts, generation).of(prompts)
        return [[*map(hypothesis, record.outputs)] for record in found]

    def _matched(self, prompts: Sequence[Prompt], generation: Generation) -> Matched:
        """Return the outputs of a split; tell what is odd about them, once."""
        key = generation.split, generation.seed
        if key not in self.read:
            own = recording(self.config.file(*key), self.config, self.config.prompts.get(generation.split))
            self.read[key] = matched(own, self.config, prompts, generation.split, generation.examples)
            for text in self.read[key].warnings():
                generation.warn(text)
        return self.read[key]


def _told(pieces: str) -> str:
    return "none, texts are as recorded" if pieces == "none" else f"of {pieces}, joined"


def hypothesis(output: Output) -> Hypothesis:
    """Return an output as a hypothesis."""
    values = {name: value for name, value in output.values.items() if isfinite(value)}
    return Hypothesis(
        [], output.finished, output.log_prob, values=values, text=output.text, token_count=output.tokens
    )


class AsRecorded(TextDecoder):
    """Gives recorded outputs as they are, or the first of them."""

    config: AsRecordedConfig

    def decode_texts(
        self, model: TextGenerator, prompts: Sequence[Prompt], generation: Generation
    ) -> list[Sequence[Hypothesis]]:
        """Return the hypotheses of each prompt, at most as many as the Config says."""
        return [[*row][: self.config.best] for row in model.generate(prompts, generation)]
