"""Guards on the return values of tasks."""

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from bench_core.computing.result_checks import are_between, brief, gave, is_whole, named
from bench_core.data import Batch, Prompt, Purpose, Source, TaskInfo
from bench_core.errors import Fault, PluginError
from bench_core.random_numbers import Rng
from bench_core.task import Size, Split, Task, TextSize

T = TypeVar("T")

ONE_TEXT: Fault = "expected a string for each id."
ONE_NUMBER: Fault = "expected an integer for each id."
ONE_SIZE: Fault = "expected a TextSize or None for each id."
TEXTS: Fault = "expected a list of strings for each id."


class CheckedTask(Task):
    """A wrapper of a task that raises PluginError if the task returns an invalid value."""

    def __init__(self, task: Task, info: TaskInfo) -> None:
        super().__init__(task.config, task.folder)
        self.task, self.info = task, info

    def prepare(self, data: Path) -> TaskInfo:
        return self.task.prepare(data)

    def batches(self, split: Split, purpose: Purpose, size: Size, rng: Rng | None = None) -> Iterator[Batch]:
        batches = self.task.batches(split, purpose, size, rng)
        if not isinstance(batches, Iterable):
            raise gave(self.task, "batches", brief(batches), "expected an iterator of batches.")
        seen: dict[int, int] = {}
        for batch in batches:
            if reason := misfit(batch, self.info):
                raise PluginError(f"{named(self.task, 'batches')} gave {reason} ({split!r}, to {purpose}).")
            if purpose is not Purpose.TRAIN and not batch.continues:
                self._check_once(batch, seen, split)
            yield batch

    def encode(self, prompts: Sequence[Prompt], targets: Sequence[str] | None = None) -> Iterator[Batch]:
        batches, who = [*self.task.encode(prompts, targets)], named(self.task, "encode")
        for batch in batches:
            if reason := misfit(batch, self.info):
                raise PluginError(f"{who} gave {reason}.")
        ids = sorted(number for batch in batches for number in batch.ids.tolist())
        if ids != sorted(prompt.id for prompt in prompts):
            raise PluginError(f"{who} gave the ids {ids[:3]}...; expected one row for each prompt, with its id.")
        yield from batches

    def _check_once(self, batch: Batch, seen: dict[int, int], split: Split) -> None:
        """Raise PluginError if an id was `seen`; each value of `seen` is a bit set of 1,024 ids."""
        for example in batch.ids.tolist():
            bits, bit = seen.get(example >> 10, 0), 1 << (example & 1023)
            if bits & bit:
                raise PluginError(f"{named(self.task, 'batches')} gave example {example} of {split!r} twice.")
            seen[example >> 10] = bits | bit

    def text(self, tokens: list[int]) -> str:
        return self._text(self.task.text(tokens), "text")

    def prompt(self, tokens: list[int]) -> str:
        return self._text(self.task.prompt(tokens), "text" if type(self.task).prompt is Task.prompt else "prompt")

    def _text(self, text: object, method: str) -> str:
        if not isinstance(text, str):
            raise gave(self.task, method, brief(text), "expected a string.")
        return text

    def sources(self, split: Split) -> Mapping[int, str]:
        return self._by_id("sources", self.task.sources(split), _is_text, ONE_TEXT)

    def groups(self, split: Split) -> Mapping[int, int]:
        return self._by_id("groups", self.task.groups(split), _is_whole, ONE_NUMBER)

    def example_names(self, split: Split) -> Mapping[int, str]:
        return self._by_id("example_names", self.task.example_names(split), _is_text, ONE_TEXT)

    def separators(self, split: Split) -> Mapping[int, str]:
        return self._by_id("separators", self.task.separators(split), _is_text, ONE_TEXT)

    def target_spellings(self, split: Split) -> Mapping[int, str]:
        return self._by_id("target_spellings", self.task.target_spellings(split), _is_text, ONE_TEXT)

    def target_sizes(self, split: Split) -> Mapping[int, TextSize | None]:
        return self._by_id("target_sizes", self.task.target_sizes(split), _is_size, ONE_SIZE)

    def references(self, split: Split) -> Mapping[int, Sequence[str]]:
        return self._by_id("references", self.task.references(split), _are_texts, TEXTS)

    def _by_id(self, method: str, mapping: T, fits: Callable[[object], bool], due: Fault) -> T:
        """Return a result if it, or every value of a mapping, passes `fits`; otherwise raise PluginError."""
        for value in mapping.values() if isinstance(mapping, Mapping) else [mapping]:
            if not fits(value):
                raise gave(self.task, method, brief(value), due)
        return mapping


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_whole(value: object) -> bool:
    return type(value) is int


def _is_size(value: object) -> bool:
    return value is None or (
        isinstance(value, TextSize) and all(type(size) is int and size >= 0 for size in vars(value).values())
    )


def _are_texts(value: object) -> bool:
    return isinstance(value, list | tuple) and all(map(_is_text, value))


def check_references(task: Task, split: Split, references: Collection[int], examples: Sequence[int]) -> None:
    """Raise PluginError if the references of a task lack an example."""
    if missing := [example for example in examples if example not in references]:
        part = task.task if isinstance(task, CheckedTask) else task
        raise PluginError(
            f"{named(part, 'references')} has no entry for example {missing[0]} of {split!r}; "
            "return an empty list if there is no accepted text."
        )


def misfit(batch: object, info: TaskInfo) -> Fault:
    """Return what is wrong with a batch and what was expected; empty if the batch is valid."""
    if not isinstance(batch, Batch):
        return f"{brief(batch)}; expected a Batch"
    if not is_whole(batch.ids, 1):
        return f"the ids {brief(batch.ids)}; expected integers [N]"
    rows, words = len(batch.ids), len(info.vocabulary)
    for name, tokens in (("prompt", batch.prompt), ("gold", batch.gold)):
        wrong = _table(tokens, rows, words)
        if wrong or (rows and not tokens.shape[1]):
            return f"the {name} {wrong or 'without a token; expected at least EOS'}"
    if not are_between(batch.length, rows, 1, batch.gold.shape[1]):
        return f"the length {_describe(batch.length)}; each of {rows} rows must have 1 to {batch.gold.shape[1]}"
    for name, tensor in batch.extras.items():
        if not hasattr(tensor, "shape") or tuple(tensor.shape[:1]) != (rows,):
            return f"{brief(tensor)} as the extra {name!r}; expected a tensor with {rows} rows"
    weights = batch.extras.get("weight")
    if weights is not None and rows and not (float(weights.min()) >= 0 and float(weights.max()) < math.inf):
        return "a weight that is negative or not finite; expected weights of at least 0"
    return _source(batch, info, rows)


def _source(batch: Batch, info: TaskInfo, rows: int) -> Fault:
    source, kind = batch.source, Source(info.source)
    if kind is Source.NONE:
        return "" if source is None else f"the source {brief(source)}; the task's Config declares no source"
    if source is None:
        return f"no source; the task's Config declares the source {kind}"
    if kind in (Source.VECTOR, Source.GRID, Source.IMAGE):
        if not hasattr(source, "shape") or tuple(source.shape) != (rows, *info.source_shape):
            return f"the source {brief(source)}; expected {[rows, *info.source_shape]}"
        finite = not source.numel() or all(math.isfinite(end.item()) for end in source.aminmax())
        return "" if finite else "a source with NaN or an infinite number"
    if wrong := _table(source, rows, len(info.source_vocabulary)):
        return f"the source {wrong}"
    if not are_between(batch.source_length, rows, 0, source.shape[1]):
        return f"the source_length {_describe(batch.source_length)}; each row must have 0 to {source.shape[1]}"
    return ""


def _table(tokens: Any, rows: int, words: int) -> Fault:
    """Return what is wrong with tokens [N, *]; empty if they are valid."""
    if not is_whole(tokens, 2) or len(tokens) != rows:
        return f"{brief(tokens)}; expected int64 [{rows}, tokens]"
    if not tokens.numel():
        return ""
    low, high = (end.item() for end in tokens.aminmax())
    return "" if low >= 0 and high < words else f"with tokens from {low} to {high}; expected 0 to {words - 1}"


def _describe(numbers: Any) -> Fault:
    return f"from {numbers.min()} to {numbers.max()}" if is_whole(numbers, 1) and len(numbers) else brief(numbers)
