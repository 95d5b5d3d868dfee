"""The model and the decoder for recorded outputs."""

from collections.abc import Mapping, Sequence
from math import isfinite

from torch import nn

from bench_core import Generation, Hypothesis, Prompt, TaskInfo, TextDecoder, TextGenerator
from bench_recorded.matching import MatchedOutputs, match_outputs
from bench_recorded.plugin import AsRecordedConfig, Recorded, RecordedConfig
from bench_recorded.reading.recording import read_recording
from bench_recorded.reading.records import Output


class RecordedOutputs(nn.Module, Recorded):
    """Returns recorded outputs; their texts are taken from the file and bypass the vocabulary."""

    def __init__(self, config: RecordedConfig, info: TaskInfo) -> None:
        super().__init__()
        self.config = config
        self.cached: dict[tuple[str, int], MatchedOutputs] = {}  # by split and seed

    def notes(self) -> Mapping[str, str]:
        config = self.config
        joining = "not joined" if config.pieces == "none" else f"{config.pieces}, joined"
        pieces = {"pieces of outputs": joining} if config.pieces else {}
        return {**pieces, **({"thinking in outputs": config.thinking} if config.thinking != "refuse" else {})}

    def generate(self, prompts: Sequence[Prompt], generation: Generation) -> list[list[Hypothesis]]:
        """Return all outputs of each prompt; raise DataError if some are missing or the file does not match."""
        if not prompts:
            return []
        records = self._outputs(prompts, generation).of(prompts)
        return [[*map(hypothesis, record.outputs)] for record in records]

    def _outputs(self, prompts: Sequence[Prompt], generation: Generation) -> MatchedOutputs:
        """Return the outputs of a split; read the file and print its warnings only once."""
        key = generation.split, generation.seed
        if key not in self.cached:
            recording = read_recording(self.config.file(*key), self.config, self.config.prompts.get(generation.split))
            self.cached[key] = match_outputs(recording, self.config, prompts, generation.split, generation.examples)
            for text in self.cached[key].warnings():
                generation.warn(text)
        return self.cached[key]


def hypothesis(output: Output) -> Hypothesis:
    """Return an output as a hypothesis."""
    values = {name: value for name, value in output.values.items() if isfinite(value)}
    return Hypothesis(
        [], output.finished, output.log_prob, values=values, text=output.text, token_count=output.tokens
    )


class AsRecorded(TextDecoder):
    """Returns recorded outputs unchanged, by default all of an n-best list."""

    config: AsRecordedConfig

    def decode_texts(
        self, model: TextGenerator, prompts: Sequence[Prompt], generation: Generation
    ) -> list[Sequence[Hypothesis]]:
        """Return the hypotheses of each prompt, at most `best`."""
        return [[*row][: self.config.best] for row in model.generate(prompts, generation)]
