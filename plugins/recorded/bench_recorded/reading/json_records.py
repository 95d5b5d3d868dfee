"""An object for each example, with an `output` or several `outputs`: JSON lines, lists, and rows of tables."""

import json
from collections.abc import Iterator, Mapping, Sequence
from math import isfinite
from typing import Any

from bench_data.api import numbered_records
from bench_recorded.plugin import Fields
from bench_recorded.reading.records import Output, OutputFile, Record
from bench_text.api import once

MISSING = object()  # what a field that is not there has
LISTS, TABLES = ("json", "coco"), ("csv", "tsv", "parquet")  # formats


def json_records(file: OutputFile, fields: Fields) -> list[Record]:
    """Return the outputs of each example; raise DataError, with the line, where one has none."""
    return [_record(file, line, found, fields) for line, found in objects(file, fields)]


def objects(file: OutputFile, fields: Fields) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the number and the object of each example; raise DataError for what is no object.

    Blank cells of tables are none, unless they are outputs.
    """
    if file.format in LISTS:
        yield from numbered_records(file.path, ".json")
    elif file.format in TABLES:
        output = fields.output or "output"
        for number, row in numbered_records(file.path, f".{file.format}"):
            yield number, {name: cell for name, cell in row.items() if cell not in ("", None) or name == output}
    else:
        yield from _object_lines(file)


def _object_lines(file: OutputFile) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the number and the object of each line that is not empty."""
    for number, line in enumerate(file.lines, 1):
        if not line.strip():
            continue
        try:
            found = json.loads(line, object_pairs_hook=once)
        except (ValueError, RecursionError) as error:
            raise file.error(number, f"is not JSON: {error}. Each line is an object.") from None
        if not isinstance(found, dict):
            raise file.error(number, f"is {shown(found)}. Each line is an object, such as {{'output': 'a text'}}.")
        yield number, found


def value(found: Mapping[str, Any], name: str) -> Any:
    """Return a field, or one inside of others if its name has dots; MISSING if it is not there."""
    if name in found:
        return found[name]
    first, dot, rest = name.partition(".")
    inner = found.get(first)
    return value(inner, rest) if dot and isinstance(inner, Mapping) else MISSING


def named(file: OutputFile, line: int, found: Mapping[str, Any], name: str) -> str | None:
    """Return an id, which is a text or a whole number; None if there is none."""
    one = value(found, name)
    if one is MISSING or one is None:
        return None
    if isinstance(one, str) or type(one) is int:
        return str(one)
    raise file.error(line, f"has the {name} {shown(one)}; an id is a text or a whole number.")


def text(file: OutputFile, line: int, one: Any, name: str) -> str:
    """Return a text, or a number or truth value as JSON writes it; raise DataError for anything else."""
    if isinstance(one, bool | int | float) and isfinite(one):
        return json.dumps(one)
    if not isinstance(one, str):
        raise file.error(line, f"has {shown(one)} in {name!r}, which is no text. An empty output is an empty text.")
    try:
        one.encode("utf-8")
    except UnicodeEncodeError:
        raise file.error(line, f"has half of a surrogate pair in {name!r}. Write it as UTF-8.") from None
    return one


def lacks(file: OutputFile, line: int, found: Mapping[str, Any], names: Sequence[str]) -> Exception:
    """Return the error that a line lacks fields."""
    known = ", ".join(map(repr, found)) or "no field"
    return file.error(
        line, f"has no {' and no '.join(map(repr, names))}; it has {known}. Name others under `fields`."
    )


def shown(one: object) -> str:
    """Return a value as JSON, cut short."""
    found = json.dumps(one)
    return found if len(found) <= 60 else f"{found[:60]}..."


def _record(file: OutputFile, line: int, found: Mapping[str, Any], fields: Fields) -> Record:
    name, prompt = named(file, line, found, fields.id or "id"), value(found, fields.prompt or "prompt")
    outputs = _outputs(file, line, found, fields)
    return Record(line, outputs, name, None if prompt in (MISSING, None) else text(file, line, prompt, "prompt"))


def _outputs(file: OutputFile, line: int, found: Mapping[str, Any], fields: Fields) -> list[Output]:
    single = fields.output or "output"
    one, several = value(found, single), value(found, fields.outputs)
    log_probs, tokens = value(found, fields.log_prob), value(found, fields.tokens)
    if one is not MISSING:
        texts, log_probs, tokens = [text(file, line, one, single)], [log_probs], [tokens]
    elif isinstance(several, list) and several:
        texts = [text(file, line, each, fields.outputs) for each in several]
        log_probs = _beside(file, line, texts, log_probs, fields.log_prob)
        tokens = _beside(file, line, texts, tokens, fields.tokens)
    elif several is not MISSING:
        raise file.error(line, f"has {shown(several)} in {fields.outputs!r}; it is a list of texts, at least one.")
    else:
        raise lacks(file, line, found, [single, fields.outputs])
    return [
        Output(each, _log_prob(file, line, log_prob, fields), _tokens(file, line, number, fields))
        for each, log_prob, number in zip(texts, log_probs, tokens, strict=True)
    ]


def _beside(file: OutputFile, line: int, texts: Sequence[str], found: Any, name: str) -> list[Any]:
    """Return what stands beside each of several outputs."""
    if found in (MISSING, None):
        return [MISSING] * len(texts)
    if not isinstance(found, list) or len(found) != len(texts):
        raise file.error(line, f"has {len(texts)} outputs, and {shown(found)} in {name!r}; it is a list as long.")
    return found


def _log_prob(file: OutputFile, line: int, found: Any, fields: Fields) -> float | None:
    return None if found in (MISSING, None) else file.log_prob(found, line, fields.log_prob)


def _tokens(file: OutputFile, line: int, found: Any, fields: Fields) -> int:
    if found in (MISSING, None):
        return -1
    if isinstance(found, list):
        return len(found)
    if (type(found) is int and found >= 0) or (isinstance(found, str) and found.isdecimal()):  # as cells are
        return int(found)
    raise file.error(line, f"has {shown(found)} in {fields.tokens!r}; it is a list of tokens, or how many they are.")
