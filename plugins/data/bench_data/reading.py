"""Converts the records of a split to examples: meaning of fields, selection of records, and errors."""

from collections.abc import Iterator, Mapping
from math import isfinite
from typing import Any, Literal

from bench_core import DataError, Purpose, Split
from bench_data import data_sets, records, test_sets
from bench_data.plugin import DataTaskConfig
from bench_data.records import DataRecord
from bench_data.settings import AlignedFiles, RecordFields, RecordFiles, TestSet
from bench_data.templates import FieldError, as_text, fill, names, value
from bench_text.api import SPLITS, Example

ALL, DECODE_ONLY = frozenset(Purpose), frozenset({Purpose.DECODE})
HUNDRED = 100  # number of records or groups of which a split may use a share


class RecordReader:
    """Reads the records of a split, and counts those excluded by `empty: drop`."""

    def __init__(self, split: Split, config: DataTaskConfig, given: Literal["source", "prompt"]) -> None:
        """Use the input text of an example as its source or as its prompt, as `given` says."""
        self.split, self.given = split, given
        self.origin, self.empty = config.data.origins[split], config.empty
        self.fields: RecordFields = config.fields_of(split)
        self.dropped = 0
        self._places: dict[str, str] = {}  # id -> place
        self._groups: dict[str, int] = {}  # group -> number in order of appearance

    def examples(self) -> Iterator[Example]:
        """Yield an example for each selected record; raise DataError that names the place of an error."""
        number = -1
        for record in self._records():
            try:
                if not self._is_selected(record):
                    continue
                number += 1
                example = self._example(record) if self._is_in_share(record, number) else None
            except FieldError as error:
                place = record.places.get(error.field, record.place)
                raise DataError(f"{place} {error}. Correct it, or the settings of the task.") from None
            if example is not None:
                yield example
        if number < 0:
            wanted = f" selected by `where: {self.origin.where}`" if self.origin.where else ""
            files = f" ({', '.join(map(str, self.origin.files))})" if isinstance(self.origin, RecordFiles) else ""
            key = self.split if self.split in SPLITS else f"tests: {self.split}"
            raise DataError(f"the data of {self.split}{files} have no records{wanted}. Correct `data: {key}:`.")

    def _records(self) -> Iterator[DataRecord]:
        if isinstance(self.origin, AlignedFiles):
            return records.side_by_side(self.origin)
        if isinstance(self.origin, TestSet):
            return test_sets.rows(self.origin)
        used = [name for template in self._templates() for name in names(template)]
        wanted = [*used, *([self.fields.weight] if self.fields.weight else []), *self.origin.where]
        if not isinstance(self.origin, RecordFiles):
            return data_sets.rows(self.origin, wanted)
        return (record for path in self.origin.files for record in records.of_file(path, wanted))

    def _templates(self) -> Iterator[str]:
        """Yield the templates to fill."""
        fields = self.fields
        given = [fields.source, fields.prompt, fields.id, fields.group, *(fields.references or ())]
        yield from filter(None, [*given, fields.target if self.origin.targets else None])

    def _is_selected(self, record: DataRecord) -> bool:
        for name, wanted in self.origin.where.items():
            if as_text(value(record.values, name), name) not in ([wanted] if isinstance(wanted, str) else wanted):
                return False
        return True

    def _is_in_share(self, record: DataRecord, number: int) -> bool:
        """Return whether a record, or its group, is in the share of the split."""
        if self.origin.share is None:
            return True
        if self.fields.group:
            number = self._groups.setdefault(fill(record.values, self.fields.group), len(self._groups))
        low, high = self.origin.share
        return bool(low <= number % HUNDRED < high)

    def _example(self, record: DataRecord) -> Example | None:
        """Return the example of a record; None if it is excluded because of a blank text."""
        values, fields, has_target = record.values, self.fields, self.origin.targets
        template = fields.source or fields.prompt
        given = fill(values, template) if template else None
        target = fill(values, fields.target) if has_target and fields.target else ""
        blank = [
            name
            for name, text in ((template, given), (fields.target if has_target else None, target))
            if name is not None and text is not None and not text.strip()
        ]
        if blank and self._leaves_out(blank[0]):
            return None
        example = Example(
            None,
            target,
            self._references(record, target),
            self._weight(values),
            purposes=ALL if has_target else DECODE_ONLY,
            name=self._name(record),
            group=fill(values, fields.group) if fields.group else None,
        )
        return example if given is None else example._replace(**{self.given: given})  # type: ignore[arg-type]

    def _leaves_out(self, name: str) -> bool:
        """Return whether a record with a blank text is excluded; raise FieldError if blank texts are errors."""
        if self.empty == "drop" and self.split == "train":
            self.dropped += 1
            return True
        if self.empty == "keep":
            return False
        advice = " or `empty: drop`" if self.split == "train" else ""
        raise FieldError(f"has a blank text as {name!r}; `empty: keep`{advice} allows it", name)

    def _references(self, record: DataRecord, target: str) -> list[str]:
        """Return the reference texts, the target first if it is among them."""
        if self.fields.references is None:
            default = [target] if self.origin.targets else []
            return [*default, *(text for text in record.references if text.strip())]
        texts = [text for template in self.fields.references for text in _texts(record.values, template)]
        if self.empty != "keep" and not all(text.strip() for text in texts):
            raise FieldError("has a blank text among its references; `empty: keep` allows it")
        return sorted(texts, key=lambda text: text != target)

    def _name(self, record: DataRecord) -> str | None:
        """Return the id of a record; raise FieldError if it is blank or a duplicate."""
        if not self.fields.id:
            return None
        name = fill(record.values, self.fields.id)
        if not name.strip():
            raise FieldError(f"has a blank id in {self.fields.id!r}")
        if name in self._places:
            raise FieldError(f"has the id {name!r}, which is also the id of {self._places[name]}")
        self._places[name] = record.place
        return name

    def _weight(self, values: Mapping[str, Any]) -> float:
        """Return the weight of a record; raise FieldError unless it is finite and at least 0."""
        if not self.fields.weight:
            return 1.0
        number = value(values, self.fields.weight)
        try:
            weight = float(number) if isinstance(number, int | float | str) and not isinstance(number, bool) else -1.0
        except (ValueError, OverflowError):
            weight = -1.0
        if not (isfinite(weight) and weight >= 0):
            raise FieldError(f"has {number!r:.60} as {self.fields.weight!r}, which must be a finite number from 0")
        return weight


def _texts(values: Mapping[str, Any], template: str) -> list[str]:
    """Return the texts of a list field, or the text of a template; raise FieldError for values that are not text."""
    texts = value(values, template) if names(template) == [template] else None
    if not isinstance(texts, list):
        return [fill(values, template)]
    if not texts:
        raise FieldError(f"has an empty list as {template!r}, so it has no reference")
    return [as_text(text, template) for text in texts]
