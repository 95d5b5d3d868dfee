"""No training depends on what only test sets, metrics and reports read, whichever the task: one change of each kind."""

from __future__ import annotations

from copy import deepcopy
from random import Random

import pytest
from ruamel.yaml import YAML
from tried_suite import WORDS, found

from bench_core.registry import parts

#: Tasks that are not tried here, with the reason.
ELSEWHERE = {
    "text-to-text": "test_dependence changes each of its settings",
    "completion": "test_dependence changes each of its settings",
    "references": "it has nothing to train on",
    **dict.fromkeys(
        ("latin-folds", "star-graphs", "small-sudoku"),
        "one generator makes all splits, so all settings reach training",
    ),
    "captioning": "annotations and features of all splits are usually one file, so its splits are prepared at once",
}
SPLITS = ("train", "valid", "test")


def sentences(seed, number=20):
    random = Random(seed)
    return [" ".join(random.choices(WORDS, k=random.randint(3, 6))) for _ in range(number)]


def words():
    random = Random(0)
    return [
        f"{word}\t{random.randint(10, 50)}"
        for word in sorted({"".join(random.choices("abcde", k=5)) for _ in range(60)})
    ]


def files(*suffixes):
    return {f"{split}.{suffix}": sentences(split + suffix) for split in SPLITS for suffix in suffixes}


def pairs(*suffixes):
    source, target = suffixes
    return {split: {"source": f"{split}.{source}", "target": f"{split}.{target}"} for split in SPLITS}


TEXT = {split: f"{split}.txt" for split in SPLITS}
TASKS = {
    "sequence-completion": ({"corpus": TEXT, "prefix": 2, "sentences": "lines"}, files("txt"), "rnn-lm"),
    "language-modeling": ({"corpus": TEXT, "window": 5}, files("txt"), "rnn-lm"),
    "word-order": ({"corpus": TEXT, "sentences": "lines"}, files("txt"), "bag-bigrams"),
    "translation": ({"corpus": pairs("de", "en"), "pair": "de-en", "moses": False}, files("de", "en"), "rnn-seq2seq"),
    "code-generation": ({"corpus": pairs("anno", "code")}, files("anno", "code"), "rnn-seq2seq"),
    "word-generation": ({"corpus": {"file": "words.tsv"}, "samples": 6}, {"words.tsv": words()}, "rnn-lm"),
}  # fmt: skip


def setting(**changed):
    return lambda task, files: task.update(changed)


def text(name):
    return lambda task, files: files.update({name: ["a cat", *files[name][1:]]})


def further(task, files):
    files["more.txt"] = sentences("more")
    task["corpus"]["test"]["references"] = ["more.txt"]


#: What is changed, in which task, and whether a training depends on it.
CHANGES = {
    "a line to complete": ("sequence-completion", text("test.txt"), False),
    "a line to train on": ("sequence-completion", text("train.txt"), True),
    "a line of a stream": ("language-modeling", text("test.txt"), False),
    "a line to order": ("word-order", text("test.txt"), False),
    "a line to translate": ("translation", text("test.de"), False),
    "a translation": ("translation", text("test.en"), False),
    "further translations": ("translation", further, False),
    "the target language": ("translation", setting(pair="de-fr"), False),
    "the language that Moses knows": ("translation", setting(pair="de-fr", moses=True), True),
    "a translation to train on": ("translation", text("train.en"), True),
    "a line of code": ("code-generation", text("test.code"), False),
    "its pseudo-code": ("code-generation", text("test.anno"), False),
    "further code": ("code-generation", further, False),
    "code to choose by": ("code-generation", text("valid.code"), True),
    "the rows to decode": ("word-generation", setting(samples=7), False),
    "different words among those": ("word-generation", setting(samples=None, unique=0.9), False),
    "the share to test by": ("word-generation", setting(test=0.3), True),
}


def suite(task, model):
    settings = {} if model == "bag-bigrams" else {"hidden": 4}
    scored = task["name"] == "language-modeling"
    return {
        "suite": "tests/dependence",
        "tasks": {"own": task},
        "models": {"model": {"name": model, **settings}},
        "decoders": {} if scored else {"drawn": {"name": "ancestral"}},
        "metrics": {"nats": {"name": "perplexity"}} if scored else {"length": {"name": "length"}},
        "training": {"updates": 2, "batch_size": 4, "select": {"metric": "loss"}},
        "hardware": {"device": "cpu", "threads": 1},
        "limits": {"max_tokens": 6},
    }


def trained(folder, name, change=lambda task, files: None):
    """Return the keys and digests of all stages of a task, by kind and label."""
    settings, texts, model = deepcopy(TASKS[name])
    task = {"name": name, **settings}
    change(task, texts)
    folder.mkdir()
    for file, lines in texts.items():
        (folder / file).write_text("".join(f"{line}\n" for line in lines))
    with (folder / "suite.yaml").open("w") as file:
        YAML(typ="safe").dump(suite(task, model), file)
    return found(folder)


@pytest.mark.slow(2)
@pytest.mark.parametrize("case", CHANGES)
def test_a_training_is_planned_again_if_and_only_if_it_reads_what_changed(case, tmp_path):
    name, change, depends = CHANGES[case]
    (keys, results), (others, after) = trained(tmp_path / "before", name), trained(tmp_path / "after", name, change)
    assert keys.keys() == others.keys()
    differing = {kind for kind, label in keys if results[kind, label] != after[kind, label]}
    planned = {kind for kind, label in keys if keys[kind, label] != others[kind, label]}
    assert differing <= planned, "stages that are not planned again give other results"
    assert ("train" in planned) == depends
    assert planned, "the change reaches nothing"


def test_every_task_is_tried():
    assert {*parts("task")} == {*TASKS, *ELSEWHERE}
    assert {*TASKS} == {name for name, *_ in CHANGES.values()}
