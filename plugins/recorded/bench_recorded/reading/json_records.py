"""JSON lines, JSON lists and tables: an object per example, with an `output` or several `outputs`."""

import json
from collections.abc import Iterator, Mapping, Sequence
from math import isfinite
from typing import Any

from bench_data.api import numbered_records
from bench_recorded.plugin import Fields
from bench_recorded.reading.records import Output, OutputFile, OutputRecord
from bench_text.api import once

MISSING = object()  # value of missing fields
LISTS, TABLES = ("json", "coco"), ("csv", "tsv", "parquet")  # formats


def json_records(file: OutputFile, fields: Fields) -> list[OutputRecord]:
    """Return the outputs of each example; raise DataError, with the line, if an example has no output."""
    return [_record(file, line, entry, fields) for line, entry in objects(file, fields)]


def objects(file: OutputFile, fields: Fields) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the object of each example with its line, row or index; raise DataError for values other than objects.

    Blank table cells count as missing fields, except for outputs.
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
    """Yield the number and the object of each line that is not blank."""
    for number, line in enumerate(file.lines, 1):
        if not line.strip():
            continue
        try:
            entry = json.loads(line, object_pairs_hook=once)
        except (ValueError, RecursionError) as error:
            raise file.error(number, f"is not JSON: {error}. Each line must be an object.") from None
        if not isinstance(entry, dict):
            raise file.error(number, f'is {preview(entry)}, not an object such as {{"output": "a text"}}.')
        yield number, entry


def value(entry: Mapping[str, Any], name: str) -> Any:
    """Return a field, nested if its name has dots; MISSING if it does not exist."""
    if name in entry:
        return entry[name]
    first, dot, rest = name.partition(".")
    inner = entry.get(first)
    return value(inner, rest) if dot and isinstance(inner, Mapping) else MISSING


def read_id(file: OutputFile, line: int, entry: Mapping[str, Any], name: str) -> str | None:
    """Return an id (a string or an integer) as a string, or None if it is missing."""
    identity = value(entry, name)
    if identity is MISSING or identity is None:
        return None
    if isinstance(identity, str) or type(identity) is int:
        return str(identity)
    raise file.error(line, f"has {name} {preview(identity)}. An id must be a string or an integer.")


def text(file: OutputFile, line: int, value: Any, name: str) -> str:
    """Return a string, or a number or Boolean as JSON; raise DataError for any other value."""
    if isinstance(value, bool | int | float) and isfinite(value):
        return json.dumps(value)
    if not isinstance(value, str):
        raise file.error(line, f'has {preview(value)} in {name!r}, which is not text. Write empty outputs as "".')
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        raise file.error(line, f"has an unpaired surrogate in {name!r}. Write the character as UTF-8.") from None
    return value


def lacks(file: OutputFile, line: int, entry: Mapping[str, Any], names: Sequence[str]) -> Exception:
    """Return an error for missing fields."""
    known = ", ".join(map(repr, entry)) or "no fields"
    return file.error(
        line, f"has no {' and no '.join(map(repr, names))}; it has {known}. Set other names under `fields`."
    )


def preview(value: object) -> str:
    """Return a value as JSON, truncated to 60 characters."""
    content = json.dumps(value)
    return content if len(content) <= 60 else f"{content[:60]}..."


def _record(file: OutputFile, line: int, entry: Mapping[str, Any], fields: Fields) -> OutputRecord:
    key, prompt = read_id(file, line, entry, fields.id or "id"), value(entry, fields.prompt or "prompt")
    outputs = _outputs(file, line, entry, fields)
    return OutputRecord(line, outputs, key, None if prompt in (MISSING, None) else text(file, line, prompt, "prompt"))


def _outputs(file: OutputFile, line: int, entry: Mapping[str, Any], fields: Fields) -> list[Output]:
    name = fields.output or "output"
    single, several = value(entry, name), value(entry, fields.outputs)
    log_probs, tokens = value(entry, fields.log_prob), value(entry, fields.tokens)
    if single is not MISSING:
        texts, log_probs, tokens = [text(file, line, single, name)], [log_probs], [tokens]
    elif isinstance(several, list) and several:
        texts = [text(file, line, each, fields.outputs) for each in several]
        log_probs = _per_output(file, line, texts, log_probs, fields.log_prob)
        tokens = _per_output(file, line, texts, tokens, fields.tokens)
    elif several is not MISSING:
        raise file.error(line, f"has {preview(several)} in {fields.outputs!r}, not a list of one or more texts.")
    else:
        raise lacks(file, line, entry, [name, fields.outputs])
    return [
        Output(each, _log_prob(file, line, log_prob, fields), _tokens(file, line, number, fields))
        for each, log_prob, number in zip(texts, log_probs, tokens, strict=True)
    ]


def _per_output(file: OutputFile, line: int, texts: Sequence[str], values: Any, name: str) -> list[Any]:
    """Return the values of a field, one for each of several outputs."""
    if values in (MISSING, None):
        return [MISSING] * len(texts)
    if not isinstance(values, list) or len(values) != len(texts):
        raise file.error(line, f"has {len(texts)} outputs, but {preview(values)} in {name!r}, not a matching list.")
    return values


def _log_prob(file: OutputFile, line: int, log_prob: Any, fields: Fields) -> float | None:
    return None if log_prob in (MISSING, None) else file.log_prob(log_prob, line, fields.log_prob)


def _tokens(file: OutputFile, line: int, tokens: Any, fields: Fields) -> int:
    if tokens in (MISSING, None):
        return -1
    if isinstance(tokens, list):
        return len(tokens)
    if (type(tokens) is int and tokens >= 0) or (isinstance(tokens, str) and tokens.isdecimal()):  # a table cell
        return int(tokens)
    raise file.error(line, f"has {preview(tokens)} in {fields.tokens!r}, not a list of tokens or their number.")
