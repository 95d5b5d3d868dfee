"""What is valid of invalid settings is read, and what needs the rest says nothing."""

from __future__ import annotations

from abc import abstractmethod
from typing import Annotated, Literal, Self

import pytest
from pydantic import BeforeValidator, Field, PositiveInt, field_validator, model_validator

from bench_core.config import Settings
from bench_core.suites.yaml_source import parse
from placed_settings import Problems, Unreadable, listing, objections
from placed_settings.partial import partial


class Inner(Settings):
    low: int = 0
    high: int = 9

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.low > self.high:
            raise ValueError("low must not be above high")
        return self


class Word(Settings):
    kind: Literal["word"]
    least: PositiveInt = 1


class Piece(Settings):
    kind: Literal["piece"]
    merges: PositiveInt = 100


class Shape(Settings):
    @abstractmethod
    def area(self) -> int: ...


class Square(Shape):
    side: PositiveInt = 1

    def area(self) -> int:
        return self.side**2


class Whole(Settings):
    size: PositiveInt = 1
    share: float = Field(0.5, ge=0, le=1)
    name: str
    shape: Annotated[Shape, BeforeValidator(Square.model_validate)] = Square()
    inner: Inner = Inner()
    several: tuple[Inner, ...] = ()
    unit: Annotated[Word | Piece, Field(discriminator="kind")] = Word(kind="word")
    either: int | list[int] = 3

    @field_validator("share")
    @classmethod
    def _not_a_third(cls, share: float) -> float:
        if share == 0.3:
            raise ValueError("a third is not 0.3")
        return share

    @model_validator(mode="after")
    def _small(self) -> Self:
        if self.size > 100:
            raise ValueError("too large")
        return self

    @model_validator(mode="after")
    def _named_by_size(self) -> Self:
        if self.name != "x" * self.size:
            raise ValueError("the name does not fit the size")
        return self


def problems(text):
    """Return the problems of settings at `whole:`, each without the file."""
    source = parse(text, "S")
    found = Problems(source)
    whole = found.parsed(Whole, source.data["whole"], ("whole",))
    return whole, [line.removeprefix("S:") for line in listing(found.messages)[: len(found.messages)]]


def test_what_is_valid_is_read_and_the_rest_cannot_be():
    found = partial(Whole, {"size": "many", "share": 0.2, "name": "a"}, {"size"})
    assert isinstance(found, Whole)
    assert (found.share, found.name, found.inner) == (0.2, "a", Inner())
    with pytest.raises(Unreadable):
        _ = found.size
    assert not hasattr(found, "size")


def test_nothing_is_read_of_what_is_no_mapping():
    found = partial(Whole, 3, set())
    assert not [name for name in Whole.model_fields if hasattr(found, name)]


def test_every_validator_of_the_whole_is_heard_and_those_that_need_what_is_invalid_are_silent():
    both = partial(Whole, {"size": 200, "name": "a"}, set())
    assert [*objections(Whole, both)] == ["too large", "the name does not fit the size"]
    assert [*objections(Whole, partial(Whole, {"size": "x", "name": "a"}, {"size"}))] == []
    assert [*objections(Whole, partial(Whole, {"size": 200, "name": 3}, {"name"}))] == ["too large"]


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("{size: 200, name: a}", ["1:1: 'whole': the name does not fit the size.", "1:1: 'whole': too large."]),
        (
            "{size: 200, nmae: a}",
            ["1:1: 'whole': too large.", "1:1: the key 'name' is missing.", "1:20: unknown key"],
        ),
        ("{name: x, share: 0.3, size: no}", ["1:18: 'share': a third is not 0.3", "1:30: 'size' must be a whole"]),
        (
            "{name: x, inner: {low: 5, high: 2, hgih: 1}}",
            ["1:18: 'inner': low must not be", "1:43: unknown key 'hgih'"],
        ),
        ("{name: x, several: [{low: a}, {low: 3, high: 1}]}", ["1:29: 'low' must be", "1:38: low must not be above"]),
        ("{name: x, unit: {kind: piece, mergs: 3}}", ["1:38: unknown key 'mergs'. Did you mean 'merges'?"]),
        ("{name: x, unit: {kind: peice}}", ["1:18: 'unit': unknown value 'peice'. Did you mean 'piece'?"]),
        ("{name: x, either: b}", ["1:11: 'either' must be a whole number or a list (found 'b')."]),
        ("{name: x, either: [1, b]}", ["1:30: an entry of 'either' must be a whole number (found 'b')."]),
        ("{name: x, shape: {side: a}}", ["1:26: 'side' must be a whole number (found 'a')."]),
        ("{name: x, share: 2}", ["1:18: 'share' must be at most 1 (found 2)."]),
        ("{name: x, share: .inf}", ["1:18: 'share' must be a finite number"]),
        ("3", ["1:1: 'whole' must be a mapping (found 3)."]),
    ],
)
def test_all_problems_of_settings_are_told_in_plain_words(text, lines):
    _, found = problems(f"whole: {text}")
    assert len(found) == len(lines), found
    for line, expected in zip(found, lines, strict=True):
        _, _, words = expected.partition(": ")
        assert words in line, found


def test_problems_inside_leave_the_rest_of_a_mapping_readable():
    whole, _ = problems("whole: {name: x, inner: {low: no, high: 4}, several: [{low: 1}, {low: no}]}")
    assert whole.inner.high == 4
    assert [one.high for one in whole.several] == [9, 9]
    assert not hasattr(whole.inner, "low")
