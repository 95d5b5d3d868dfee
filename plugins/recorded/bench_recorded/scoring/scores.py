"""Scores output files: reads them, runs a suite, and runs sacrebleu's tests."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import bench_core
from bench_core import DataError, Model, Prompt, SuiteError, TaskInfo, part
from bench_metrics.api import Sacrebleu
from bench_recorded.matching import match_outputs
from bench_recorded.plugin import RecordedConfig
from bench_recorded.reading.pieces import join_lines
from bench_recorded.reading.recording import read_recording
from bench_recorded.reading.text_lines import read_parallel
from bench_recorded.scoring.request import ScoreRequest
from bench_recorded.scoring.sacrebleu_tests import MetricResult, sacrebleu_tests

if TYPE_CHECKING:
    from bench_reports.api import Run


@dataclass(frozen=True)
class ScoreResult:
    """The result of `bench score`."""

    run: Run
    tests: Mapping[str, MetricResult]  # sacrebleu's tests by metric; empty for a single system
    warnings: Sequence[str]


def score_files(request: ScoreRequest, folder: Path) -> ScoreResult:
    """Score files; the suite, store and run are written to `folder`.

    Raises DataError, with file and line, for outputs that cannot be read or matched; SuiteError for invalid metrics.
    """
    configs = {name: _metric(name, settings) for name, settings in request.metrics.items()}
    references = _references(request)
    warnings: list[str] = []
    systems = {name: _texts(request, name, len(references[0]), warnings) for name in request.systems}
    tests: dict[str, MetricResult] = {}
    if len(systems) > 1:
        tests = sacrebleu_tests(_scorers(request, configs), systems, references, request.test)
    return ScoreResult(_run(request, folder), tests, warnings)


def _metric(name: str, settings: Mapping[str, Any]) -> Any:
    """Return the Config of a metric; raise SuiteError if it needs more than texts or has invalid settings."""
    from pydantic import ValidationError

    schema: Any = part("metric", str(settings["name"])).config
    if schema.needs is not Model or schema.of_tokens:
        needed = "tokens" if schema.of_tokens else "a model"
        raise SuiteError(f"--metric {name}: this metric needs {needed}, but files of outputs have only texts.")
    try:
        return schema.model_validate({key: value for key, value in settings.items() if key != "name"})
    except ValidationError as error:
        wrong = [f"{'.'.join(map(str, each['loc'])) or 'settings'}: {each['msg']}" for each in error.errors()]
        raise SuiteError(f"--metric {name}: {'; '.join(wrong)}. See `bench describe {settings['name']}`.") from None


def _references(request: ScoreRequest) -> list[list[str]]:
    """Return the lines of each reference file; raise DataError if these files or the source file differ in length."""
    files, pieces = read_parallel(request.references, request.source), request.reference_pieces
    return [join_lines(path, lines, pieces) for path, lines in zip(request.references, files, strict=False)]


def _texts(request: ScoreRequest, name: str, number: int, warnings: list[str]) -> list[str]:
    """Return the first output of a system for each example; raise DataError if an example has no output."""
    settings = {key: value for key, value in request.suite()["models"][name].items() if key != "name"}
    config = RecordedConfig.model_validate(settings)
    prompts = [Prompt(place, "") for place in range(number)]
    outputs = match_outputs(read_recording(request.systems[name], config), config, prompts, "test", number)
    warnings += outputs.warnings()
    return [record.outputs[0].text for record in outputs.of(prompts)]


def _scorers(request: ScoreRequest, configs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the sacrebleu scorers of the metrics that use sacrebleu."""
    info, scorers = TaskInfo((), language=request.language, tokenized=request.tokenized), {}
    for name, config in configs.items():
        metric = config.load()
        if issubclass(metric, Sacrebleu):
            scorers[name] = metric(config).prepare(info, {}).scorer
    return scorers


def _run(request: ScoreRequest, folder: Path) -> Run:
    """Run the suite; if a cell failed, raise DataError with the reason."""
    path = folder / "score.yaml"
    path.write_text(json.dumps(request.suite()), encoding="utf-8")
    run = bench_core.run(path, store=folder / "store", out=folder / "runs")
    if reasons := [cell.reason for cell in run.cells if cell.status != "done"]:
        raise DataError(reasons[0])
    return run
