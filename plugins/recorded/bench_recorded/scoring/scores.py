"""Scores files of outputs: reads them, runs the suite that they make, and asks sacrebleu for its tests."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import bench_core
from bench_core import DataError, Model, Prompt, SuiteError, TaskInfo, part
from bench_metrics.api import Sacrebleu
from bench_recorded.matching import matched
from bench_recorded.plugin import RecordedConfig
from bench_recorded.reading.pieces import joined_lines
from bench_recorded.reading.recording import recording
from bench_recorded.reading.text_lines import read_alike
from bench_recorded.scoring.request import Scoring
from bench_recorded.scoring.sacrebleu_tests import MetricResult, sacrebleu_tests

if TYPE_CHECKING:
    from bench_reports.api import Run


@dataclass(frozen=True)
class Scores:
    """What became of files of outputs."""

    run: Run
    tests: Mapping[str, MetricResult]  # of sacrebleu, by the names of metrics; none for a single system
    warnings: Sequence[str]


def scores(scoring: Scoring, folder: Path) -> Scores:
    """Score files, with all that this leaves in a folder.

    Raises DataError, with file and line, for what cannot be read or matched, and SuiteError for wrong metrics.
    """
    configs = {name: _metric(name, settings) for name, settings in scoring.metrics.items()}
    references = _references(scoring)
    warnings: list[str] = []
    systems = {name: _texts(scoring, name, len(references[0]), warnings) for name in scoring.systems}
    tests: dict[str, MetricResult] = {}
    if len(systems) > 1:
        tests = sacrebleu_tests(_scorers(scoring, configs), systems, references, scoring.test)
    return Scores(_run(scoring, folder), tests, warnings)


def _metric(name: str, settings: Mapping[str, Any]) -> Any:
    """Return the Config of a metric; raise SuiteError if it cannot be that of texts alone, or settings are wrong."""
    from pydantic import ValidationError

    schema: Any = part("metric", str(settings["name"])).config
    if schema.needs is not Model or schema.of_tokens:
        beyond = "tokens" if schema.of_tokens else "what a model computes"
        raise SuiteError(f"--metric {name}: it looks at {beyond}, and files of outputs have texts alone.")
    try:
        return schema.model_validate({key: value for key, value in settings.items() if key != "name"})
    except ValidationError as error:
        wrong = [f"{'.'.join(map(str, one['loc'])) or 'settings'}: {one['msg']}" for one in error.errors()]
        raise SuiteError(f"--metric {name}: {'; '.join(wrong)}. See `bench describe {settings['name']}`.") from None


def _references(scoring: Scoring) -> list[list[str]]:
    """Return the lines of each file of references; raise DataError unless all, and the sources, have as many."""
    found, pieces = read_alike(scoring.references, scoring.source), scoring.reference_pieces
    return [joined_lines(path, lines, pieces) for path, lines in zip(scoring.references, found, strict=False)]


def _texts(scoring: Scoring, name: str, number: int, warnings: list[str]) -> list[str]:
    """Return the first output of a system for each example; raise DataError if one has none."""
    settings = {key: value for key, value in scoring.suite()["models"][name].items() if key != "name"}
    config = RecordedConfig.model_validate(settings)
    prompts = [Prompt(place, "") for place in range(number)]
    found = matched(recording(scoring.systems[name], config), config, prompts, "test", number)
    warnings += found.warnings()
    return [record.outputs[0].text for record in found.of(prompts)]


def _scorers(scoring: Scoring, configs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the scorers of sacrebleu behind those of the metrics that have one."""
    known, found = TaskInfo((), language=scoring.language, tokenized=scoring.tokenized), {}
    for name, config in configs.items():
        metric = config.load()
        if issubclass(metric, Sacrebleu):
            found[name] = metric(config).prepare(known, {}).scorer
    return found


def _run(scoring: Scoring, folder: Path) -> Run:
    """Run the suite of the files; raise DataError with the first reason why a cell has no number."""
    path = folder / "score.yaml"
    path.write_text(json.dumps(scoring.suite()), encoding="utf-8")
    run = bench_core.run(path, store=folder / "store", out=folder / "runs")
    if reasons := [one.reason for one in run.cells if one.status != "done"]:
        raise DataError(reasons[0])
    return run
