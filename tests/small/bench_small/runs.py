"""Runs to report on."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import product
from math import inf

from bench_core import Additive
from bench_core.runs.results import CellResult, Run, Score, cells_text, read_run
from bench_core.runs.run_suite import sections_of
from bench_core.suites.schema import SuiteFile
from bench_reports.content.result_tables import results_table
from bench_reports.content.tables import grids
from bench_reports.language.of_suite import language
from bench_reports.language.published import Published, plain
from bench_reports.render.markdown import MARKDOWN
from bench_reports.render.report import write_report
from placed_settings import Located

HOSTILE = "a|b`c`*d*_e_<script>$f$\\g{h}%i#j&k^l~m\n- n\t[o](p)\x1b[31m\u202eé--ș 日…"


def number(value, **settings):
    """Return a score that is of a whole population, unless settings tell of units that were sampled."""
    return Score(value, **{"examples": 100, "unit": "%", "better": -1, "scale": "linear", **settings})


def cell(model, decoder, seed, numbers=None, status="done", reason=""):
    axes = {"task": "words", "model": model, "decoder": decoder, "split": "test", "hardware": "default", "seed": seed}
    return CellResult(axes, status, reason, numbers or {}, {"decode": "0" * 8})


def read_suite(data, grids=None):
    """Return a suite file without the keys of plugins, and what it has for these."""
    own = {key: value for key, value in data.items() if key in SuiteFile.model_fields}
    return SuiteFile.model_validate(own), sections_of(Located("suite.yaml", dict(data)), grids or {})


def with_suite(run, data):
    """Return a run with another suite."""
    suite, sections = read_suite(data)
    return replace(run, suite=suite, sections={**run.sections, **sections})


def with_sections(run, **sections):
    """Return a run with other sections of reports, and the same histories."""
    found = replace(run, sections={**run.sections, **sections})
    vars(found).update({name: value for name, value in vars(run).items() if name == "histories"})
    return found


def run_of(tmp_path, cells, table, published=None, names=("rnn", "lstm"), skip=(), **info):
    suite, sections = read_suite(
        {
            "suite": "tests/report",
            "tasks": {"words": {"name": "words"}},
            "models": {name: {"name": "m"} for name in names},
            "decoders": {"greedy": {"name": "greedy"}, "beam": {"name": "beam"}},
            "metrics": {"rate": {"name": "rate"}, "nats": {"name": "nats"}},
            "skip": list(skip),
            "tables": [{"id": "t", "rows": ["decoder"], "columns": ["model"], "values": ["rate"], **table}],
        }
    )
    about = {"label": "tests/report", "tasks": {"words": {"corpus": "Words"}}, **info}
    sections["published"] = {"p": published} if published else {}
    return Run(tmp_path / "run", suite, about, cells, sections)


class Mean(Additive):
    better, unit, signature = -1, "%", ""

    def measure(self, predictions):
        raise NotImplementedError

    def from_sums(self, sums, examples):
        return sums[0] / examples


def sampled(tmp_path, samples, **settings):
    """Return cells of greedy decoding, and a run folder that holds the draws of their rates.

    `samples` are by model and seed the rate of each example; all models have the same examples.
    """
    from bench_core.computing.bootstrap import draws
    from block_bootstrap import mark, write_replicates

    metric, cells, found = Mean(None), [], {}
    for model, seeds in samples.items():
        for seed, rates in enumerate(seeds):
            key = f"{model}-{seed}"
            found[key] = draws(metric, [*rates])[None]
            about = {"sample": mark(range(len(rates))), "units": len(rates), **settings}
            one = cell(model, "greedy", seed, {"rate": number(metric.combine([*rates]), **about)})
            cells.append(replace(one, artifacts={**one.artifacts, "measure/rate": key}))
    (tmp_path / "run").mkdir(exist_ok=True)
    write_replicates(tmp_path / "run" / "draws.safetensors", sorted(found.items()))
    return cells


def paper(rows, **more):
    values = {row: {column: {"mean": m, "std": s} for column, (m, s) in line.items()} for row, line in rows.items()}
    return Published.model_validate({"id": "p", "place": "Table 1", "rows": values, **more})


def shown(run, markup=MARKDOWN):
    """Return the run's only table as {row: {column: text}}, by their names."""
    (grid,) = grids(run)
    _, *rows = markup.rows(results_table(run, grid))
    columns = [column.heading for column in grid.columns]
    pairs = zip(grid.rows, rows, strict=True)
    return {row.label: dict(zip(columns, texts[1:], strict=True)) for row, texts in pairs}


def written(run, folder):
    """Return the files of a report but for its manifest, which names the code and the run."""
    files = {path.relative_to(folder).as_posix(): path.read_bytes() for path in write_report(run, folder)}
    assert files.pop("manifest.json")
    return files


def stored(run):
    """Write a run folder as `bench run` does, and read it."""
    run.folder.mkdir(exist_ok=True)
    (run.folder / "cells.jsonl").write_text(cells_text(run.cells), encoding="utf-8")
    (run.folder / "run.json").write_text(json.dumps(dict(run.info)))
    (run.folder / "published.json").write_text(json.dumps(plain(language(run).published)))
    suite = run.suite.model_dump(mode="json", by_alias=True)
    for key in ("tables", "figures", "claims", "choose"):
        suite[key] = [one.model_dump(mode="json", by_alias=True) for one in run.sections.get(key, ())]
    (run.folder / "suite.yaml").write_text(json.dumps(suite))
    (run.folder / "costs.csv").write_text("stage,seconds\ntrain,1.5\n")
    return read_run(run.folder)


def samples(text):
    axes = {"task": "words", "model": "rnn", "decoder": "greedy", "split": "test", "hardware": "default", "seed": 0}
    return [{"cell": axes, "id": 7, "prompt": "", "text": text, "reference": "", "finished": False}]


def hostile_run(tmp_path):
    cells = [
        cell(HOSTILE, "greedy", 0, {"rate": number(1.0, signature=HOSTILE)}),
        cell(HOSTILE, "beam", 0, status="failed", reason=HOSTILE),
        cell("\\", "greedy", 0, {"rate": number(1.0)}),
        cell("[x]", "greedy", 0, {"rate": number(1.0)}),
        cell("*", "greedy", 0, {"rate": number(1.0)}),
    ]
    about = {"title": HOSTILE, "tasks": {"words": {"corpus": HOSTILE}}, "samples": samples(HOSTILE)}
    table = {"rows": ["model"], "columns": ["decoder"], "caption": HOSTILE}
    return run_of(tmp_path, cells, table, names=(HOSTILE, "\\", "[x]", "*"), **about)


def some_run(tmp_path):
    cells = [
        cell(m, d, s, {"rate": number(s + 1 / 3, signature="x"), "nats": number(inf)})
        for m, d, s in product(["rnn", "lstm"], ["greedy", "beam"], range(4))
    ]
    cells[3] = replace(cells[3], status="failed", reason='one,\n"two"', numbers={})
    published = paper({"greedy": {"rnn": (1.0, 0.5)}})
    return run_of(tmp_path, cells, {"reference": {"table": "p"}}, published, samples=samples(HOSTILE))
