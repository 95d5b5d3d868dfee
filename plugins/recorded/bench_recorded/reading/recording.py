"""Reads a file of outputs and detects its format."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from bench_core import DataError
from bench_core.terminal import count_of
from bench_data.api import numbered_records
from bench_recorded.plugin import RecordedConfig
from bench_recorded.reading.answers import prepare_outputs
from bench_recorded.reading.fairseq_logs import fairseq_records, is_hypothesis
from bench_recorded.reading.harness_logs import harness_records
from bench_recorded.reading.json_records import TABLES, json_records
from bench_recorded.reading.nbest_lists import FIRST_LINE, nbest_records
from bench_recorded.reading.records import Output, OutputFile, OutputRecord
from bench_recorded.reading.text_lines import read_lines

JSON = (".jsonl", ".ndjson", ".json")
LIST_START = re.compile(r"\s*\[\s*([{\]]|$)")
MAX_DETECTION_LINES = 1000  # number of lines searched to detect the format of a log


@dataclass(frozen=True)
class Recording:
    """The contents of a file of outputs."""

    file: OutputFile
    records: Sequence[OutputRecord]


def read_recording(path: Path, config: RecordedConfig, prompts: Path | None = None) -> Recording:
    """Return the outputs in a file; raise DataError, with file and line, for invalid content.

    The file `prompts` has the prompt of each record, one per line.
    """
    lines = [] if _extension(path) == ".parquet" else read_lines(path)
    kind, reason = (config.format, "as set by `format`") if config.format != "auto" else _detect_format(path, lines)
    file = OutputFile(path, lines, kind, reason)
    records = prepare_outputs(file, _records(file, config), config.pieces, config.thinking)
    return Recording(file, _with_prompts(file, records, prompts) if prompts else records)


def _with_prompts(file: OutputFile, records: Sequence[OutputRecord], path: Path) -> list[OutputRecord]:
    prompts = read_lines(path)
    if len(prompts) != len(records):
        both = f"{count_of(len(prompts), 'prompt')}, but {file.path} has {count_of(len(records), 'example')}"
        raise DataError(f"{path} has {both}. It must have one line per example.")
    return [replace(record, prompt=prompt) for record, prompt in zip(records, prompts, strict=True)]


def _records(file: OutputFile, config: RecordedConfig) -> list[OutputRecord]:
    fields = config.fields
    match file.format:
        case "jsonl" | "json" | "csv" | "tsv" | "parquet":
            return json_records(file, fields)
        case "coco":
            names = {"id": fields.id or "image_id", "output": fields.output or "caption"}
            return json_records(file, fields.model_copy(update=names))
        case "lm-eval":
            return harness_records(file, fields, config.filter)
        case "moses-nbest":
            return nbest_records(file)
        case "fairseq":
            return fairseq_records(file)
    return [OutputRecord(number, [Output(line)]) for number, line in enumerate(file.lines, 1)]


def _extension(path: Path) -> str:
    return next((suffix.lower() for suffix in reversed(path.suffixes) if suffix != ".gz"), "")


def _detect_format(path: Path, lines: Sequence[str]) -> tuple[str, str]:
    """Return the format of a file, and how it was detected."""
    extension = _extension(path)
    if extension.removeprefix(".") in TABLES:
        return extension.removeprefix("."), "by its extension"
    if extension in JSON and LIST_START.match(next(filter(str.strip, lines), "")):
        _, entry = next(numbered_records(path, ".json"), (0, {}))
        if {"image_id", "caption"} <= {*entry} and not {"output", "outputs"} & {*entry}:
            return "coco", "by the fields of its first entry"
        return "json", "by its first character"
    if extension in JSON:
        try:
            first = json.loads(next((line for line in lines if line.strip()), ""))
        except (ValueError, RecursionError):
            first = None
        if isinstance(first, dict) and "doc_id" in first and {"resps", "filtered_resps"} & {*first}:
            return "lm-eval", "by its first line"
        return "jsonl", "by its extension"
    if FIRST_LINE.match(lines[0]):
        return "moses-nbest", "by its first line"
    if any(map(is_hypothesis, lines[:MAX_DETECTION_LINES])):
        return "fairseq", "by its lines"
    return "lines", "by default"
