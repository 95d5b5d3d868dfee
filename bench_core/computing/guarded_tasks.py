"""A task wrapped in guards on everything that it returns."""

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from bench_core.computing.result_checks import are_between, gave, is_whole, named, shown
from bench_core.data import Batch, Prompt, Purpose, Source, TaskInfo
from bench_core.errors import Fault, PluginError
from bench_core.random_numbers import Noise
from bench_core.task import Size, Split, Task, TextSize

T = TypeVar("T")

ONE_TEXT: Fault = "it is one text by each id."
ONE_NUMBER: Fault = "it is one whole number by each id."
ONE_SIZE: Fault = "it is one TextSize by each id, or None."
TEXTS: Fault = "it is a list of texts by each id."


class CheckedTask(Task):
    """Wraps a task; raises PluginError if it returns something invalid."""

    def __init__(self, task: Task, info: TaskInfo) -> None:
        super().__init__(task.config, task.folder)
        self.task, self.info = task, info

    def prepare(self, data: Path) -> TaskInfo:
        return self.task.prepare(data)

    def batches(self, split: Split, purpose: Purpose, size: Size, noise: Noise | None = None) -> Iterator[Batch]:
        found = self.task.batches(split, purpose, size, noise)
        if not isinstance(found, Iterable):
            raise gave(self.task, "batches", shown(found), "it is to give batches.")
        seen: dict[int, int] = {}
        for batch in found:
            reason = misfit(batch, self.info)
            if reason:
                raise PluginError(f"{named(self.task, 'batches')} gave {reason} ({split!r}, to {purpose}).")
            if purpose is not Purpose.TRAIN and not batch.continues:
                self._check_once(batch, seen, split)
            yield batch

    def encode(self, prompts: Sequence[Prompt], targets: Sequence[str] | None = None) -> Iterator[Batch]:
        found, who = [*self.task.encode(prompts, targets)], named(self.task, "encode")
        for batch in found:
            if reason := misfit(batch, self.info):
                raise PluginError(f"{who} gave {reason}.")
        ids = sorted(number for batch in found for number in batch.ids.tolist())
        if ids != sorted(one.id for one in prompts):
            raise PluginError(f"{who} gave the ids {ids[:3]}...; it is to give one row for each prompt, with its id.")
        yield from found

    def _check_once(self, batch: Batch, seen: dict[int, int], split: Split) -> None:
        """Raise PluginError if an id was `seen`, where 1,024 neighbours are the bits of a number."""
        for example in batch.ids.tolist():
            known, bit = seen.get(example >> 10, 0), 1 << (example & 1023)
            if known & bit:
                raise PluginError(f"{named(self.task, 'batches')} gave example {example} of {split!r} twice.")
            seen[example >> 10] = known | bit

    def text(self, tokens: list[int]) -> str:
        return self._text(self.task.text(tokens), "text")

    def prompt(self, tokens: list[int]) -> str:
        own = type(self.task).prompt is not Task.prompt
        return self._text(self.task.prompt(tokens), "prompt" if own else "text")

    def _text(self, found: object, method: str) -> str:
        if not isinstance(found, str):
            raise gave(self.task, method, shown(found), "it is to give a text, a str.")
        return found

    def sources(self, split: Split) -> Mapping[int, str]:
        return self._by_id("sources", self.task.sources(split), _is_text, ONE_TEXT)

    def groups(self, split: Split) -> Mapping[int, int]:
        return self._by_id("groups", self.task.groups(split), _is_whole, ONE_NUMBER)

    def example_names(self, split: Split) -> Mapping[int, str]:
        return self._by_id("example_names", self.task.example_names(split), _is_text, ONE_TEXT)

    def separators(self, split: Split) -> Mapping[int, str]:
        return self._by_id("separators", self.task.separators(split), _is_text, ONE_TEXT)

    def written(self, split: Split) -> Mapping[int, str]:
        return self._by_id("written", self.task.written(split), _is_text, ONE_TEXT)

    def target_sizes(self, split: Split) -> Mapping[int, TextSize | None]:
        found = self.task.target_sizes(split)
        return self._by_id("target_sizes", found, _is_size, ONE_SIZE)

    def references(self, split: Split) -> Mapping[int, Sequence[str]]:
        found = self.task.references(split)
        return self._by_id("references", found, _are_texts, TEXTS)

    def _by_id(self, method: str, found: T, fits: Callable[[object], bool], due: Fault) -> T:
        """Return a mapping that checks its values; anything else is checked itself."""
        for one in found.values() if isinstance(found, Mapping) else [found]:
            if not fits(one):
                raise gave(self.task, method, shown(one), due)
        return found


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_whole(value: object) -> bool:
    return type(value) is int


def _is_size(value: object) -> bool:
    return value is None or (
        isinstance(value, TextSize) and all(type(one) is int and one >= 0 for one in vars(value).values())
    )


def _are_texts(value: object) -> bool:
    return isinstance(value, list | tuple) and all(map(_is_text, value))


def check_known(task: Task, split: Split, references: Collection[int], examples: Sequence[int]) -> None:
    """Raise PluginError if a task has no entry for the references of an example."""
    missing = [example for example in examples if example not in references]
    if missing:
        part = task.task if isinstance(task, CheckedTask) else task
        raise PluginError(
            f"{named(part, 'references')} has no entry for example {missing[0]} of {split!r}; "
            "where there is no accepted text, it is an empty list."
        )


def misfit(batch: object, info: TaskInfo) -> Fault:
    """Return the problem of a batch, and what is expected; the empty string if there is none."""
    if not isinstance(batch, Batch):
        return f"{shown(batch)}; it is to give Batches"
    if not is_whole(batch.ids, 1):
        return f"the ids {shown(batch.ids)}; they are whole numbers [N]"
    rows, words = len(batch.ids), len(info.vocabulary)
    for name, tokens in (("opening", batch.opening), ("gold", batch.gold)):
        wrong = _table(tokens, rows, words)
        if wrong or (rows and not tokens.shape[1]):
            return f"the {name} {wrong or 'without a token; the first or last is stop'}"
    if not are_between(batch.length, rows, 1, batch.gold.shape[1]):
        return f"the length {_described(batch.length)}; of each of {rows} rows it is 1 to {batch.gold.shape[1]}"
    for name, tensor in batch.extras.items():
        if not hasattr(tensor, "shape") or tuple(tensor.shape[:1]) != (rows,):
            return f"{shown(tensor)} as the extra {name!r}; extras are tensors, rows first, here {rows}"
    weights = batch.extras.get("weight")
    if weights is not None and rows and not (float(weights.min()) >= 0 and float(weights.max()) < math.inf):
        return "a weight that is negative or not finite; weights of examples are at least 0"
    return _source(batch, info, rows)


def _source(batch: Batch, info: TaskInfo, rows: int) -> Fault:
    source, kind = batch.source, Source(info.source)
    if kind is Source.NONE:
        return "" if source is None else f"the source {shown(source)}; the task's Config says that there is none"
    if source is None:
        return f"no source; the task's Config tells of one, {kind}"
    if kind in (Source.VECTOR, Source.GRID):
        if not hasattr(source, "shape") or tuple(source.shape) != (rows, *info.source_shape):
            return f"the source {shown(source)}; it is {[rows, *info.source_shape]}"
        finite = not source.numel() or all(math.isfinite(end.item()) for end in source.aminmax())
        return "" if finite else "a source with NaN or an infinite number"
    wrong = _table(source, rows, len(info.source_vocabulary))
    if wrong:
        return f"the source {wrong}"
    if not are_between(batch.source_length, rows, 0, source.shape[1]):
        return f"the source_length {_described(batch.source_length)}; of each row it is 0 to {source.shape[1]}"
    return ""


def _table(tokens: Any, rows: int, words: int) -> Fault:
    """Return the problem of tokens [N, *]; the empty string if there is none."""
    if not is_whole(tokens, 2) or len(tokens) != rows:
        return f"{shown(tokens)}; it is int64 [{rows}, tokens]"
    if not tokens.numel():
        return ""
    low, high = (end.item() for end in tokens.aminmax())
    return "" if low >= 0 and high < words else f"with tokens from {low} to {high}; there are {words}, the first is 0"


def _described(numbers: Any) -> Fault:
    return f"from {numbers.min()} to {numbers.max()}" if is_whole(numbers, 1) and len(numbers) else shown(numbers)
