"""Opens the data of a task as a run would, one record at a time, and without torch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib.util import find_spec
from math import inf
from pathlib import Path

from bench_core import DataError, Inspection, Prompt, Purpose, Source, Split
from bench_data.plugin import DataTaskConfig
from bench_data.reading import RecordReader
from bench_data.settings import AlignedFiles, Hub, RecordFiles, Saved
from bench_text.api import Example, Lengths, SentencePiece, Writing, check_tokenizer

MAX_CACHED_CHARS = 1_000_000  #: characters of examples cached to check the models' limits


def inspect(config: DataTaskConfig, inspection: Inspection) -> None:
    """Check the data of a task; training data are read last, for comparison with other splits."""
    for tokenizer in config.tokenizers:
        with inspection.noting():
            check_tokenizer(tokenizer, inspection.data)
    if inspection.problems:
        return
    seen = _ExampleHashes(Writing(config.tokenizers[-1], inspection.data))
    for split in sorted(config.data.origins, key="train".__eq__):  # last, for comparison with other splits
        with inspection.noting():
            _read(config, split, inspection, seen)
    for split, hashes in seen.hashes.items():
        inspection.compare(split, len(hashes), len(hashes & seen.shared))
    if not inspection.problems:
        _report_bounds(config, inspection, seen)


def _report_bounds(config: DataTaskConfig, inspection: Inspection, seen: _ExampleHashes) -> None:
    """Report how many references the tokens of a task cannot represent, if all training text was read."""
    is_missing = isinstance(config.tokenizers[-1], SentencePiece) and find_spec("sentencepiece") is None
    if seen.is_partial or seen.writing.is_partial or is_missing or bool(getattr(config, "prefix", 0)):
        inspection.skipped.append(f"which references the tokens of {config.name} can write")
        return
    for split, (number, lost) in seen.writing.lost().items():
        inspection.bound(split, number, lost, "the tokens of models trained on it")


@dataclass
class _ExampleHashes:
    """Hashes of evaluation examples, and of examples shared with train; texts to check what tokens can represent."""

    writing: Writing
    is_partial: bool = False  # whether some data were not read
    hashes: dict[Split, set[int]] = field(default_factory=dict)
    shared: set[int] = field(default_factory=set)

    def add(self, split: Split, example: Example) -> None:
        code = hash((example.source, example.target))
        if split != "train":
            self.hashes.setdefault(split, set()).add(code)
        elif any(code in hashes for hashes in self.hashes.values()):
            self.shared.add(code)


def _read(config: DataTaskConfig, split: Split, inspection: Inspection, seen: _ExampleHashes) -> None:
    """Read a split, or the first record of large files."""
    origin = config.data.origins[split]
    if isinstance(origin, Hub):
        inspection.skipped.append(f"data set {origin.hub} of the hub")
        seen.is_partial = True
        return
    if not inspection.are_small(_files(origin)):
        next(_examples(config, split), None)
        seen.is_partial = True
        return
    lengths = Lengths(config.tokenizers[-1], inspection.data)
    prefix, longest = int(getattr(config, "prefix", 0)), config.longest or inf
    number, short, with_source = 0, 0, config.source is Source.NONE or getattr(config, "shared", False)
    cached, room = (None if split == "train" else list[Example]()), MAX_CACHED_CHARS
    for example in _examples(config, split):
        number += 1
        room -= len(example.target) + len(example.source or "")
        if cached is not None and room >= 0:
            cached.append(example)
        seen.add(split, example)
        if Purpose.TRAIN in example.purposes and (split == "train" or "train" not in config.data.origins):
            seen.writing.learn_from(example.target, example.source if with_source else None)
        if Purpose.SCORE in example.purposes and split != "train":
            seen.writing.add(split, example.target, example.references)
        short += lengths.add(example.target)[0] <= longest
    if not number:
        raise DataError(f"{config.name} has no examples in {split}. Correct `data: {split}:`.")
    if prefix and lengths.most <= prefix:
        raise DataError(
            f"`prefix: {prefix}` leaves nothing to complete: no text of {split} has more tokens. Decrease it."
        )
    if split == "train" and not short:
        raise DataError(
            f"all {number:,} examples of train have more tokens than `longest: {config.longest}`. Increase it."
        )
    again = partial(_examples, config, split) if cached is None or room < 0 else partial(iter, cached)
    inspection.prompts[split] = partial(_prompts, again)
    if origin.targets:
        inspection.references[split] = partial(_references, again)


def _files(origin: object) -> list[Path]:
    """Return the files of a split."""
    if isinstance(origin, RecordFiles):
        return origin.files
    if isinstance(origin, AlignedFiles):
        return [*(origin.source or []), *(origin.prompt or []), *(origin.target or []), *origin.references]
    return [*origin.saved.rglob("*.arrow")] if isinstance(origin, Saved) else []


def _examples(config: DataTaskConfig, split: Split) -> Iterator[Example]:
    return RecordReader(split, config, "source").examples()


def _references(examples: Callable[[], Iterator[Example]]) -> Iterable[Sequence[str]]:
    return (example.references or [example.target] for example in examples())


def _prompts(examples: Callable[[], Iterator[Example]]) -> Iterable[Prompt]:
    for number, example in enumerate(examples()):
        yield Prompt(number, example.source or "", example.name or "")
