"""Examples of the records of one split: which field is what, which records count, and what is wrong with one."""

from collections.abc import Iterator, Mapping
from math import isfinite
from typing import Any, Literal

from bench_core import DataError, Purpose, Split
from bench_data import data_sets, records, test_sets
from bench_data.plugin import DataTaskConfig
from bench_data.records import Record
from bench_data.settings import Fields, Files, Lines, TestSet
from bench_data.templates import FieldError, as_text, filled, names, value
from bench_text.api import SPLITS, Example

ALL, DECODED = frozenset(Purpose), frozenset({Purpose.DECODE})
HUNDRED = 100  # records or groups, of which a split may have a share


class Reader:
    """Reads the records of a split, and counts those that `empty: drop` leaves out."""

    def __init__(self, split: Split, config: DataTaskConfig, given: Literal["source", "prompt"]) -> None:
        """Take the text that an example is made from, where it is `given`, for its source or its prompt."""
        self.split, self.given = split, given
        self.origin, self.empty = config.data.origins[split], config.empty
        self.fields: Fields = config.completed(split)
        self.dropped = 0
        self._places: dict[str, str] = {}  # of each id
        self._groups: dict[str, int] = {}  # numbered as they come

    def examples(self) -> Iterator[Example]:
        """Yield an example of each record that is meant; raise DataError, with its place, if something is wrong."""
        number = -1
        for record in self._records():
            try:
                if not self._is_meant(record):
                    continue
                number += 1
                found = self._example(record) if self._is_in_share(record, number) else None
            except FieldError as error:
                place = record.places.get(error.field, record.place)
                raise DataError(f"{place} {error}. Correct it, or the settings of the task.") from None
            if found is not None:
                yield found
        if number < 0:
            wanted = f" that `where: {self.origin.where}` means" if self.origin.where else ""
            files = f" ({', '.join(map(str, self.origin.files))})" if isinstance(self.origin, Files) else ""
            key = self.split if self.split in SPLITS else f"tests: {self.split}"
            raise DataError(f"the data of {self.split}{files} have no records{wanted}. Correct `data: {key}:`.")

    def _records(self) -> Iterator[Record]:
        if isinstance(self.origin, Lines):
            return records.side_by_side(self.origin)
        if isinstance(self.origin, TestSet):
            return test_sets.rows(self.origin)
        used = [name for template in self._templates() for name in names(template)]
        wanted = [*used, *([self.fields.weight] if self.fields.weight else []), *self.origin.where]
        if not isinstance(self.origin, Files):
            return data_sets.rows(self.origin, wanted)
        return (record for path in self.origin.files for record in records.of_file(path, wanted))

    def _templates(self) -> Iterator[str]:
        """Yield the templates that are filled."""
        fields = self.fields
        given = [fields.source, fields.prompt, fields.id, fields.group, *(fields.references or ())]
        yield from filter(None, [*given, fields.target if self.origin.targets else None])

    def _is_meant(self, record: Record) -> bool:
        for name, wanted in self.origin.where.items():
            if as_text(value(record.values, name), name) not in ([wanted] if isinstance(wanted, str) else wanted):
                return False
        return True

    def _is_in_share(self, record: Record, number: int) -> bool:
        """Return whether a record, or its group, is in the share of the split."""
        if self.origin.share is None:
            return True
        if self.fields.group:
            number = self._groups.setdefault(filled(record.values, self.fields.group), len(self._groups))
        low, high = self.origin.share
        return bool(low <= number % HUNDRED < high)

    def _example(self, record: Record) -> Example | None:
        """Return the example of a record; None if it is left out because of a blank text."""
        values, fields, has_target = record.values, self.fields, self.origin.targets
        template = fields.source or fields.prompt
        given = filled(values, template) if template else None
        target = filled(values, fields.target) if has_target and fields.target else ""
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
            purposes=ALL if has_target else DECODED,
            name=self._name(record),
            group=filled(values, fields.group) if fields.group else None,
        )
        return example if given is None else example._replace(**{self.given: given})  # type: ignore[arg-type]

    def _leaves_out(self, name: str) -> bool:
        """Return whether a record with a blank text is left out; raise FieldError if it must not be."""
        if self.empty == "drop" and self.split == "train":
            self.dropped += 1
            return True
        if self.empty == "keep":
            return False
        advice = " or `empty: drop`" if self.split == "train" else ""
        raise FieldError(f"has a blank text as {name!r}; `empty: keep`{advice} takes such", name)

    def _references(self, record: Record, target: str) -> list[str]:
        """Return the texts that outputs are compared with, the target first if it is among them."""
        if self.fields.references is None:
            own = [target] if self.origin.targets else []
            return [*own, *(text for text in record.references if text.strip())]
        found = [text for template in self.fields.references for text in _texts(record.values, template)]
        if self.empty != "keep" and not all(text.strip() for text in found):
            raise FieldError("has a blank text among its references; `empty: keep` takes such")
        return sorted(found, key=lambda text: text != target)

    def _name(self, record: Record) -> str | None:
        """Return the id of a record; raise FieldError if it is blank, or that of another one."""
        if not self.fields.id:
            return None
        name = filled(record.values, self.fields.id)
        if not name.strip():
            raise FieldError(f"has a blank id in {self.fields.id!r}")
        if name in self._places:
            raise FieldError(f"has the id {name!r}, which {self._places[name]} has too")
        self._places[name] = record.place
        return name

    def _weight(self, values: Mapping[str, Any]) -> float:
        """Return the weight of a record; raise FieldError if it is no finite number from 0."""
        if not self.fields.weight:
            return 1.0
        found = value(values, self.fields.weight)
        try:
            weight = float(found) if isinstance(found, int | float | str) and not isinstance(found, bool) else -1.0
        except (ValueError, OverflowError):
            weight = -1.0
        if not (isfinite(weight) and weight >= 0):
            raise FieldError(f"has {found!r:.60} as {self.fields.weight!r}, which must be a finite number from 0")
        return weight


def _texts(values: Mapping[str, Any], template: str) -> list[str]:
    """Return the texts of a list that a field has, or the one that a template makes; raise FieldError for no text."""
    found = value(values, template) if names(template) == [template] else None
    if not isinstance(found, list):
        return [filled(values, template)]
    if not found:
        raise FieldError(f"has an empty list as {template!r}, and so no reference")
    return [as_text(one, template) for one in found]
