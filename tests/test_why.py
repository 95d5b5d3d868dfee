"""What differs between what is asked for and what is stored, told once and where it enters."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
from collections import Counter
from importlib import import_module
from pathlib import Path

import pytest
from click.testing import CliRunner

import bench_core
from bench_core import registry
from bench_core.commands.main import bench
from bench_core.errors import SuiteError
from bench_core.planning import keys
from bench_core.storage.nearest_artifact import Shelf
from bench_core.storage.recipes import KNOWN, Made, differences, recipe, whole
from bench_core.storage.store import Store

SMALL = {"seeds: 2": "seeds: 1", "epochs: 3": "epochs: 1"}


def ingredients(kind="train", code=(), libraries=(), **settings):
    return {"kind": kind, "settings": settings, "inputs": {}, "code": dict(code), "libraries": dict(libraries)}


def told(before, now):
    return [one.text for one in differences(recipe(before), recipe(now))]


# What differs


@pytest.mark.parametrize(
    ("before", "now", "text"),
    [
        ({"training": {"lr": 0.1}}, {"training": {"lr": 0.2}}, "training.lr: 0.1 -> 0.2"),
        ({"training": {"lr": 1}}, {"training": {"lr": 1.0}}, "training.lr: 1 -> 1.0"),
        ({"training": {"clip": None}}, {"training": {"clip": 1.0}}, "training.clip: null -> 1.0"),
        ({"training": {"warm": False}}, {"training": {"warm": 0}}, "training.warm: false -> 0"),
        ({"task": {"name": "a"}}, {"task": {"name": "a", "longest": None}}, "task.longest: (none) -> null"),
        ({"by": "exact"}, {"by": "half"}, "by: exact -> half"),
        ({"betas": [0.9, 0.99]}, {"betas": [0.9, 0.98]}, "betas: [0.9, 0.99] -> [0.9, 0.98]"),
        ({"phases": [{"lr": 1}, {"lr": 2}]}, {"phases": [{"lr": 1}, {"lr": 3}]}, "phases.1.lr: 2 -> 3"),
        ({"phases": []}, {"phases": [{"lr": 1}]}, 'phases: [] -> [{"lr": 1}]'),
        ({"seed": 0}, {"seed": 1}, "seed: 0 -> 1"),
        ({"device": "cpu"}, {"device": "cuda"}, "device: cpu -> cuda"),
        ({"precision": "fp32"}, {"precision": "bf16"}, "precision: fp32 -> bf16"),
        ({"data": {"a/b.txt": "1f"}}, {"data": {"a/b.txt": "2f"}}, "data a/b.txt: other content"),
        ({"data": {}}, {"data": {"a/b.txt": "2f"}}, "data a/b.txt: read now"),
        ({"files": {"weights": "1f"}}, {"files": {}}, "data weights: no longer read"),
        ({"initial": "1f"}, {"initial": "2f"}, "data initial weights: other content"),
        ({"code": {"bench-x": "1f"}}, {"code": {"bench-x": "2f"}}, "code of bench-x changed"),
        ({"code": {"bench-x": "1f"}}, {}, "code of bench-x no longer takes part"),
        ({"libraries": {"torch": "2.11"}}, {"libraries": {"torch": "2.13"}}, "torch 2.11 -> 2.13"),
    ],
)
def test_each_sort_of_ingredient_is_told_in_its_words(before, now, text):
    assert told(ingredients(**before), ingredients(**now)) == [text]
    assert told(ingredients(**now), ingredients(**now)) == []


def test_another_part_is_one_difference_whatever_its_settings():
    before = ingredients("decode", decoder={"name": "beam", "width": 4, "max_tokens": 6})
    now = ingredients("decode", decoder={"name": "greedy", "max_tokens": 7})
    assert told(before, now) == ["decoder: beam -> greedy"]
    files = ingredients("prepare", task={"name": "t", "corpus": {"train": "a.txt", "test": "b.txt"}})
    named = ingredients("prepare", task={"name": "t", "corpus": {"name": "english", "sentences": 5}})
    assert told(named, files) == ['task.corpus: english -> {"test": "b.txt", "train": "a.txt"}']


def test_of_an_input_that_is_gone_nothing_but_that_is_told():
    now = {
        ("decode",): KNOWN,
        ("train",): KNOWN,
        ("train", "setting", "lr"): whole(1),
        ("", "code", "x"): whole("1f"),
    }
    before = {("decode",): KNOWN, ("train",): whole("5e" * 32)}
    assert [one.text for one in differences(before, now)] == ["made from another training that is no longer stored"]
    kept = {**before, ("", "code", "x"): whole("2f")}
    assert "code of x changed" in [one.text for one in differences(kept, now)]
    added = {**now, ("decode", "setting", "by"): whole("half")}
    assert "by: (none) -> half" in [one.text for one in differences(before, added)], "decoding itself is known"


# Which is the nearest


def made(key, all_of, inputs=None):
    return Made(key, inputs or {}, all_of, all_of)


def some_recipe(draw):
    return recipe(
        ingredients(
            model={"name": draw.choice("ab"), **{name: draw.randrange(2) for name in draw.sample("pqrs", 3)}},
            training={"phases": [{"lr": draw.randrange(2)} for _ in range(draw.randrange(3))]},
            seed=draw.randrange(2),
            code={name: draw.choice("12") for name in draw.sample("xyz", 2)},
        )
    )


def test_the_nearest_of_the_same_parts_has_the_fewest_differences():
    draw = random.Random(1)
    stored = [(float(number), made(str(number), some_recipe(draw))) for number in range(40)]
    asked = [made(f"asked {number}", some_recipe(draw)) for number in range(40)]
    shelf = Shelf(stored, asked)
    for one in asked:
        counts = {}
        for _, other in stored:
            found = differences(other.all, one.all)
            counts[other.key] = any(two.way == ("train", "setting", "model") for two in found), len(found)
        assert counts[shelf.nearest(one).key] == min(counts.values())


def test_ties_go_to_what_is_related_then_to_the_same_settings_then_to_the_last_written():
    def of(lr, code):
        return recipe(ingredients(training={"lr": lr}, code={"x": code}))

    asked = made("asked", of(1, "now"))
    stored = [(1.0, made("by older code", of(1, "then"), {"task": ("prepare", "p")}))]
    stored += [(2.0, made("by much older code", of(1, "once"))), (3.0, made("of another lr", of(2, "now")))]
    assert Shelf(stored, [asked]).nearest(asked).key == "by much older code"
    assert Shelf(stored, [asked]).nearest(asked, {"p"}).key == "by older code"
    assert Shelf(stored[2:], [asked]).nearest(asked).key == "of another lr"


def test_an_artifact_is_not_its_own_nearest():
    one, other = made("one", some_recipe(random.Random(0))), made("other", some_recipe(random.Random(5)))
    assert Shelf([(1.0, one), (0.0, other)], [one]).nearest(one) is other
    assert Shelf([(1.0, one)], [one]).nearest(one) is None
    assert Shelf([], [one]).nearest(one) is None


def test_what_is_lost_with_a_stage_does_not_make_an_artifact_far():
    training = {("train",): KNOWN, ("", "code", "x"): whole("1f"), ("", "code", "y"): whole("1f")}
    asked = made("asked", {("decode",): KNOWN, ("decode", "setting", "by"): whole(1), **training})
    lost = made("lost", {("decode",): KNOWN, ("decode", "setting", "by"): whole(1), ("train",): whole("5e")})
    other = made("other", {**asked.all, ("decode", "setting", "by"): whole(2), ("", "code", "y"): whole("2f")})
    assert Shelf([(0.0, lost), (1.0, other)], [asked]).nearest(asked) is lost


# Real runs


@pytest.fixture
def why(tmp_path, suite_file):
    """Return a function that gives the answer on a suite, or on a run folder, as lines or as JSON data."""

    def ask(*words, target=None, as_json=False, **replaced):
        path = target or suite_file(**{**SMALL, **replaced})
        options = ["--store", tmp_path / "store", "--data", tmp_path, *(["--json"] if as_json else [])]
        found = CliRunner().invoke(
            bench,
            [str(word) for word in ("why", path, *words, *options)],
            catch_exceptions=False,
            standalone_mode=False,
        )
        return json.loads(found.output) if as_json else found.output.splitlines()

    def run(**replaced):
        path = suite_file(**{**SMALL, **replaced})
        return bench_core.run(path, store=tmp_path / "store", out=tmp_path / "runs", data=tmp_path)

    ask.run = run
    ask.store = tmp_path / "store"
    return ask


def groups(lines):
    """Return the reasons by the stages that they are told of, without verdict and notes."""
    blocks = [block.split("\n") for block in "\n".join(lines[1:]).strip().split("\n\n")]
    return {head: [line.strip() for line in reasons] for head, *reasons in blocks if reasons}


def test_all_stored_is_said(why):
    why.run()
    assert why() == ["tests/small: all 15 stages behind 4 cells are stored."]
    assert why("--json", as_json=True)["answers"] == []


def test_where_nothing_is_stored_that_is_said(why):
    lines = why()
    assert lines[0] == "tests/small: 15 of 15 stages behind 4 cells are not stored."
    assert set(map(tuple, groups(lines).values())) == {("nothing like it is stored",)}


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"lr: 0.1": "lr: 0.2"}, "training.lr: 0.1 -> 0.2"),
        ({"threads: 1": "threads: 2"}, "threads: 1 -> 2"),
        ({"device: cpu": "device: cpu, precision: bf16"}, "precision: fp32 -> bf16"),
        ({"seeds: 2": "seeds: [4]"}, "seed: 0 -> 4"),
    ],
)
def test_what_changes_a_training_is_told_once_and_named_as_the_cause(why, change, text):
    why.run()
    lines = why(**change)
    assert lines[0] == "tests/small: 14 of 15 stages behind 4 cells are not stored."
    seed = text[-1] if text.startswith("seed") else 0
    assert list(groups(lines).items()) == [
        (f"cause: train words x one, seed {seed} (and 1 more)", [text]),
        (f"decode words x one x argmax, seed {seed}, test (and 3 more)", ["its training changed, see above"]),
        (f"score words x one by exact, seed {seed}, test (and 1 more)", ["its training changed, see above"]),
        (
            f"measure ended of words x one x argmax, seed {seed}, test (and 3 more)",
            ["its outputs changed, see above"],
        ),
        (f"measure nats of words x one by exact, seed {seed}, test (and 1 more)", ["its scores changed, see above"]),
    ]
    assert "\n".join(lines).count(text) == 1


def test_a_changed_data_file_is_named(why, tmp_path):
    reading = {"{name: letters}": "{name: letters, file: words.txt}"}
    (tmp_path / "words.txt").write_text("ab abc abcd a b c d ab ab abc d d a")
    why.run(**reading)
    (tmp_path / "words.txt").write_text("ab abc abcd a b c d ab ab abc d d")
    found = groups(why(**reading))
    assert found.pop("cause: prepare words") == ["data words.txt: other content"]
    assert not any(head.startswith("cause") for head in found)
    assert ["its task and its training changed, see above"] in found.values()


def test_another_version_of_torch_is_named(why, monkeypatch):
    why.run()
    version = keys.library
    monkeypatch.setattr(keys, "library", lambda name: "9.9" if name == "torch" else version(name))
    found = groups(why())
    assert found["cause: prepare words"] == [f"torch {version('torch')} -> 9.9"]
    assert sum(head.startswith("cause") for head in found) == 1


def test_another_scheme_of_keys_is_named(why, monkeypatch):
    why.run()
    monkeypatch.setattr(keys, "SCHEME", keys.SCHEME + 1)
    found = groups(why())
    assert found.pop("cause: prepare words") == ["the scheme of keys changed"]
    assert not any(head.startswith("cause") for head in found)


@pytest.fixture
def helped(tmp_path, monkeypatch, small):
    """Install a plugin of three files; return the one that its model uses."""
    package = tmp_path / "packages" / "bench_helped"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "helper.py").write_text("def half():\n    return 0.5  # as said\n")
    (package / "model.py").write_text(
        "from bench_helped.helper import half\nfrom bench_small.parts import Bigram\n\n\n"
        "class Helped(Bigram):\n    def _costs(self, batch):\n        return half() * super()._costs(batch)\n"
    )
    (package / "plugin.py").write_text(
        "from bench_core import hookimpl\nfrom bench_small import plugin as parts\n"
        "from bench_small.plugin import BigramConfig\n\nsupports = (1, 1)\n\n\n"
        "class HelpedConfig(BigramConfig):\n    name, target = 'helped', 'bench_helped.model:Helped'\n\n\n"
        "@hookimpl\ndef bench_models():\n    return [HelpedConfig]\n"
        + "".join(
            f"\n\nclass Helped{config}(parts.{config}):\n    name = 'helped-{name}'\n\n\n"
            f"@hookimpl\ndef bench_{kind}s():\n    return [Helped{config}]\n"
            for kind, name, config in (
                ("task", "letters", "LettersConfig"),
                ("decoder", "draw", "DrawConfig"),
                ("metric", "ended", "EndedConfig"),
            )
        )
    )
    monkeypatch.syspath_prepend(package.parent)
    forget()
    with registry.extra(import_module("bench_helped.plugin")):
        yield package / "helper.py"
    forget()
    for name in [name for name in sys.modules if name.startswith("bench_helped")]:
        del sys.modules[name]


def forget():
    """Have digests of code taken anew, as in another process."""
    keys.package_code.cache_clear()
    keys.distribution_code.cache_clear()


def test_a_changed_line_in_a_helper_of_a_plugin_names_the_distribution_and_a_comment_nothing(why, helped):
    models = {"two: {name: bigram, scale: 2.0}": "two: {name: helped}"}
    why.run(**models)
    helped.write_text(helped.read_text().replace("as said", "exactly") + "\n\n# The end.\n")
    forget()
    assert why(**models) == ["tests/small: all 15 stages behind 4 cells are stored."]
    helped.write_text(helped.read_text().replace("0.5", "0.25"))
    forget()
    lines = why(**models)
    assert lines[0] == "tests/small: 7 of 15 stages behind 4 cells are not stored."
    assert next(iter(groups(lines).items())) == ("cause: train words x two, seed 0", ["code of bench_helped changed"])
    assert "\n".join(lines).count("bench_helped") == 1
    assert "words x one" not in "\n".join(lines)


def stored(why):
    """Return kind and label of all that is stored, by key."""
    store = Store(why.store)
    return {key: (kind, store.get(kind, key).manifest["label"]) for kind, key in store.entries()}


@pytest.mark.parametrize(
    ("part", "again"),
    [
        ({"two: {name: bigram, scale: 2.0}": "two: {name: helped}"}, {"train": 1, "decode": 2, "score": 1, "measure": 3}),
        ({"draw: {name: draw}": "draw: {name: helped-draw}"}, {"decode": 2, "measure": 2}),
        ({"ended: {name: ended}": "ended: {name: helped-ended}"}, {"measure": 4}),
        (
            {"ended: {name: ended}": "ended: {name: helped-ended}", "{metric: nats}": "{metric: ended, decoder: draw}"},
            {"train": 2, "decode": 4, "score": 2, "measure": 6},
        ),
        (
            {"words: {name: letters}": "words: {name: helped-letters}"},
            {"prepare": 1, "train": 2, "decode": 4, "score": 2, "measure": 6},
        ),
    ],
    ids=["model", "decoder", "metric", "selection", "task"],
)  # fmt: skip
def test_a_changed_line_in_a_helper_is_run_again_wherever_its_plugin_takes_part_and_nowhere_else(
    why, helped, part, again
):
    why.run(**part)
    before, text = stored(why), helped.read_text()
    helped.write_text(text.replace("as said", "exactly"))
    forget()
    why.run(**part)
    assert stored(why) == before, "a comment reruns nothing"
    helped.write_text(text.replace("0.5", "0.25"))
    forget()
    causes = [answer for answer in why(as_json=True, **part)["answers"] if answer["cause"]]
    assert {one["text"] for answer in causes for one in answer["differences"]} == {"code of bench_helped changed"}
    why.run(**part)
    made = [what for key, what in stored(why).items() if key not in before]
    assert Counter(kind for kind, _ in made) == again
    manifests = {key: Store(why.store).get(kind, key).manifest["ingredients"] for key, (kind, _) in before.items()}
    touched = {key for key, one in manifests.items() if "bench_helped" in one["code"]}
    while (
        behind := {key for key, one in manifests.items() if {made for _, made in one["inputs"].values()} & touched}
        - touched
    ):
        touched |= behind
    assert sorted(made) == sorted(before[key] for key in touched)
    helped.write_text(text)
    forget()
    assert why(**part)[0].startswith("tests/small: all 15 stages")


def test_a_changed_data_file_is_read_again_by_what_read_it_and_by_nothing_else(why, tmp_path):
    reading = {
        "words: {name: letters}": "words: {name: letters}\n  more: {name: letters, file: words.txt}",
        "rows: [decoder]": "rows: [task, decoder]",
    }
    (tmp_path / "words.txt").write_text("ab abc abcd a b c d ab ab abc d d a")
    why.run(**reading)
    before = stored(why)
    os.utime(tmp_path / "words.txt", (0, 0))
    assert why(**reading)[0].startswith("tests/small: all 30 stages"), "its age does not count"
    (tmp_path / "words.txt").write_text("ab abc abcd a b c d ab ab abc d d c")
    found = groups(why(**reading))
    assert [head for head in found if head.startswith("cause")] == ["cause: prepare more"]
    assert found["cause: prepare more"] == ["data words.txt: other content"]
    why.run(**reading)
    made = sorted(what for key, what in stored(why).items() if key not in before)
    assert made == sorted(what for what in before.values() if "more" in what[1])
    assert len(made) == 15


def test_a_changed_file_of_weights_is_read_again_by_what_begins_with_it(why, tmp_path):
    run, weights = why.run(), tmp_path / "initial.safetensors"
    trained = {cell.cell["model"]: why.store / "train" / cell.artifacts["train"] for cell in run.cells}
    begun = {"scale: 2.0}": f"scale: 2.0, training: {{initial: '{weights}'}}}}"}
    shutil.copy(trained["one"] / "weights.safetensors", weights)
    why.run(**begun)
    before = stored(why)
    shutil.copy(trained["two"] / "weights.safetensors", weights)
    found = groups(why(**begun))
    assert found.pop("cause: train words x two, seed 0") == ["data initial weights: other content"]
    assert not any(head.startswith("cause") for head in found)
    why.run(**begun)
    made = sorted(kind for key, (kind, label) in stored(why).items() if key not in before and " x two" in label)
    assert made == sorted(["train", "decode", "decode", "score", "measure", "measure", "measure"])
    assert len(stored(why)) == len(before) + len(made)


def test_a_changed_upstream_counts_as_what_changed_in_it(why):
    why.run()
    why.run(**{"lr: 0.1": "lr: 0.2", "max_tokens: 6": "max_tokens: 5, batch_size: 64", "draw: {name: draw}": ""})
    shutil.rmtree(why.store / "score")
    found = groups(why(**{"lr: 0.1": "lr: 0.2", "draw: {name: draw}": ""}))
    expected = ["in its training: training.lr: 0.1 -> 0.2"]
    assert found["cause: decode words x one x argmax, seed 0, test (and 1 more)"] == expected
    assert not any(head.removeprefix("cause: ").startswith("train") for head in found), "it is stored"


def test_what_is_compared_with_something_made_from_another_upstream_says_so(why):
    why.run(**{"lr: 0.1": "lr: 0.2"})
    for artifact in why.store.glob("train/*"):
        os.utime(artifact, (5, 5))
    for cell in why.run(**{"lr: 0.1": "lr: 0.3"}).cells:
        shutil.rmtree(why.store / "decode" / cell.artifacts["decode"])
    found = groups(why())
    assert found["cause: train words x one, seed 0 (and 1 more)"] == ["training.lr: 0.3 -> 0.1"], "written last"
    reasons = found["cause: decode words x one x argmax, seed 0, test (and 3 more)"]
    assert reasons == ["in its training: training.lr: 0.2 -> 0.1"]
    assert ["its training changed, see above"] in found.values(), "of scores"
    for artifact in why.store.glob("train/*"):
        os.utime(artifact, (0, 0) if artifact.stat().st_mtime > 5 else (5, 5))
    found = groups(why())
    assert found["cause: train words x one, seed 0 (and 1 more)"] == ["training.lr: 0.2 -> 0.1"]
    assert sum(head.startswith("cause") for head in found) == 1


def test_an_added_decoder_is_told_by_its_name(why):
    why.run(**{"  draw: {name: draw}": ""})
    found = groups(why())
    assert found["cause: decode words x one x draw, seed 0, test (and 1 more)"] == ["decoder: argmax -> draw"]
    assert set(map(tuple, found.values())) == {("decoder: argmax -> draw",), ("its outputs changed, see above",)}


def test_a_training_that_is_gone_is_asked_for_since_reports_tell_of_it_but_not_what_was_made_of_it(why):
    why.run()
    shutil.rmtree(why.store / "train")
    lines = why()
    assert lines[0] == "tests/small: 2 of 15 stages behind 4 cells are not stored."
    assert len(groups(lines)) == 1
    found = groups(why(**{"lr: 0.1": "lr: 0.2"}))
    gone = ["made from another training that is no longer stored"]
    assert found["cause: decode words x one x argmax, seed 0, test (and 3 more)"] == gone


def test_a_failure_and_its_log_are_named(why):
    breaking = {"two: {name: bigram, scale: 2.0}": "two: {name: bigram, breaks: training}"}
    why.run(**breaking)
    found = groups(why("two/argmax", **breaking))
    reasons = found["cause: train words x two, seed 0"]
    assert reasons[0] == "it failed when it was last tried"
    assert reasons[1] == "model.breaks: never -> training"
    assert "out of luck" in Path(reasons[2].removeprefix("see ")).read_text()


def test_data_that_cannot_be_read_is_said(why):
    more = {"words: {name: letters}": "words: {name: letters}\n  more: {name: letters, file: absent.txt}"}
    lines = why(**more, **{"rows: [decoder]": "rows: [task, decoder]"})
    assert lines[-1].endswith("absent.txt is missing. Write some words into it.")
    assert "15 of 15 stages behind 8 cells" in lines[0]


def test_a_damaged_manifest_is_passed_over(why):
    why.run()
    for path in (why.store / "train").glob("*/manifest.json"):
        path.write_text("{")
    (why.store / "train" / "stray").mkdir()
    (why.store / "train" / "file").write_text("")
    shutil.rmtree(why.store / "decode")
    shutil.rmtree(why.store / "measure")
    for change in ({}, {"lr: 0.1": "lr: 0.2"}):
        found = groups(why(**change))
        assert found["train words x one, seed 0 (and 1 more)"] == ["nothing like it is stored"]


# Runs


def test_an_unchanged_run_is_said_to_be_as_recorded(why):
    run = why.run()
    assert why(target=run.folder) == [f"{run.folder}: all 15 stages behind 4 cells have the keys that were recorded."]


def test_a_run_is_compared_with_what_it_recorded_and_not_with_what_is_nearer(why, helped):
    models = {"two: {name: bigram, scale: 2.0}": "two: {name: helped}"}
    run = why.run(**models)
    helped.write_text(helped.read_text().replace("0.5", "0.25"))
    forget()
    why.run(**models)
    helped.write_text(helped.read_text().replace("0.25", "0.125"))
    forget()
    found = why(target=run.folder, as_json=True)
    assert found["verdict"].startswith(f"{run.folder}: 7 of 15 stages")
    first = found["answers"][0]
    assert (first["stage"], first["cause"]) == ("train", True)
    assert [one["text"] for one in first["differences"]] == ["code of bench_helped changed"]
    recorded = next(cell.artifacts["train"] for cell in run.cells if cell.cell["model"] == "two")
    assert first["recorded"] == first["compared with"] == recorded
    assert not any(answer["cause"] for answer in found["answers"][1:])


def test_where_the_recorded_artifact_is_gone_the_nearest_stands_in_and_that_is_said(why, monkeypatch):
    why.run(**{"lr: 0.1": "lr: 0.2"})
    run = why.run()
    for cell in run.cells:
        shutil.rmtree(why.store / "train" / cell.artifacts["train"], ignore_errors=True)
    version = keys.library
    monkeypatch.setattr(keys, "library", lambda name: "9.9" if name == "torch" else version(name))
    lines = why(target=run.folder)
    assert groups(lines)["cause: train words x one, seed 0 (and 1 more)"] == [
        "the recorded one is no longer stored; compared with the nearest that is:",
        "training.lr: 0.2 -> 0.1",
        "its task changed, see above",
    ]
    assert groups(lines)["cause: prepare words"] == [f"torch {version('torch')} -> 9.9"]
    assert lines[-1] == "recorded, but not in this store: 2"


def test_the_suite_of_a_run_is_the_one_that_it_had_without_what_it_says_of_reports(why, tmp_path):
    (tmp_path / "references").mkdir()
    printed = "{paper: P, tables: [{id: p, place: Table 1, rows: {argmax: {one/nats: {mean: 1.5}}}}]}"
    (tmp_path / "references" / "a.yaml").write_text(printed)
    run = why.run(**{"lr: 0.1": "lr: 0.2", "values: [ended, nats]": "values: [ended, nats], reference: {table: p}"})
    why.run()
    assert "have the keys that were recorded" in why(target=run.folder)[0]


# Which cells


@pytest.mark.parametrize(
    ("words", "cells"),
    [
        (["words/one/argmax/test, seed 1"], 1),
        (["words/one/argmax/test,", "seed", "1"], 1),
        (["one/argmax"], 2),
        (["words/argmax"], 4),
        (["draw"], 4),
        (["seed 0"], 4),
        (["one, seed 0"], 2),
        (["model=one,seed=0"], 2),
        (["decoder=argmax", "model=two"], 2),
        ([], 8),
    ],
)
def test_cells_are_chosen_by_their_names_and_by_parts_of_them(why, words, cells):
    assert why(*words, as_json=True, **{"seeds: 2": "seeds: 2"})["cells"] == cells


def test_a_grid_is_chosen_by_its_name_and_one_of_it_by_a_setting(why):
    grid = {"two: {name: bigram, scale: 2.0}": "two: {name: bigram, grid: {scale: [2.0, 3.0]}}"}
    assert why("two", as_json=True, **grid)["cells"] == 4
    assert why("two/scale=3.0", as_json=True, **grid)["cells"] == 2
    assert why("scale=3.0/draw", as_json=True, **grid)["cells"] == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["words/onne/argmax"], "no cell has 'onne' in its name. Did you mean 'one'"),
        (["seed 5"], "Did you mean 'seed 0'"),
        (["argmax/one"], "no cell is called 'argmax/one'"),
        (["decoder=argmx"], "Did you mean 'argmax'"),
        (["--profile", "tini"], "no profile 'tini'"),
    ],
)
def test_names_that_no_cell_has_are_refused(why, words, message):
    with pytest.raises(SuiteError, match=message):
        why(*words)


def test_a_request_that_makes_no_sense_is_refused(why, tmp_path):
    run = why.run()
    with pytest.raises(SuiteError, match="has its own suite"):
        why("--set", "training.lr=1", target=run.folder)
    with pytest.raises(SuiteError, match="is not a run"):
        why(target=tmp_path)
    with pytest.raises(SuiteError, match="cannot be read"):
        why(target=tmp_path / "absent.yaml")


def test_a_suite_without_cells_is_asked_for_its_tasks(why):
    text = "suite: tests/tasks\ntasks:\n  words: {name: letters}\ntables:\n  - {id: t, of: tasks, values: [vocabulary]}\n"
    assert why(text=text)[0] == "tests/tasks: 1 of 1 stages are not stored."
    run = why.run(text=text)
    assert why(text=text)[0] == "tests/tasks: all 1 stages are stored."
    assert why(target=run.folder) == [f"{run.folder}: no keys were recorded."]


def test_asking_imports_no_torch(suite_file, tmp_path):
    code = (
        "import sys; import bench_small.plugin; from bench_core import registry; from bench_core.commands.main import bench\n"
        "with registry.extra(bench_small.plugin):\n"
        f"    bench(['why', {str(suite_file())!r}, '--store', {str(tmp_path)!r}], standalone_mode=False)\n"
        "print({'torch', 'spacy', 'scipy', 'matplotlib'} & set(sys.modules))"
    )
    small = Path(__file__).parent / "small"
    found = subprocess.run([sys.executable, "-c", code], cwd=small, capture_output=True, text=True, check=True)
    assert "29 of 29 stages behind 8 cells are not stored" in found.stdout
    assert found.stdout.endswith("set()\n")
