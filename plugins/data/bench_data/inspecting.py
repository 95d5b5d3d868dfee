"""Opens the data of a task as a run would, one record at a time, and without torch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from math import inf
from pathlib import Path

from bench_core import DataError, Inspection, Prompt, Split
from bench_data.plugin import DataTaskConfig
from bench_data.reading import Reader
from bench_data.settings import Files, Hub, Lines, Saved
from bench_text.api import Example, Lengths, check_tokenizer


def inspect(config: DataTaskConfig, inspection: Inspection) -> None:
    """Note what is wrong with the data of a task; training data are read last, to be compared with the others."""
    for tokenizer in config.tokenizers:
        with inspection.noting():
            check_tokenizer(tokenizer, inspection.data)
    if inspection.problems:
        return
    seen = _Seen()
    for split in sorted(config.data.origins, key="train".__eq__):  # last, to be compared with the others
        with inspection.noting():
            _read(config, split, inspection, seen)
    for split, hashes in seen.hashes.items():
        inspection.compare(split, len(hashes), len(hashes & seen.shared))


@dataclass
class _Seen:
    """Hashes of the examples of all splits but train, and those of them that train has too."""

    hashes: dict[Split, set[int]] = field(default_factory=dict)
    shared: set[int] = field(default_factory=set)

    def add(self, split: Split, example: Example) -> None:
        found = hash((example.source, example.target))
        if split != "train":
            self.hashes.setdefault(split, set()).add(found)
        elif any(found in hashes for hashes in self.hashes.values()):
            self.shared.add(found)


def _read(config: DataTaskConfig, split: Split, inspection: Inspection, seen: _Seen) -> None:
    """Read a split, of large files the first record."""
    origin = config.data.origins[split]
    if isinstance(origin, Hub):
        inspection.skipped.append(f"data set {origin.hub} of the hub")
        return
    if not inspection.are_small(_files(origin)):
        next(_examples(config, split), None)
        return
    lengths = Lengths(config.tokenizers[-1], inspection.data)
    prefix, longest = int(getattr(config, "prefix", 0)), config.longest or inf
    number = short = 0
    for example in _examples(config, split):
        number += 1
        seen.add(split, example)
        short += lengths.add(example.target)[0] <= longest
    if not number:
        raise DataError(f"{config.name} has no examples in {split}. Correct `data: {split}:`.")
    if prefix and lengths.most <= prefix:
        raise DataError(
            f"`prefix: {prefix}` leaves nothing to complete: no text of {split} has more tokens. Set a smaller one."
        )
    if split == "train" and not short:
        raise DataError(
            f"all {number:,} examples of train have more tokens than `longest: {config.longest}`. Set a larger one."
        )
    inspection.prompts[split] = partial(_prompts, config, split)


def _files(origin: object) -> list[Path]:
    """Return the files that a split is read from."""
    if isinstance(origin, Files):
        return origin.files
    if isinstance(origin, Lines):
        return [*(origin.source or []), *(origin.prompt or []), *(origin.target or []), *origin.references]
    return [*origin.saved.rglob("*.arrow")] if isinstance(origin, Saved) else []


def _examples(config: DataTaskConfig, split: Split) -> Iterator[Example]:
    return Reader(split, config, lambda text: {"source": text}).examples()


def _prompts(config: DataTaskConfig, split: Split) -> Iterable[Prompt]:
    for number, example in enumerate(_examples(config, split)):
        yield Prompt(number, example.source or "", example.name or "")
