"""Sample logs of lm-evaluation-harness: JSON lines with `doc_id`, `arguments`, `resps` and `filtered_resps`."""

from collections.abc import Mapping
from typing import Any

from bench_recorded.plugin import Fields
from bench_recorded.reading.json_records import MISSING, lacks, named, objects, shown, text, value
from bench_recorded.reading.records import Output, OutputFile, Record


def harness_records(file: OutputFile, fields: Fields, chosen: str | None) -> list[Record]:
    """Return the outputs of each document; raise DataError for a task without texts, such as of multiple choice.

    A log has each document once for every filter, of which `chosen` is taken.
    """
    lines = [*objects(file, fields)]
    filters = list(dict.fromkeys(str(found["filter"]) for _, found in lines if "filter" in found))
    if chosen is None and len(filters) > 1:
        raise file.error(1, f"begins the log of several filters. Choose one by `filter`: {', '.join(filters)}.")
    if chosen is not None and chosen not in filters:
        raise file.error(1, f"begins a log without the filter {chosen!r}; it has {', '.join(filters) or 'none'}.")
    taken = [(line, found) for line, found in lines if chosen is None or str(found.get("filter")) == chosen]
    return [_record(file, line, found, fields) for line, found in taken]


def _record(file: OutputFile, line: int, found: Mapping[str, Any], fields: Fields) -> Record:
    name, output = fields.id or "doc_id", fields.output or "filtered_resps"
    identity, given = named(file, line, found, name), value(found, output)
    if identity is None or given is MISSING:
        raise lacks(file, line, found, [one for one in (name, output) if value(found, one) in (MISSING, None)])
    texts = _texts(file, line, given, output)
    prompt = value(found, fields.prompt) if fields.prompt else _prompt(found.get("arguments"))
    known = text(file, line, prompt, "prompt") if isinstance(prompt, str) else None
    return Record(line, [Output(one) for one in texts], identity, known)


def _texts(file: OutputFile, line: int, given: Any, name: str) -> list[str]:
    """Return the answers to the one request of a document, of which each may have been repeated."""
    if isinstance(given, str):
        return [text(file, line, given, name)]
    flat = [one for each in given for one in (each if isinstance(each, list) else [each])] if given else []
    if not isinstance(given, list) or not flat or not all(isinstance(one, str) for one in flat):
        raise file.error(
            line,
            f"has {shown(given)} in {name!r}: no generated texts. Logs of `output_type: generate_until` have them, "
            "those of likelihoods do not.",
        )
    return [text(file, line, one, name) for one in flat]


def _prompt(arguments: Any) -> object:
    """Return the prompt of the first request."""
    if isinstance(arguments, Mapping):  # {"gen_args_0": {"arg_0": PROMPT, "arg_1": {...}}}
        first = next(iter(arguments.values()), None)
        return first.get("arg_0") if isinstance(first, Mapping) else None
    first = arguments[0] if isinstance(arguments, list) and arguments else None  # [[PROMPT, {...}]]
    return first[0] if isinstance(first, list) and first else None
