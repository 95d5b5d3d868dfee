"""A task that has only references."""

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from bench_core import STOP, Batch, Purpose, Rng, Size, Split, Task, TaskInfo
from bench_recorded.plugin import ReferencesConfig
from bench_recorded.reading.pieces import join_lines
from bench_recorded.reading.text_lines import read_parallel

FILE = "lines.json"  # in the folder of the prepared task


class RecordedReferences(Task):
    """Examples with references and optional sources, one per line; targets consist of EOS only."""

    config: ReferencesConfig

    def prepare(self, data: Path) -> TaskInfo:
        """Copy the lines to the task's folder; raise DataError if the files have different numbers of lines."""
        paths, pieces = self.config.references, self.config.pieces
        files = read_parallel(paths, self.config.sources)
        references = [join_lines(path, lines, pieces) for path, lines in zip(paths, files, strict=False)]
        content = {"references": references, "sources": files[len(paths) :]}
        (self.folder / FILE).write_text(json.dumps(content), encoding="utf-8")
        extras: dict[str, Any] = {"statistics": {"test": {"examples": len(files[0])}}}
        return TaskInfo(["<stop>"], extras=extras | ({"references": f"pieces={pieces}"} if pieces else {}))

    def batches(self, split: Split, purpose: Purpose, size: Size, rng: Rng | None = None) -> Iterator[Batch]:
        number = len(self._lines["references"][0])
        order = torch.arange(number)
        if rng is not None:
            order = rng.uniform(order).argsort(stable=True)
        for start in range(0, number, max(1, size.number)):
            ids = order[start : start + max(1, size.number)]
            stops = torch.full((len(ids), 1), STOP)
            yield Batch(ids, stops, stops, torch.ones_like(ids))

    def text(self, tokens: list[int]) -> str:
        return ""

    def sources(self, split: Split) -> Mapping[int, str]:
        return dict(enumerate(self._lines["sources"][0])) if self._lines["sources"] else {}

    def references(self, split: Split) -> Mapping[int, Sequence[str]]:
        return {number: list(each) for number, each in enumerate(zip(*self._lines["references"], strict=True))}

    @cached_property
    def _lines(self) -> Mapping[str, list[list[str]]]:
        lines: dict[str, list[list[str]]] = json.loads((self.folder / FILE).read_text(encoding="utf-8"))
        return lines
