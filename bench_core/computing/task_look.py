"""Looks at a prepared task: what it says of an example is the same each time, in any batch, for every purpose."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from typing import TypeAlias

from bench_core.computing.guarded_tasks import CheckedTask
from bench_core.computing.guards import named
from bench_core.computing.laws import BrokenLaw, Laws
from bench_core.computing.second_look import hides_targets
from bench_core.data import STOP, Batch, Purpose, TaskInfo
from bench_core.errors import Fault
from bench_core.task import Size

Row: TypeAlias = tuple[bytes, bytes, bytes]  # opening, target, source

SPLITS = ("train", "valid", "test")
ROWS = 8  #: of each split and purpose that are looked at again
REFERENCES = 64  #: rows whose references are compared with their targets
WHOLE = 2_000  #: examples of a split up to which an epoch is counted again
MANY = 0.01  #: share of a split that may be repeated, or shared with the training split, without a warning

TWICE, ENDS, HIDDEN = "prepared_twice_it_is_the_same", "targets_end_with_stop", "targets_are_hidden_from_decoders"
READ_TWICE, ANY_SIZE = "read_twice_it_is_the_same", "a_row_is_the_same_in_any_batch"
EPOCH = "an_epoch_covers_each_example_once"
IDS, REFERRED = "the_same_rows_have_the_same_ids", "references_belong_to_their_example"


@dataclass(frozen=True)
class TaskLook:
    """Reads a task again."""

    task: CheckedTask
    laws: Laws

    def prepared_again(self, info: TaskInfo, other: TaskInfo, folder: Path) -> None:
        """Raise PluginError unless another preparation, in `folder`, gave the same facts and files."""
        facts, others = asdict(info), asdict(other)
        files = _files(self.task.folder), _files(folder)
        differing = [name for name, value in facts.items() if others[name] != value]
        differing += [name for name in {**files[0], **files[1]} if files[0].get(name) != files[1].get(name)]
        if differing:
            self.laws.broken(
                TWICE,
                f"{named(self.task.task, 'prepare')} gave other data when it was called twice: "
                f"{', '.join(differing[:3])} differ; what is prepared depends on settings and corpora alone.",
            )

    def at_examples(self) -> None:
        """Raise PluginError if the task says different things of the same examples; of a stream, it may."""
        for split in SPLITS if not any(map(self._is_stream, SPLITS)) else ():
            try:
                self._at_split(split)
            except BrokenLaw:
                raise
            except Exception:  # a split that cannot be read is no concern of those who do not ask for it
                continue

    def _at_split(self, split: str) -> None:
        found: dict[Purpose, dict[int, Row]] = {}
        for purpose in sorted(self.task.config.purposes(split)):
            batch = next(iter(self.task.batches(split, purpose, Size(ROWS))), None)
            if batch is not None:
                found[purpose] = _rows(batch)
                self._at_batch(batch, found[purpose], split, purpose)
        self._at_purposes(split, found)
        if Purpose.DECODE in found:
            self._at_references(split)

    def _at_batch(self, batch: Batch, rows: Mapping[int, Row], split: str, purpose: Purpose) -> None:
        again = next(iter(self.task.batches(split, purpose, Size(ROWS))))
        single = islice(self.task.batches(split, purpose, Size(1)), ROWS)
        alone = (one for few in single for one in _rows(few).items())
        wrong = {
            ENDS: bool((batch.gold.gather(1, batch.length[:, None] - 1) != STOP).any())
            and "a target that does not end with EOS (stop) where its length says",
            f"{ENDS} ": bool((batch.gold[~batch.mask] != STOP).any())
            and "gold that is padded with other tokens than EOS (stop)",
            HIDDEN: purpose is Purpose.DECODE
            and (name := hides_targets(batch))
            and f"the targets (gold) as the extra {name!r}, which decoders may not see,",
            READ_TWICE: _rows(again) != rows and "other rows, or another order, when it was read twice",
            ANY_SIZE: any(rows.get(one, row) != row for one, row in alone)
            and "other rows in batches of another size",
            EPOCH: self._differing_epochs(split, purpose),
        }
        for law, text in wrong.items():
            if text:
                self.laws.broken(
                    law.strip(), f"{named(self.task.task, 'batches')} gave {text} ({split!r}, to {purpose})."
                )

    def _differing_epochs(self, split: str, purpose: Purpose) -> Fault:
        """Return how epochs differ in batches of other sizes; the empty string if they do not, or are too long."""
        few, whole = (self._ids(split, purpose, size) for size in (Size(ROWS - 1), Size(10 * WHOLE)))
        if len(whole) > WHOLE or sorted(few) == sorted(whole):
            return ""
        return f"{len(few)} examples an epoch in batches of {ROWS - 1}, and {len(whole)} in one batch"

    def _ids(self, split: str, purpose: Purpose, size: Size) -> list[int]:
        ids: list[int] = []
        for batch in self.task.batches(split, purpose, size):
            ids += batch.ids.tolist()
            if len(ids) > WHOLE:
                break
        return ids

    def _at_purposes(self, split: str, found: Mapping[Purpose, Mapping[int, Row]]) -> None:
        """Check that an example has the same number for every purpose."""
        first, *others = found.values() if found else [dict[int, Row]()]
        for rows in others:
            if first != rows and sorted(first.values()) == sorted(rows.values()):
                text: Fault = f"gave the same examples of {split!r} other ids for another purpose."
                self.laws.broken(IDS, f"{named(self.task.task, 'batches')} {text}")

    def _at_references(self, split: str) -> None:
        """Check that the targets of examples are not references of other examples alone."""
        batch = next(iter(self.task.batches(split, Purpose.DECODE, Size(REFERENCES))))
        known, own, others = self.task.references(split), 0, 0
        targets = {
            example: self.task.text([token for token in gold[:length] if token != STOP])
            for example, gold, length in zip(
                batch.ids.tolist(), batch.gold.tolist(), batch.length.tolist(), strict=True
            )
        }
        every = {text for example in targets for text in known.get(example, ())}
        for example, target in targets.items():
            fits = target in known.get(example, ())
            own, others = own + fits, others + (not fits and target in every)
        if own == 0 and others > len(targets) / 2 > 1:
            self.laws.broken(
                REFERRED,
                f"{named(self.task.task, 'references')} has the targets of {others} of {len(targets)} examples of "
                f"{split!r} as references of other examples, and of none as its own.",
            )

    def overlap(self, warn: Callable[[str], None]) -> dict[str, dict[str, int]]:
        """Return by split how many examples it has, how many are repeated, and how many are in the training split.

        Warns above one in a hundred. Of streams there is nothing to count.
        """
        train, found = set[int](), dict[str, dict[str, int]]()
        for split in SPLITS:
            try:
                rows = self._hashes(split)
            except Exception:  # as above
                continue
            if not rows:
                continue
            shared, repeated = sum(row in train for row in rows), len(rows) - len({*rows})
            found[split] = {"examples": len(rows), "repeated": repeated, "in train": shared}
            if split == "train":
                train = {*rows}
                continue
            for number, what in ((repeated, "repeated"), (shared, "shared with 'train'")):
                if number > MANY * len(rows):
                    text: Fault = f"{number:,} of {len(rows):,} examples of {split!r} are {what}."
                    warn(f"{named(self.task.task, 'batches')}: {text}")
        return found

    def _hashes(self, split: str) -> list[int]:
        kinds = self.task.config.purposes(split)
        purpose = next((one for one in (Purpose.SCORE, Purpose.DECODE, Purpose.TRAIN) if one in kinds), None)
        if purpose is None or self._is_stream(split):
            return []
        batches = self.task.batches(split, purpose, Size(512))
        return [hash(row) for batch in batches for row in _rows(batch).values()]

    def _is_stream(self, split: str) -> bool:
        """Return whether rows are windows of a stream, without beginning or end."""
        kinds = self.task.config.purposes(split)
        with suppress(Exception):  # as above
            first = (islice(self.task.batches(split, one, Size(ROWS)), 3) for one in kinds)
            return any(batch.continues for batches in first for batch in batches)
        return False


def _rows(batch: Batch) -> dict[int, Row]:
    """Return what a batch says of each example, without padding."""
    return dict(_each(batch))


def _each(batch: Batch) -> Iterator[tuple[int, Row]]:
    rows, source, ends = len(batch), batch.source, batch.source_length
    lengths = zip(batch.length.tolist(), [None] * rows if ends is None else ends.tolist(), strict=True)
    values = zip(batch.ids.tolist(), batch.opening.numpy(), batch.gold.numpy(), lengths, strict=True)
    for place, (example, opening, gold, (length, end)) in enumerate(values):
        given = b"" if source is None else source[place, :end].numpy().tobytes()
        yield example, (opening.tobytes(), gold[:length].tobytes(), given)


def _files(folder: Path) -> dict[str, bytes]:
    found = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {str(path.relative_to(folder)): blake2b(path.read_bytes()).digest() for path in found}
