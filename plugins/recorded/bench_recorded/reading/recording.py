"""Reads a file of outputs in the format that it has."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from bench_core import DataError
from bench_core.terminal import counted
from bench_data.api import numbered_records
from bench_recorded.plugin import RecordedConfig
from bench_recorded.reading.answers import answers
from bench_recorded.reading.fairseq_logs import fairseq_records, is_hypothesis
from bench_recorded.reading.harness_logs import harness_records
from bench_recorded.reading.json_records import TABLES, json_records
from bench_recorded.reading.nbest_lists import BEGIN, nbest_records
from bench_recorded.reading.records import Output, OutputFile, Record
from bench_recorded.reading.text_lines import read_lines

JSON = (".jsonl", ".ndjson", ".json")
BEGIN_OF_LIST = re.compile(r"\s*\[\s*([{\]]|$)")
HEAD = 1000  # lines in which a log says what it is


@dataclass(frozen=True)
class Recording:
    """A file of outputs, read."""

    file: OutputFile
    records: Sequence[Record]


def recording(path: Path, config: RecordedConfig, prompts: Path | None = None) -> Recording:
    """Return the outputs in a file; raise DataError, with file and line, for what cannot be read.

    A file of `prompts` has one a line for each record.
    """
    lines = [] if _ending(path) == ".parquet" else read_lines(path)
    kind, reason = (config.format, "as `format` says") if config.format != "auto" else _detected(path, lines)
    file = OutputFile(path, lines, kind, reason)
    records = answers(file, _records(file, config), config.pieces, config.thinking)
    return Recording(file, _with_prompts(file, records, prompts) if prompts else records)


def _with_prompts(file: OutputFile, records: Sequence[Record], path: Path) -> list[Record]:
    prompts = read_lines(path)
    if len(prompts) != len(records):
        both = f"{counted(len(prompts), 'prompt')}, and {file.path} outputs for {counted(len(records), 'example')}"
        raise DataError(f"{path} has {both}. There is a line for each.")
    return [replace(record, prompt=prompt) for record, prompt in zip(records, prompts, strict=True)]


def _records(file: OutputFile, config: RecordedConfig) -> list[Record]:
    fields = config.fields
    match file.format:
        case "jsonl" | "json" | "csv" | "tsv" | "parquet":
            return json_records(file, fields)
        case "coco":
            own = {"id": fields.id or "image_id", "output": fields.output or "caption"}
            return json_records(file, fields.model_copy(update=own))
        case "lm-eval":
            return harness_records(file, fields, config.filter)
        case "moses-nbest":
            return nbest_records(file)
        case "fairseq":
            return fairseq_records(file)
    return [Record(number, [Output(line)]) for number, line in enumerate(file.lines, 1)]


def _ending(path: Path) -> str:
    return next((one.lower() for one in reversed(path.suffixes) if one != ".gz"), "")


def _detected(path: Path, lines: Sequence[str]) -> tuple[str, str]:
    """Return the format of a file, and why."""
    ending = _ending(path)
    if ending.removeprefix(".") in TABLES:
        return ending.removeprefix("."), "by its ending"
    if ending in JSON and BEGIN_OF_LIST.match(next(filter(str.strip, lines), "")):
        _, entry = next(numbered_records(path, ".json"), (0, {}))
        if {"image_id", "caption"} <= {*entry} and not {"output", "outputs"} & {*entry}:
            return "coco", "by the fields of its first entry"
        return "json", "by its first sign"
    if ending in JSON:
        try:
            first = json.loads(next((line for line in lines if line.strip()), ""))
        except (ValueError, RecursionError):
            first = None
        if isinstance(first, dict) and "doc_id" in first and {"resps", "filtered_resps"} & {*first}:
            return "lm-eval", "by its first line"
        return "jsonl", "by its ending"
    if BEGIN.match(lines[0]):
        return "moses-nbest", "by its first line"
    if any(map(is_hypothesis, lines[:HEAD])):
        return "fairseq", "by its lines"
    return "lines", "as nothing says otherwise"
