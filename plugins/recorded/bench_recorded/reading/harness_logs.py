"""Sample logs of lm-evaluation-harness: JSON lines with `doc_id`, `arguments`, `resps` and `filtered_resps`."""

from collections.abc import Mapping
from typing import Any

from bench_recorded.plugin import Fields
from bench_recorded.reading.json_records import MISSING, lacks, objects, preview, read_id, text, value
from bench_recorded.reading.records import Output, OutputFile, OutputRecord


def harness_records(file: OutputFile, fields: Fields, chosen: str | None) -> list[OutputRecord]:
    """Return the outputs of each document; raise DataError for tasks without generated texts, e.g. multiple choice.

    A log lists each document once per filter; only the entries of the filter `chosen` are used.
    """
    lines = [*objects(file, fields)]
    filters = list(dict.fromkeys(str(entry["filter"]) for _, entry in lines if "filter" in entry))
    if chosen is None and len(filters) > 1:
        raise file.error(1, f"starts a log with several filters. Set `filter` to one of: {', '.join(filters)}.")
    if chosen is not None and chosen not in filters:
        raise file.error(1, f"starts a log without the filter {chosen!r}; it has {', '.join(filters) or 'none'}.")
    selected = [(line, entry) for line, entry in lines if chosen is None or str(entry.get("filter")) == chosen]
    return [_record(file, line, entry, fields) for line, entry in selected]


def _record(file: OutputFile, line: int, entry: Mapping[str, Any], fields: Fields) -> OutputRecord:
    name, output = fields.id or "doc_id", fields.output or "filtered_resps"
    identity, responses = read_id(file, line, entry, name), value(entry, output)
    if identity is None or responses is MISSING:
        raise lacks(file, line, entry, [each for each in (name, output) if value(entry, each) in (MISSING, None)])
    texts = _texts(file, line, responses, output)
    prompt = value(entry, fields.prompt) if fields.prompt else _prompt(entry.get("arguments"))
    known = text(file, line, prompt, "prompt") if isinstance(prompt, str) else None
    return OutputRecord(line, [Output(each) for each in texts], identity, known)


def _texts(file: OutputFile, line: int, responses: Any, name: str) -> list[str]:
    """Return the responses to a document's only request, which may have been repeated."""
    if isinstance(responses, str):
        return [text(file, line, responses, name)]
    flat = [item for each in responses for item in (each if isinstance(each, list) else [each])] if responses else []
    if not isinstance(responses, list) or not flat or not all(isinstance(item, str) for item in flat):
        raise file.error(
            line,
            f"has {preview(responses)} in {name!r}, not generated texts. Use the log of a task with `output_type: "
            "generate_until`; logs of likelihoods have no texts.",
        )
    return [text(file, line, item, name) for item in flat]


def _prompt(arguments: Any) -> object:
    """Return the prompt of the first request."""
    if isinstance(arguments, Mapping):  # {"gen_args_0": {"arg_0": PROMPT, "arg_1": {...}}}
        first = next(iter(arguments.values()), None)
        return first.get("arg_0") if isinstance(first, Mapping) else None
    first = arguments[0] if isinstance(arguments, list) and arguments else None  # [[PROMPT, {...}]]
    return first[0] if isinstance(first, list) and first else None
