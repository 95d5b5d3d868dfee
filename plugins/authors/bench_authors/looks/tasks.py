"""Reads a prepared task again: an example must be the same each time, in any batch and for every purpose."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from hashlib import blake2b
from itertools import islice
from pathlib import Path

from bench_core.computing.guarded_tasks import CheckedTask
from bench_core.computing.laws import BrokenLaw, Laws
from bench_core.computing.overlap import SPLITS, Row, is_stream, rows_by_id
from bench_core.computing.result_checks import named
from bench_core.data import STOP, Batch, Purpose, TaskInfo
from bench_core.errors import Fault
from bench_core.task import Size, Split

MAX_ROWS = 8  #: rows of each split and purpose to read again
REFERENCES = 64  #: rows whose references are compared with targets
MAX_COUNTED_EXAMPLES = 2_000  #: maximum number of examples in epochs that are compared
BATCH_SIZES = (7, 97)  #: batch sizes whose epochs are compared

TWICE, ENDS, HIDDEN = "prepared_twice_it_is_the_same", "targets_end_with_stop", "targets_are_hidden_from_decoders"
READ_TWICE, ANY_SIZE = "read_twice_it_is_the_same", "a_row_is_the_same_in_any_batch"
EPOCH = "an_epoch_covers_each_example_once"
IDS, REFERRED = "the_same_rows_have_the_same_ids", "references_belong_to_their_example"


@dataclass(frozen=True)
class TaskLook:
    """Reads a prepared task again, and checks that it is the same."""

    task: CheckedTask
    laws: Laws
    splits: Sequence[Split] = SPLITS

    def prepared_again(self, info: TaskInfo, other: TaskInfo, folder: Path) -> None:
        """Raise PluginError unless a second preparation, in `folder`, gave the same task info and files."""
        values, other_values = asdict(info), asdict(other)
        files = digests(self.task.folder), digests(folder)
        differing = [name for name, value in values.items() if other_values[name] != value]
        differing += [name for name in {**files[0], **files[1]} if files[0].get(name) != files[1].get(name)]
        if differing:
            self.laws.broken(
                TWICE,
                f"{named(self.task.task, 'prepare')} gave other data when called again: "
                f"{', '.join(differing[:3])} differ; prepared data must depend only on settings and corpora.",
            )

    def at_examples(self) -> None:
        """Raise PluginError if examples differ between readings, batch sizes or purposes; streams are not checked."""
        for split in self.splits if not any(is_stream(self.task, split) for split in self.splits) else ():
            try:
                self._at_split(split)
            except BrokenLaw:
                raise
            except Exception:  # the suite might not use this split
                continue

    def _at_split(self, split: str) -> None:
        rows_by_purpose: dict[Purpose, dict[int, Row]] = {}
        for purpose in sorted(self.task.config.purposes(split)):
            batch = next(iter(self.task.batches(split, purpose, Size(MAX_ROWS))), None)
            if batch is not None:
                rows_by_purpose[purpose] = rows_by_id(batch)
                self._at_batch(batch, rows_by_purpose[purpose], split, purpose)
        self._at_purposes(split, rows_by_purpose)
        if Purpose.DECODE in rows_by_purpose:
            self._at_references(split)

    def _at_batch(self, batch: Batch, rows: Mapping[int, Row], split: str, purpose: Purpose) -> None:
        again = next(iter(self.task.batches(split, purpose, Size(MAX_ROWS))))
        single = islice(self.task.batches(split, purpose, Size(1)), MAX_ROWS)
        other = any(rows.get(example, row) != row for few in single for example, row in rows_by_id(few).items())
        hidden = hides_targets(batch) if purpose is Purpose.DECODE else ""
        ends = batch.gold.gather(1, batch.length[:, None] - 1)
        checks = [
            (ENDS, "a target without EOS at the end of its `length`", bool((ends != STOP).any())),
            (ENDS, "`gold` padded with tokens other than EOS", bool((batch.gold[~batch.mask] != STOP).any())),
            (HIDDEN, f"the targets (`gold`) as the extra {hidden!r}, which decoders must not see,", bool(hidden)),
            (READ_TWICE, "other rows, or another order, when read twice", rows_by_id(again) != rows),
            (ANY_SIZE, "other rows in batches of another size", other),
            (EPOCH, epochs := self._differing_epochs(split, purpose), bool(epochs)),
        ]
        for law, text, wrong in checks:
            if wrong:
                where = f"({split!r}, to {purpose})"
                self.laws.broken(law, f"{named(self.task.task, 'batches')} gave {text} {where}.")

    def _differing_epochs(self, split: str, purpose: Purpose) -> Fault:
        """Return how epochs differ between batch sizes; empty if they do not differ or are too long."""
        few, many = (self._ids(split, purpose, Size(size)) for size in BATCH_SIZES)
        if max(len(few), len(many)) > MAX_COUNTED_EXAMPLES or sorted(few) == sorted(many):
            return ""
        return (
            f"different epochs: {len(few)} examples in batches of {BATCH_SIZES[0]}, "
            f"{len(many)} in batches of {BATCH_SIZES[1]}"
        )

    def _ids(self, split: str, purpose: Purpose, size: Size) -> list[int]:
        ids: list[int] = []
        for batch in self.task.batches(split, purpose, size):
            ids += batch.ids.tolist()
            if len(ids) > MAX_COUNTED_EXAMPLES:
                break
        return ids

    def _at_purposes(self, split: str, rows_by_purpose: Mapping[Purpose, Mapping[int, Row]]) -> None:
        """Check that an example has the same id for every purpose."""
        first, *others = rows_by_purpose.values() if rows_by_purpose else [dict[int, Row]()]
        for rows in others:
            if first != rows and sorted(first.values()) == sorted(rows.values()):
                text: Fault = f"gave the same examples of {split!r} different ids for different purposes."
                self.laws.broken(IDS, f"{named(self.task.task, 'batches')} {text}")

    def _at_references(self, split: str) -> None:
        """Raise PluginError if no target is a reference of its own example, but most are references of others."""
        batch = next(iter(self.task.batches(split, Purpose.DECODE, Size(REFERENCES))))
        known, matches, errors = self.task.references(split), 0, 0
        rows = zip(batch.ids.tolist(), batch.gold.tolist(), batch.length.tolist(), strict=True)
        targets = {
            example: self.task.text([token for token in gold[:length] if token != STOP])
            for example, gold, length in rows
        }
        every = {text for example in targets for text in known.get(example, ())}
        for example, target in targets.items():
            fits = target in known.get(example, ())
            matches, errors = matches + fits, errors + (not fits and target in every)
        if matches == 0 and errors > len(targets) / 2 > 1:
            self.laws.broken(
                REFERRED,
                f"{named(self.task.task, 'references')} lists the targets of {errors} of {len(targets)} examples of "
                f"{split!r} as references of other examples, but no target as a reference of its own example.",
            )


def digests(folder: Path) -> dict[str, bytes]:
    """Return the digests of the files in a folder by relative path."""
    paths = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {str(path.relative_to(folder)): blake2b(path.read_bytes()).digest() for path in paths}


def hides_targets(batch: Batch) -> Fault:
    """Return the name of an extra that holds the targets of a batch, or the empty string."""
    for name, tensor in batch.extras.items():
        same = tensor.shape == batch.gold.shape and bool((tensor == batch.gold)[batch.mask].all())
        if same and bool((batch.gold[batch.mask] != STOP).any()):
            return name
    return ""


LOOK = TaskLook  #: the second look at tasks
