"""The suites: what the paper did, and words of another alphabet, for which nothing but the corpus is set."""

import json
from itertools import product
from math import isfinite
from pathlib import Path
from typing import NamedTuple

import pytest
from claim_values import walk
from ruamel.yaml import YAML

from bench_core import run
from bench_core.suites.cells import cells_of
from bench_core.suites.check import check_fit
from bench_core.suites.load import load
from bench_reports.language.expressions import read
from bench_reports.language.of_suite import language

SUITES = Path(__file__).parents[3] / "suites" / "ssm"
TABLES = [SUITES / f"table-{number}.yaml" for number in (1, 2, 3)]
MODELS = ("2xtril-2", "baseline-8d", "oracle-train")
METRICS = ("H-train", "H-test", "in-V", "Ibar", "I-1")


def at_one_rate(suite, name):
    """Return a row of table 1, at the rate at which all rows are trained in every profile."""
    return suite.models.get(name) or suite.models[f"{name}/training.lr=0.005"]


def test_table_1_has_the_models_of_the_paper():
    suite = load(SUITES / "table-1.yaml")
    rows = language(suite).tables[0].reference.rows
    assert set(rows) == set(language(suite).published["ssm-t1"].rows)
    assert len(rows) == 15
    configs = {printed: at_one_rate(suite, name).config for printed, name in rows.items()}
    for printed, config in configs.items():
        if config.name != "deep-ssm":
            assert printed.startswith(("BASELINE", "ORACLE"))
            continue
        samples = int(printed.partition("K=")[2].partition(",")[0] or 1)
        size = int(printed[2:4]) if printed.startswith("d=") else 8
        flow = next(flow for flow in ("real-nvp", "2xtril", "tril") if flow in printed.lower())
        told = (config.generative, config.samples, config.state, config.bidirectional, config.inference)
        assert told == (flow, samples, size, "BIDI" in printed, "diag")
    assert configs["REAL-NVP-[2,3,4,5,6,7]"].layers == (2, 3, 4, 5, 6, 7)
    assert [configs[f"BASELINE-{size}D"].state for size in (8, 16)] == [8, 16]


def test_table_3_has_every_pair_of_flows_and_the_printed_ones_at_their_places():
    suite = load(SUITES / "table-3.yaml")
    learning = [entry.config for entry in suite.models.values() if entry.config.name == "deep-ssm"]
    pairs = {(config.generative, config.inference) for config in learning}
    assert pairs == set(product(("id", "diag", "tril", "2xtril"), repeat=2))
    for printed, name in language(suite).tables[0].reference.rows.items():
        config = suite.models[name].config
        assert f"{config.generative}, {config.inference}" == printed.lower()


@pytest.mark.slow
def test_every_statement_of_the_paper_is_judged_in_every_profile_and_all_rows_are_trained_alike():
    wanted = {
        "table-1": {*(f"T1-{letter}" for letter in "abcdefghi"), "F2", "F3"},
        "table-2": {"T2-a", "T2-b-full", "T2-b-test", "T2-c"},
        "table-3": {"T3-a", "T3-b", "T3-c"},
    }
    for name, claims in wanted.items():
        for profile in (None, "smoke", "small", "gpu", "paper"):
            suite = load(SUITES / f"{name}.yaml", profile)
            assert claims <= {claim.id for claim in language(suite).claims}
            for kind in ("deep-ssm", "char-gru"):
                learning = [one.training for one in suite.models.values() if one.config.name == kind]
                alike = {
                    training.model_copy(update={"lr": 1}).model_dump_json()
                    for training in learning
                    if training.updates
                }
                assert len(alike) == (kind == "deep-ssm" or name != "table-3")


def test_the_rate_of_every_row_of_table_1_is_chosen_on_validation_and_that_of_each_shape_among_three():
    shapes = {"tril", "2xtril", "real-nvp", "baseline-8d", "baseline-16d"}
    for profile in ("small", "gpu", "paper"):
        suite = load(SUITES / "table-1.yaml", profile)
        (choice,) = language(suite).choose
        trained = {
            name for name, one in suite.models.items() if one.training.updates and one.config.name != "ngram-lm"
        }
        assert choice.split == "valid"
        assert {f"{name}/training.lr={rate}" for name in choice.model for rate in rates(suite, name)} == trained
        for name in choice.model:
            wanted = [0.005] if profile == "small" and name not in shapes else [0.002, 0.003, 0.005]
            assert rates(suite, name) == wanted


def rates(suite, name):
    return [one.training.lr for full, one in suite.models.items() if full.startswith(f"{name}/")]


def test_baselines_are_trained_until_they_stop_improving():
    for path, profile in product(TABLES, ("small", "web", "gpu", "paper")):
        suite = load(path, profile)
        for one in suite.models.values():
            if one.config.name == "char-gru":
                assert one.training.patience
                assert [schedule.name for schedule in one.training.schedule] == ["plateau"]
                assert one.training.updates >= 30_000


def test_film_subtitles_come_first_and_words_of_the_web_second():
    for path, (profile, file) in product(TABLES, {"small": "en_50k.txt", "web": "count_1w.txt.gz"}.items()):
        assert {config.corpus.file.name for config in load(path, profile).tasks.values()} == {file}


@pytest.mark.parametrize("path", TABLES, ids=lambda path: path.stem)
def test_no_claim_reads_a_row_that_has_not_begun_to_learn(path):
    """Rows of trained models; of a random walk, whose letters cannot depend on its state, letter frequencies do."""
    for profile in ("small", "web", "paper"):
        suite = load(path, profile)
        for claim in language(suite).claims:
            required = [query for text in claim.requires.values() for query in queries(text)]
            begun = {query.model for query in required if query.metric == "gain"}
            begun |= {query.model for query in required if query.metric == "H-test" and query.model.startswith("id-")}
            read = {query.model for query in queries(claim.expression)}
            assert read <= begun | {"letters", "oracle-train", "oracle-test", "2xtril-10-untrained"}, claim.id


class Read(NamedTuple):
    """A value that a claim reads."""

    metric: str
    model: str


def queries(text):
    return [Read(one.query.metric, dict(one.query.axes)["model"]) for one in walk(read(text).term) if one.query]


def test_the_rows_that_tables_share_are_trained_once():
    rows = {path.stem: load(path, "small").models for path in TABLES}
    pairs = {"tril": ("table-3", "tril-diag"), "2xtril": ("table-3", "2xtril-diag")}
    pairs |= {name: ("table-2", name) for name in ("2xtril-10", "baseline-8d")}
    for one, (table, other) in pairs.items():
        first, second = rows["table-1"][f"{one}/training.lr=0.005"], rows[table][other]
        assert (first.config, first.training) == (second.config, second.training)


def test_smoke_needs_no_download(tmp_path):
    for path in SUITES.glob("*.yaml"):
        for config in load(path, "smoke").tasks.values():
            config.reads(tmp_path)  # a corpus that is not embedded raises, for this folder has none


@pytest.fixture
def greek(tmp_path):
    """Return a list of words of made-up Greek syllables, the first ones the most frequent."""
    syllables = ["κα", "λό", "με", "τρι", "σα", "ψη", "ωρά", "θυ"]
    words = ["".join(parts) for size in (1, 2, 3) for parts in product(syllables, repeat=size)]
    path = tmp_path / "greek.txt"
    path.write_text("".join(f"{word} {20_000 // rank}\n" for rank, word in enumerate(words, 1)), encoding="utf-8")
    return path


@pytest.mark.quick(1)
@pytest.mark.parametrize("name", ["table-1", "table-2", "table-3"])
def test_every_suite_takes_words_of_another_alphabet(greek, name):
    tasks = YAML(typ="safe").load(SUITES / f"{name}.yaml")["tasks"]
    settings = [f"tasks.{task}.{each}" for task in tasks for each in (f"corpus={{file: {greek}}}", "alphabet=null")]
    suite = load(SUITES / f"{name}.yaml", "small", settings)
    check_fit(suite, cells_of(suite))
    for config in suite.tasks.values():
        assert (config.alphabet, config.corpus.file) == (None, greek)


def without_grid(settings):
    return {name: value for name, value in settings.items() if name != "grid"}


@pytest.mark.slow
def test_models_and_metrics_of_table_1_work_on_words_of_another_alphabet(greek, tmp_path):
    """A few models of the suite, trained for a moment; figures, claims and tables of all others are left out."""
    data = YAML(typ="safe").load(SUITES / "table-1.yaml")
    profile = data["profiles"]["smoke"]
    part = {
        **{key: data[key] for key in ("decoders", "limits")},
        "metrics": {name: data["metrics"][name] for name in METRICS},
        "suite": "ssm/greek",
        "tasks": {"words": {**data["tasks"]["words"], "tokens": None, "types": None, "epoch": 500}},
        "models": {name: without_grid(data["models"][name] | profile["models"].get(name, {})) for name in MODELS},
        "training": data["training"] | profile["training"] | {"updates": 5},
        "hardware": {"threads": 1},
        "skip": [{"model": [name for name in MODELS if name != "2xtril-2"], "metric": ["Ibar", "I-1"]}],
        "tables": [{"id": "all", "rows": ["model"], "values": [*METRICS]}],
    }
    path = tmp_path / "greek.yaml"
    path.write_text(json.dumps(part), encoding="utf-8")
    settings = [f"tasks.words.corpus={{file: {greek}}}", "tasks.words.alphabet=null", "tasks.words.samples=100"]
    found = run(path, settings=settings, store=tmp_path / "store", out=tmp_path / "runs")
    assert len(found.cells) == len(MODELS)
    told = {}
    for cell in found.cells:
        assert cell.status == "done", cell
        told[cell.cell["model"]] = {
            name: number.value for name, number in cell.numbers.items() if number.value is not None
        }
    assert set(told["2xtril-2"]) == set(METRICS)
    assert all(set(values) >= {"H-train", "H-test", "in-V"} for values in told.values())
    assert all(isfinite(value) for values in told.values() for value in values.values())
    assert told["oracle-train"]["in-V"] == 1
    assert told["oracle-train"]["H-train"] < min(told[name]["H-train"] for name in MODELS[:2])
