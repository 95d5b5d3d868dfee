"""The examples of plugins' READMEs are suites, or parts of one: each passes `bench check` when pasted into some suite.

Data and weights need not be there, so that only what can be said without them is checked.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest
import yaml

import bench_core
from bench_core.commands.main import bench as group
from bench_core.errors import BenchError
from bench_core.suites.cells import cells_of
from bench_core.suites.check import check_fit
from bench_core.suites.load import load

ROOT = Path(__file__).parent.parent
BLOCK = re.compile(r"^```yaml\n(.*?)^```$", re.DOTALL | re.MULTILINE)
EXAMPLES = [
    pytest.param(page, number, id=f"{page.parent.name}-{number}")
    for page in sorted((ROOT / "plugins").glob("*/README.md"))
    for number in range(len(BLOCK.findall(page.read_text("utf-8"))))
]
GREEDY = {"greedy": {"name": "greedy"}}
SUITES = {  # into which an example is pasted, in the place of what they have under its keys
    "sentences": {
        "tasks": {"news": {"name": "sequence-completion", "corpus": "english", "prefix": 5}},
        "models": {"lstm": {"name": "rnn-lm"}},
        "decoders": GREEDY,
        "metrics": {"length": {"name": "length"}},
    },
    "likelihoods": {
        "tasks": {"news": {"name": "language-modeling", "corpus": "english"}},
        "models": {"lstm": {"name": "rnn-lm"}},
        "metrics": {"perplexity": {"name": "perplexity"}},
    },
    "translation": {
        "tasks": {"news": {"name": "translation", "shared": True}},
        "models": {"translator": {"name": "rnn-seq2seq"}},
        "decoders": GREEDY,
        "metrics": {"bleu": {"name": "bleu"}},
    },
    "captions": {
        "tasks": {"images": {"name": "captioning"}},
        "models": {"captioner": {"name": "transformer"}},
        "decoders": GREEDY,
        "metrics": {"bleu": {"name": "caption-bleu"}},
    },
    "words": {
        "tasks": {"words": {"name": "word-generation"}},
        "models": {"letters": {"name": "char-gru"}},
        "decoders": {"sample": {"name": "ancestral"}},
        "metrics": {"length": {"name": "length"}},
    },
}


def problem(example, kind, path):
    """Return what `bench check` says of an example in a suite of some kind; nothing if it fits."""
    suite = {"suite": "example", "training": {"updates": 10}, **SUITES[kind], **example}
    table = {"id": "main", "rows": ["task", "model", "decoder", "split"], "values": [next(iter(suite["metrics"]))]}
    path.write_text(yaml.safe_dump({"tables": [table], **suite}, sort_keys=False))
    try:
        loaded = load(path)
        check_fit(loaded, cells_of(loaded))
    except BenchError as error:
        return f"{kind}: {error}"
    return ""


def problems(examples, path):
    """Return why the last of some examples fits into no suite, alone or with those before it; nothing if it does."""
    together: dict = {}
    for key, value in (pair for one in examples for pair in one.items()):
        together[key] = {**together.get(key, {}), **value} if isinstance(value, dict) else value
    found = []
    for kind in SUITES:
        for one in (examples[-1], together) if len(examples) > 1 else examples:
            if not (why := problem(one, kind, path)):
                return []
            found.append(why)
    return found


def each(example):
    """Return an example once for each of its tasks, of which a suite need not have all."""
    return [{**example, "tasks": {name: task}} for name, task in example.get("tasks", {}).items()]


@pytest.mark.parametrize(("page", "number"), EXAMPLES)
def test_an_example_of_a_plugin_fits_into_a_suite(page, number, tmp_path):
    *before, example = [yaml.safe_load(text) for text in BLOCK.findall(page.read_text("utf-8"))[: number + 1]]
    path = tmp_path / "suite.yaml"
    whole = problems([*before, example], path)
    apart = [problems([*before, one], path) for one in each(example)] if whole else []
    assert not whole or (apart and not any(apart)), "\n\n".join(whole)


LINES = [
    pytest.param(line, id=f"{page.parent.name}: {line}"[:60])
    for page in sorted((ROOT / "plugins").glob("*/README.md"))
    for line in re.findall(r"^    (bench .*)", page.read_text("utf-8").replace("\\\n", ""), re.MULTILINE)
]


def parsed(line):
    """Return the command of a line, whose options and arguments are those that it takes."""
    _, name, *words = shlex.split(line, comments=True)
    command = group.get_command(click.Context(group), name)
    assert command is not None, f"there is no command {name}"
    command.make_parser(click.Context(command)).parse_args(words)
    return command


@pytest.mark.parametrize("line", LINES)
def test_a_command_of_a_plugin_has_the_options_that_its_readme_says(line):
    assert parsed(line)


@pytest.mark.parametrize("line", ["bench run suite.yaml --worker-count 2", "bench vieww ."])
def test_a_wrong_command_would_be_seen(line):
    with pytest.raises((click.UsageError, AssertionError), match=r"No such option|there is no command"):
        parsed(line)


SMALL = {"d_model": 8, "heads": 2, "layers": 1, "feed_forward": 8}


@pytest.mark.slow(1)
@pytest.mark.parametrize("number", [4, 2, 1, 0])
def test_an_example_of_insertion_runs_at_a_small_size(number, tmp_path):
    text = BLOCK.findall((ROOT / "plugins/indigo/README.md").read_text("utf-8"))[number]
    suite = {"suite": "example", **SUITES["translation"], **yaml.safe_load(text)}
    for model in suite["models"].values():
        model |= SMALL
        for phase in model.get("training", {}).get("phases", ()):
            phase["updates"] = 2
    phased = any("phases" in model.get("training", {}) for model in suite["models"].values())
    suite["training"] = {**suite.get("training", {}), "updates": 2, "batch_size": 100, "batch_unit": "tokens"}
    suite["tasks"] = {"news": {"name": "translation", "shared": True}}
    suite |= {"limits": {"max_tokens": 5, "examples": 4, "scored": 4}, "hardware": {"device": "cpu", "threads": 1}}
    path = tmp_path / "suite.yaml"
    path.write_text(yaml.safe_dump(suite, sort_keys=False))
    run = bench_core.run(path, data=tmp_path, store=tmp_path / "store", out=tmp_path / "runs")
    assert {(cell.status, cell.reason) for cell in run.cells} == {("done", "")}
    assert phased == (number < 3)


@pytest.mark.parametrize(
    ("example", "told"),
    [
        ({"training": {"weight_decay": 0.1}}, "unknown key 'weight_decay'"),
        (
            {"models": {"m": {"name": "rnn-lm"}}, "metrics": {"p": {"name": "perplexity", "by": "searched"}}},
            "searched",
        ),
        ({"tasks": {"a": {"name": "translation"}, "b": {"name": "translatoin"}}}, "Did you mean 'translation'"),
    ],
)
def test_a_wrong_example_would_be_seen(example, told, tmp_path):
    found = problems([example], tmp_path / "suite.yaml")
    assert len(found) == len(SUITES)
    assert told in found[0]
    assert any(problems([one], tmp_path / "suite.yaml") for one in each(example) or [example])
