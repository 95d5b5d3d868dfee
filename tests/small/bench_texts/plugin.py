"""Their Configs."""

from pathlib import Path

from bench_core import Source
from bench_text.api import SequenceTaskConfig


class JsonPairsConfig(SequenceTaskConfig):
    """Pairs of texts, a JSON object in each line."""

    source = Source.TOKENS
    train: Path
    valid: Path
    test: Path


class CountingConfig(SequenceTaskConfig):
    """Numbers in words, made from a source of any kind; every third example has a weight of 2."""

    kind: Source = Source.NONE

    @property
    def source(self):
        """Return the kind of source that is wished."""
        return self.kind
