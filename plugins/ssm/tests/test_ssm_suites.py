"""The suites: what the paper did, and words of another alphabet, for which nothing but the corpus is set."""

import json
from itertools import product
from math import isfinite
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from bench_core import run
from bench_core.suites.cells import cells_of
from bench_core.suites.check import check_fit
from bench_core.suites.load import load
from bench_reports.language.of_suite import language

SUITES = Path(__file__).parents[3] / "suites" / "ssm"
MODELS = ("2xtril-2", "baseline-8d", "oracle-train")
METRICS = ("H-train", "H-test", "in-V", "Ibar", "I-1")


def test_table_1_has_the_models_of_the_paper():
    suite = load(SUITES / "table-1.yaml")
    rows = language(suite).tables[0].reference.rows
    assert set(rows) == set(language(suite).published["ssm-t1"].rows)
    assert len(rows) == 15
    configs = {printed: suite.models[name].config for printed, name in rows.items()}
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
            learning = [one for one in suite.models.values() if one.config.name in ("deep-ssm", "char-gru")]
            assert len({one.training.model_dump_json() for one in learning if one.training.updates}) == 1


def test_the_rows_that_tables_1_and_3_share_are_trained_once():
    rows = {name: load(SUITES / f"{name}.yaml", "small").models for name in ("table-1", "table-3")}
    pairs = {"tril": "tril-diag", "2xtril": "2xtril-diag"}
    for one, other in pairs.items():
        first, second = rows["table-1"][one], rows["table-3"][other]
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
        "models": {name: data["models"][name] | profile["models"].get(name, {}) for name in MODELS},
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
