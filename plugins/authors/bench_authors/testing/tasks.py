"""Contracts of tasks."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, fields
from itertools import islice
from math import isfinite
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from torch import Tensor

from bench_authors.looks.tasks import digests
from bench_authors.testing.accelerators import accelerator
from bench_authors.testing.cases import TaskCase
from bench_authors.testing.contracts import catches, check, contracts_of
from bench_authors.testing.mutants import tasks as mutants
from bench_core import STOP, Batch, Purpose, Size, Source
from bench_core.computing.overlap import Row, rows_by_id


def check_task(case: TaskCase) -> list[str]:
    """Test all contracts that apply to the task of `case`; return their names."""
    return check(TASK_CONTRACTS, case)


@catches(
    mutants.drops_the_last_example,
    mutants.drops_what_fills_no_batch,
    mutants.repeats_an_example,
)
def an_epoch_covers_each_example_once(case: TaskCase) -> None:
    """Compare epochs with different batch sizes, shuffled or not, except for windows of a stream."""
    for split, purpose in _example_purposes(case):
        every = _ids(case.batches(split, purpose, Size(1)))
        assert len(set(every)) == len(every), f"{split}: an id occurs twice"
        orders = [_ids(case.batches(split, purpose, size, case.rng)) for size in (case.size, Size(10**6), Size(1))]
        for ids in [_ids(case.batches(split, purpose)), *orders]:
            assert sorted(ids) == sorted(every), f"{split}: {len(ids)} of {len(every)} examples, to {purpose}"


@catches(mutants.shuffles_by_turn, mutants.never_shuffles)
def noise_alone_decides_the_order(case: TaskCase) -> None:
    """Check that random numbers decide the order and that, except in training, the batch size does not change it."""
    for split, purpose in _example_purposes(case):
        first = _ids(case.batches(split, purpose, rng=case.rng))
        assert first == _ids(case.batches(split, purpose, rng=case.rng)), (
            f"{split}: the order differs although the random numbers are the same"
        )
        # Single rows, because larger batches may group rows of similar length.
        alone = _ids(case.batches(split, purpose, Size(1), case.rng))
        others = [_ids(case.batches(split, purpose, Size(1), case.rng.fork(turn))) for turn in range(3)]
        alike = all(ids == alone for ids in others)
        assert len(first) < 4 or not alike, f"{split}: the same order with other random numbers, to {purpose}"
        assert purpose is Purpose.TRAIN or alone == first, (
            f"{split}: the order depends on the batch size, to {purpose}"
        )


@catches(mutants.exceeds_its_size)
def batches_keep_their_size(case: TaskCase) -> None:
    """Check that batches do not exceed a size in rows or tokens; only a single row may have more tokens."""
    longest = max(int(batch.length.max()) for batch in _all(case))
    for size in (case.size, Size(2), Size(2 * longest, "tokens")):
        for split, purpose in case.purposes():
            for batch in case.batches(split, purpose, size):
                number = len(batch) if size.unit == "rows" else int(batch.length.sum())
                assert number <= size.number or len(batch) == 1, f"{split}: {number} {size.unit} > {size.number}"


@catches(*mutants.MISPLACING_STOP)
def openings_begin_and_targets_end_with_stop(case: TaskCase) -> None:
    """Check the positions of EOS, except in windows of a stream."""
    for split, purpose in _example_purposes(case):
        for batch in case.batches(split, purpose):
            assert (batch.prompt[:, 0] == STOP).all(), f"{split}: a prompt (`prompt`) does not begin with EOS"
            ends = batch.mask.cumsum(1) == batch.length[:, None]  # last token and padding
            assert (batch.gold[ends] == STOP).all(), f"{split}: a target does not end with EOS at its `length`"
            assert (batch.gold[~ends] != STOP).all(), f"{split}: EOS is inside a target"
            assert (batch.length > 0).all(), f"{split}: the length of a target does not include EOS"


@catches(mutants.speaks_another_vocabulary, mutants.brings_another_source)
def batches_are_what_config_and_facts_say(case: TaskCase) -> None:
    """Check that tokens are in the vocabularies and sources have the declared kind and shape."""
    words = len(case.info.vocabulary)
    for batch in _all(case):
        for name, tokens in (("prompt", batch.prompt), ("gold", batch.gold)):
            assert tokens.dtype == torch.long, f"{name} is {tokens.dtype}"
            assert tokens.numel() == 0 or 0 <= tokens.min() <= tokens.max() < words, (
                f"{name} has tokens outside the vocabulary"
            )
        assert batch.ids.shape == batch.length.shape == (len(batch),), "each row must have an id and a length"
        _check_source(case, batch)


@catches(*mutants.MISWEIGHING)
def weights_of_examples_have_a_mean(case: TaskCase) -> None:
    """Check that weights are finite, nonnegative, one per row, and not all 0 in a training batch or a split."""
    for split, purpose in case.purposes():
        weighted = [batch for batch in case.batches(split, purpose) if "weight" in batch.extras]
        for batch in weighted:
            weights = batch.extras["weight"]
            assert weights.shape == (len(batch),), (
                f"{split}: {len(batch)} examples have weights of shape {[*weights.shape]}"
            )
            assert weights.isfinite().all(), f"{split}: a weight is not finite"
            assert (weights >= 0).all(), f"{split}: a weight is negative: {weights.min().item()}"
            assert purpose is not Purpose.TRAIN or weights.any(), f"{split}: all weights of a training batch are 0"
        heavy = any(batch.extras["weight"].any() for batch in weighted)
        assert heavy or not weighted, f"{split}: all weights are 0, to {purpose}"


@catches(mutants.renumbers_what_it_decodes)
def the_same_rows_have_the_same_ids(case: TaskCase) -> None:
    """Compare ids between the purposes of a split."""
    known: dict[str, list[dict[int, Row]]] = {}
    for split, purpose in _example_purposes(case):
        rows = {number: row for batch in case.batches(split, purpose) for number, row in rows_by_id(batch).items()}
        known.setdefault(split, []).append(rows)
    for split, (first, *others) in known.items():
        for rows in others:
            alike = sorted(first.values()) == sorted(rows.values())
            assert not alike or first == rows, f"{split}: the ids of rows differ between purposes"


@catches(mutants.loses_a_reference, mutants.refers_to_letters)
def references_know_every_decoded_example(case: TaskCase) -> None:
    """Check that every decoded example has a list of reference texts."""
    for split, purpose in case.purposes():
        if purpose is Purpose.DECODE:
            references, ids = case.task.references(split), set(_ids(case.batches(split, purpose)))
            assert ids <= set(references), f"{split}: no references for {sorted(ids - set(references))}"
            for texts in references.values():
                listed = not isinstance(texts, str) and all(isinstance(text, str) for text in texts)
                assert listed, f"{split}: {texts!r} is not a list of texts"


@catches(mutants.speaks_in_lists)
def tokens_become_text(case: TaskCase) -> None:
    """Convert tokens, including an empty list, to text."""
    for batch in _all(case):
        for gold, length in zip(batch.gold.tolist(), batch.length.tolist(), strict=True):
            tokens = [token for token in gold[:length] if token != STOP]
            for text in (case.task.text(tokens), case.task.prompt(tokens), case.task.text([])):
                assert isinstance(text, str), f"the text of {tokens} is {text!r}"


@catches(mutants.prepares_by_the_clock)
def prepared_twice_it_is_the_same(case: TaskCase) -> None:
    """Compare two preparations, and the digests of the files that they read."""
    preparations = []
    for _ in range(2):
        with TemporaryDirectory() as name:
            info = case.config.load()(case.config, Path(name)).prepare(case.data)
            preparations.append((info, digests(Path(name)), dict(case.config.reads(case.data))))
    for first, second in zip(*preparations, strict=True):
        assert first == second, "two preparations differ"
    assert case.config.complete(preparations[0][0]) == case.info, "a second preparation gives different task info"


@catches(mutants.keeps_a_set_in_its_facts, mutants.repeats_a_token)
def facts_are_plain_and_consistent(case: TaskCase) -> None:
    """Check that task info can be stored as JSON, with consistent vocabularies and counts."""
    info = case.info
    for name, value in asdict(info).items():
        assert is_plain_data(value), f"`{name}` of the task info cannot be stored as JSON"
    for vocabulary in (info.vocabulary, info.source_vocabulary):
        assert len(set(vocabulary)) == len(vocabulary), "a token occurs twice in a vocabulary"
    assert len(info.counts) in (0, len(info.vocabulary)), "`counts` must be empty or have a count per token"


@catches(mutants.yields_batches_on_an_accelerator, mutants.hides_numbers_from_a_move)
def batches_move_to_an_accelerator(case: TaskCase) -> None:
    """Check that batches are on the CPU even if there is a GPU, and that all tensors of a batch move."""
    with accelerator() as device:
        for split, purpose in case.purposes():
            for batch in islice(case.task.batches(split, purpose, case.size), 2):
                assert batch.ids.device.type == "cpu", (
                    f"a batch of {split!r} is on {batch.ids.device}, not on the CPU"
                )
                there = batch.to(device)
                for name in (field.name for field in fields(there)):
                    wrong = [part for part in _tensors(getattr(there, name)) if part.device.type != device]
                    assert not wrong, f"`{name}` of a batch stays on the CPU when the batch moves"
                assert there.real.tolist() == batch.real.tolist(), "moving a batch changes its real tokens"


def _tensors(value: object) -> Iterator[Tensor]:
    """Yield the tensors in a value, including objects that a batch cannot move."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _tensors(item)
    elif isinstance(value, tuple | list | set | frozenset):
        for item in value:
            yield from _tensors(item)
    elif hasattr(value, "__dict__"):
        yield from _tensors(vars(value))


def is_plain_data(value: object) -> bool:
    """Return whether `value` survives JSON, except that tuples become lists."""
    if isinstance(value, dict):
        return all(isinstance(key, str) and is_plain_data(item) for key, item in value.items())
    if isinstance(value, list | tuple):
        return all(map(is_plain_data, value))
    return value is None or isinstance(value, str | int) or (isinstance(value, float) and isfinite(value))


def _example_purposes(case: TaskCase) -> list[tuple[str, Purpose]]:
    """Return splits with each of their purposes, except purposes whose rows are windows of a stream."""
    uses = case.purposes()
    streams = {use for split, use in uses if any(batch.continues for batch in case.batches(split, use))}
    return [(split, use) for split, use in uses if use not in streams | case.windows]


def _all(case: TaskCase) -> list[Batch]:
    return [batch for split, purpose in case.purposes() for batch in case.batches(split, purpose)]


def _ids(batches: Iterable[Batch]) -> list[int]:
    return [number for batch in batches for number in batch.ids.tolist()]


def _check_source(case: TaskCase, batch: Batch) -> None:
    kind, source = case.config.source, batch.source
    if kind is Source.NONE:
        assert source is None, "batches have a source that the Config does not declare"
        return
    assert source is not None, f"batches lack the declared source, {kind}"
    if kind in (Source.VECTOR, Source.GRID, Source.IMAGE):
        wanted = case.info.source_shape
        assert source.shape[1:] == torch.Size(wanted), (
            f"a source has the shape {tuple(source.shape[1:])}; the task info declares {wanted}"
        )
        return
    words = len(case.info.source_vocabulary)
    assert source.dtype == torch.long, f"source is {source.dtype}"
    assert source.dim() == 2, f"source has {source.dim()} dimensions"
    assert 0 <= source.min() <= source.max() < words, "source has tokens outside the source vocabulary"
    assert batch.source_length is not None, "batches lack the length of their sources"
    assert 0 <= batch.source_length.min() <= batch.source_length.max() <= source.shape[1], (
        "a source is shorter than its length"
    )


#: The contracts of `check_task`.
TASK_CONTRACTS = contracts_of(globals())
