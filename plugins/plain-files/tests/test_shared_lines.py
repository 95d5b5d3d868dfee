"""Lines that share values come back as they were, take little room, and damaged files are refused."""

from __future__ import annotations

import gzip
import json
import random

import pytest

from plain_files import read_shared, shared_lines, write_shared

NAMES = ("inside", "$", "value", "a", "")


def drawn(choice, depth=4):
    """Return random data as JSON has it, with names that mean something to the format."""
    kind = choice.randrange(6 if depth else 3)
    if kind < 3:
        return choice.choice([None, True, -3, 2.5, "", "$", "é" * 70, {"$": choice.randrange(3)}])
    inside = [drawn(choice, depth - 1) for _ in range(choice.randrange(5))]
    return inside if kind == 3 else dict(zip(choice.sample(NAMES, len(NAMES)), inside, strict=False))


@pytest.mark.parametrize("seed", range(40))
def test_what_was_written_is_read(tmp_path, seed):
    choice = random.Random(seed)
    common = [drawn(choice) for _ in range(4)]
    items = [{"key": one, "inside": choice.choice([*common, drawn(choice)])} for one in range(30)]
    write_shared(tmp_path / "file", items, {"inside"})
    assert [*read_shared(tmp_path / "file", {"inside"})] == items


def test_the_bytes_depend_on_the_items_alone_and_not_on_which_are_one_object(tmp_path):
    shared = {"words": ["a"] * 100}
    write_shared(tmp_path / "one", [{"inside": shared}] * 3, {"inside"})
    write_shared(tmp_path / "other", [{"inside": json.loads(json.dumps(shared))} for _ in range(3)], {"inside"})
    assert (tmp_path / "one").read_bytes() == (tmp_path / "other").read_bytes()


def test_a_value_of_many_lines_is_written_once(tmp_path):
    write_shared(
        tmp_path / "file", ({"row": row, "inside": {"text": "x" * 10_000}} for row in range(500)), {"inside"}
    )
    with gzip.open(tmp_path / "file") as file:
        assert len(file.read()) < 40_000


def test_a_name_of_the_format_is_refused(tmp_path):
    with pytest.raises(ValueError, match="'value'"):
        write_shared(tmp_path / "file", [{"value": 1}], ())


@pytest.mark.parametrize(
    "lines", ['{"inside":{"$":0}}', '{"inside":{"$":-1}}', '{"value":[1]}\n{"inside":{"$":1}}', "[1]", "3", "{", '{"inside":' * 3000]
)  # fmt: skip
def test_a_damaged_file_is_refused(tmp_path, lines):
    (tmp_path / "file").write_bytes(gzip.compress(lines.encode()))
    with pytest.raises(ValueError, match=r"\S"):
        [*read_shared(tmp_path / "file", {"inside"})]


def test_a_file_that_is_cut_off_or_not_packed_is_refused(tmp_path):
    write_shared(tmp_path / "file", [{"inside": list(range(1000))}], {"inside"})
    content = (tmp_path / "file").read_bytes()
    for broken in (content[:-9], content[: len(content) // 2], b"text", content[:40] + b"\0\0\0" + content[43:]):
        (tmp_path / "file").write_bytes(broken)
        with pytest.raises((ValueError, OSError)):
            [*read_shared(tmp_path / "file", {"inside"})]


def test_values_that_refer_to_each_other_do_not_grow_without_end(tmp_path, monkeypatch):
    monkeypatch.setattr(shared_lines, "MAX_LINE_SIZE", 100_000)
    lines = ['{"value":"' + "x" * 100 + '"}', *(f'{{"value":[{{"$":{row}}},{{"$":{row}}}]}}' for row in range(40))]
    (tmp_path / "file").write_bytes(gzip.compress("\n".join([*lines, '{"inside":{"$":40}}']).encode()))
    with pytest.raises(ValueError, match="too large with its references"):
        [*read_shared(tmp_path / "file", {"inside"})]
