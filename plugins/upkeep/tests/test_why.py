"""What `bench why` says: what changed since the last run of a suite, once and where it enters."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

import bench_core
from bench_core.commands.main import bench
from bench_core.errors import SuiteError
from bench_core.planning import cache_keys as keys
from bench_core.planning.code_digests import forget_code
from bench_upkeep.why import difference, ingredients
from code_digests import CodeDigests, SourceModule

SMALL = {"seeds: 2": "seeds: 1", "epochs: 3": "epochs: 1"}
FASTER = {"lr: 0.1": "lr: 0.2"}
GONE = "unknown ingredients: the recorded artifact or one of its inputs is not stored"


def made(code=(), libraries=(), **settings):
    return {"kind": "train", "settings": settings, "inputs": {}, "code": dict(code), "libraries": dict(libraries)}


@pytest.mark.parametrize(
    ("before", "now", "text"),
    [
        ({"training": {"lr": 0.1}}, {"training": {"lr": 0.2}}, "training.lr: 0.1 -> 0.2"),
        ({"training": {"lr": 1}}, {"training": {"lr": 1.0}}, "training.lr: 1 -> 1.0"),
        ({"training": {"warm": False}}, {"training": {"warm": 0}}, "training.warm: false -> 0"),
        ({"task": {"name": "a"}}, {"task": {"name": "a", "longest": None}}, "task.longest: (none) -> null"),
        ({"betas": [0.9, 0.99]}, {"betas": [0.9, 0.98]}, "betas: [0.9, 0.99] -> [0.9, 0.98]"),
        ({"phases": [{"lr": 1}, {"lr": 2}]}, {"phases": [{"lr": 1}, {"lr": 3}]}, "phases.1.lr: 2 -> 3"),
        ({"device": "cpu"}, {"device": "cuda"}, "device: cpu -> cuda"),
        ({"words": f"sha256:{64 * '1'}.txt"}, {"words": f"sha256:{64 * '2'}.txt"}, "words: other content"),
        ({"words": "a" * 100}, {"words": "b"}, f"words: {60 * 'a'} … -> b"),
        (
            {"paths": [f"sha256:{64 * '1'}.txt"]},
            {"paths": [f"sha256:{64 * '2'}.txt"]},
            f'paths: ["sha256:{12 * "1"}….txt"] -> ["sha256:{12 * "2"}….txt"]',
        ),
        ({"data": {"a/b.txt": "1f"}}, {"data": {"a/b.txt": "2f"}}, "data a/b.txt: other content"),
        ({"data": {}}, {"data": {"a/b.txt": "2f"}}, "data a/b.txt: read now"),
        ({"files": {"weights": "1f"}}, {"files": {}}, "data weights: no longer read"),
        ({"initial": "1f"}, {"initial": "2f"}, "data initial weights: other content"),
        ({"code": {"bench-x": "1f"}}, {"code": {"bench-x": "2f"}}, "code of bench-x changed"),
        ({"code": {}}, {"code": {"bench-x": "2f"}}, "code of bench-x is used now"),
        ({"code": {"bench-x": "1f"}}, {}, "code of bench-x is no longer used"),
        ({"libraries": {"torch": "2.11"}}, {"libraries": {"torch": "2.13"}}, "torch 2.11 -> 2.13"),
    ],
)
def test_each_kind_of_ingredient_has_its_words(before, now, text):
    one, other = (ingredients(made(**each), keys.key_of(made(**each))) for each in (before, now))
    (way,) = (way for way in {**one, **other} if one.get(way) != other.get(way))
    assert difference(*way, one.get(way), other.get(way)).text == text


@pytest.fixture
def why(tmp_path, suite_file):
    """Return a function that gives the answer on a suite, or on a run folder, as lines or as JSON data."""

    def ask(*words, target=None, as_json=False, **replaced):
        path = target or suite_file(**{**SMALL, **replaced})
        options = ["--store", ask.store, "--data", tmp_path, "--runs", ask.runs, *(["--json"] if as_json else [])]
        words = [str(word) for word in ("why", path, *words, *options)]
        found = CliRunner().invoke(bench, words, catch_exceptions=False, standalone_mode=False)
        return json.loads(found.output) if as_json else found.output.splitlines()

    def run(**replaced):
        path = suite_file(**{**SMALL, **replaced})
        return bench_core.run(path, store=ask.store, out=ask.runs, data=tmp_path)

    ask.run, ask.store, ask.runs = run, tmp_path / "store", tmp_path / "runs"
    return ask


def groups(lines):
    """Return the reasons by the stages that they are given for, without verdict and notes."""
    blocks = [block.split("\n") for block in "\n".join(lines[1:]).strip().split("\n\n")]
    return {head: [line.strip() for line in reasons] for head, *reasons in blocks if reasons and reasons[0][0] == " "}


def causes(lines):
    return {head: reasons for head, reasons in groups(lines).items() if head.startswith("cause: ")}


def test_all_that_is_stored_needs_no_reason(why):
    why.run()
    assert why() == ["tests/small: everything needed of 15 stages behind 4 cells is stored."]


def test_without_a_run_of_the_suite_nothing_is_compared(why):
    why.run(**{"suite: tests/small": "suite: tests/small-er"})
    shutil.rmtree(why.store)
    assert why() == [
        "tests/small: 15 of 15 stages behind 4 cells are not stored.",
        "",
        f"no run of tests/small in {why.runs}/: nothing to compare with",
    ]
    assert why(as_json=True)["answers"] == []


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (FASTER, "training.lr: 0.1 -> 0.2"),
        ({"threads: 1": "threads: 2"}, "threads: 1 -> 2"),
        ({"device: cpu": "device: cpu, precision: bf16"}, "precision: fp32 -> bf16"),
        ({"seeds: 2": "seeds: [4]"}, "new: not recorded by that run"),
    ],
)
def test_what_changes_a_training_is_told_once_and_its_followers_are_no_causes(why, change, text):
    run, seed = why.run(), 4 if "seeds: 2" in change else 0
    lines = why(**change)
    assert lines[0] == "tests/small: 14 of 15 stages behind 4 cells are not stored."
    training, outputs, scores = ([f"follows from its {one}, see above"] for one in ("training", "outputs", "scores"))
    assert list(groups(lines).items()) == [
        (f"cause: train words x one, seed {seed} (and 1 more)", [text]),
        (f"decode words x one x argmax, seed {seed}, test (and 3 more)", training),
        (f"measure ended of words x one x argmax, seed {seed}, test (and 3 more)", outputs),
        (f"score words x one by exact, seed {seed}, test (and 1 more)", training),
        (f"measure nats of words x one by exact, seed {seed}, test (and 1 more)", scores),
    ]
    assert lines[-1] == f"compared with {run.folder}"


def test_causes_come_first_and_one_stage_may_have_another_cause_than_the_next(why):
    why.run()
    lines = why(**{"scale: 2.0": "scale: 3.0", "max_tokens: 6": "max_tokens: 5"})
    limit, training = "decoder.max_tokens: 6 -> 5", "follows from its training, see above"
    found = causes(lines)
    assert found["cause: train words x two, seed 0"] == ["model.scale: 2.0 -> 3.0"]
    assert found["cause: decode words x one x argmax, seed 0, test (and 1 more)"] == [limit]
    assert found["cause: decode words x two x argmax, seed 0, test (and 1 more)"] == [limit, training]
    assert [*groups(lines)][: len(found)] == [*found]
    assert len(groups(lines)) > len(found)


def test_a_changed_input_that_is_stored_by_now_is_told_where_it_is_read(why):
    why.run()
    run = why.run(**FASTER)
    for cell in run.cells:
        shutil.rmtree(why.store / "decode" / cell.artifacts["decode"])
    shutil.rmtree(run.folder)
    head = "cause: decode words x one x argmax, seed 0, test (and 3 more)"
    assert groups(why(**FASTER)) == {head: ["training.lr: 0.1 -> 0.2"]}


def test_a_changed_data_file_is_named(why, tmp_path):
    reading = {"{name: letters}": "{name: letters, file: words.txt}"}
    (tmp_path / "words.txt").write_text("ab abc abcd a b c d ab ab abc d d a")
    why.run(**reading)
    (tmp_path / "words.txt").write_text("ab abc abcd a b c d ab ab abc d d")
    lines = why(**reading)
    assert causes(lines) == {"cause: prepare words": ["data words.txt: other content"]}
    assert ["follows from its task and its training, see above"] in groups(lines).values()
    (tmp_path / "words.txt").unlink()
    more = {"{name: letters}": "{name: letters}\n  more: {name: letters, file: words.txt}"}
    note = why(**more, **{"rows: [decoder]": "rows: [task, decoder]"})[-1]
    assert note.endswith("words.txt is missing. Write some words into it.")


def test_another_version_of_torch_and_another_scheme_of_keys_are_named(why, monkeypatch):
    why.run()
    version = keys.library
    with monkeypatch.context() as patched:
        patched.setattr(keys, "library", lambda name: "9.9" if name == "torch" else version(name))
        assert causes(why()) == {"cause: prepare words": [f"torch {version('torch')} -> 9.9"]}
    monkeypatch.setattr(keys, "SCHEME", keys.SCHEME + 1)
    assert causes(why()) == {"cause: prepare words": ["the scheme of keys changed"]}


@pytest.mark.slow
def test_changed_code_is_named_and_a_run_is_compared_with_what_it_recorded(why, monkeypatch):
    run, parse = why.run(), SourceModule.parse
    assert why(target=run.folder) == [f"{run.folder}: none of 15 stages behind 4 cells have changed keys."]
    for edited in ("number % 5", "number % 6"):

        def edit(name, path, source, silent, edited=edited):
            return parse(name, path, source.replace("number % 4", edited), silent)

        monkeypatch.setattr(SourceModule, "parse", edit)
        forget_code()
        for lines in (why(), why(target=run.folder)):
            assert "15 of 15 stages" in lines[0]
            assert causes(lines) == {"cause: prepare words": ["code of bench_small.parts:Letters changed"]}
        why.run()
        assert [one["cause"] for one in why(target=run.folder, as_json=True)["answers"]] == [True, *[False] * 14]
    forget_code()


def test_where_no_listing_of_the_code_is_left_the_part_is_named(why, monkeypatch):
    run, of_parts = why.run(), CodeDigests.of_parts
    monkeypatch.setattr(
        CodeDigests,
        "of_parts",
        lambda self, roots: {**of_parts(self, roots), **dict.fromkeys({*roots} & {"decode"}, "1f")},
    )
    told = ["code of decode changed"]
    assert [*causes(why()).values()] == [told], "the definitions are the same: something else counts"
    shutil.rmtree(why.store / "code")
    assert [*causes(why(target=run.folder)).values()] == [told]


def test_the_last_run_of_the_suite_is_taken(why):
    first, last = why.run(), why.run(**FASTER)
    why.run(**{"suite: tests/small": "suite: tests/small-er", "lr: 0.1": "lr: 0.9"})
    slower = {"lr: 0.1": "lr: 0.4"}
    os.utime(first.folder)  # such as by a report
    first = first.folder.rename(why.runs / "tests-small-20260101-000000")
    last = last.folder.rename(why.runs / "tests-small-20260102-000000")
    assert [*causes(why(**slower)).values()] == [["training.lr: 0.2 -> 0.4"]]
    (last / "cells.jsonl").write_text("{")
    lines = why(**slower)
    assert [*causes(lines).values()] == [["training.lr: 0.1 -> 0.4"]], "the other cannot be read"
    assert lines[-1] == f"compared with {first}"


@pytest.mark.parametrize("odd", [None, 3, {"settings": 3}, made(code={"x": 1}) | {"inputs": {"task": 1}}])
def test_of_an_artifact_that_is_gone_or_odd_nothing_is_known_and_its_followers_are_no_causes(why, odd):
    why.run()
    for folder in [*(why.store / "train").iterdir()]:
        manifest = json.loads((folder / "manifest.json").read_text()) | {"ingredients": odd}
        old = {name: value for name, value in manifest.items() if name not in ("seal", "format")}
        shutil.rmtree(folder) if odd is None else (folder / "manifest.json").write_text(json.dumps(old))
    assert causes(why(**FASTER)) == {"cause: train words x one, seed 0 (and 1 more)": [GONE]}


def test_what_did_not_change_is_said_to_be_gone(why):
    why.run()
    shutil.rmtree(why.store / "train")
    same = "nothing changed since that run: the stage did not finish in it, or was removed later"
    assert groups(why()) == {"train words x one, seed 0 (and 1 more)": [same]}


def test_a_failure_is_mentioned_with_its_log(why):
    breaking = {"two: {name: bigram, scale: 2.0}": "two: {name: bigram, breaks: training}"}
    why.run(**breaking)
    note = why("two/argmax", **breaking)[-1]
    assert note.startswith("failures of these stages: 1, such as ")
    assert "out of luck" in Path(note.partition("such as ")[2]).read_text()


def test_json_says_the_same(why):
    run = why.run()
    found = why(as_json=True, **FASTER)
    assert found["notes"] == [f"compared with {run.folder}"]
    assert (found["cells"], found["stages"], len(found["answers"])) == (4, 15, 14)
    first, second, *_ = found["answers"]
    lr = {"what": "setting", "name": "training.lr", "before": 0.1, "now": 0.2, "text": "training.lr: 0.1 -> 0.2"}
    assert (first["stage"], first["of"], first["cause"]) == ("train", "words x one, seed 0", True)
    assert (first["differences"], first["follows"]) == ([lr], [])
    assert first["recorded"] == next(cell.artifacts["train"] for cell in run.cells if cell.cell["model"] == "one")
    assert (second["cause"], second["differences"], second["follows"]) == (False, [], ["train"])


def test_names_with_control_characters_do_not_reach_the_terminal(why):
    bad = {"one: {": '"\\e[31m\\u202Eone": {', **FASTER}
    why.run(**{**bad, "lr: 0.1": "lr: 0.3"})
    told = "\n".join(why(**bad))
    assert "training.lr: 0.3 -> 0.2" in told
    assert "[U+001B][31m[U+202E]one" in told
    assert not {"\x1b", "\u202e"} & {*told}


def test_cells_are_chosen_by_words_of_their_names_and_by_axes(why):
    for words, cells in [("words/one/argmax/test, seed 1", 1), ("words/one/argmax/test,|seed|1", 1), ("words/argmax", 4),
                         ("one, seed 0", 2), ("model=one,seed=0", 2), ("decoder=argmax|model=two", 2), ("", 8)]:  # fmt: skip
        assert why(*words.split("|"), as_json=True, **{"seeds: 2": "seeds: 2"})["cells"] == cells, words


def test_names_that_no_cell_has_and_requests_that_make_no_sense_are_refused(why, tmp_path):
    run = why.run()
    for words, target, message in [
        (["words/onne/argmax"], None, "no cell is called 'words/onne/argmax'. Did you mean 'one'"),
        (["argmax/two, seed 5"], run.folder, "Did you mean 'seed 0'"),
        (["decoder=argmx"], None, "Did you mean 'argmax'"),
        (["--profile", "tini"], None, "no profile 'tini'"),
        (["--set", "training.lr=1"], run.folder, "has its own suite"),
        ([], tmp_path, "is not a run"),
        ([], tmp_path / "absent.yaml", "cannot be read"),
    ]:
        with pytest.raises(SuiteError, match=message):
            why(*words, target=target)


@pytest.mark.slow
def test_asking_imports_no_torch(suite_file, tmp_path):
    code = (
        "import sys; import bench_small.plugin; from bench_core import registry; from bench_core.commands.main import bench\n"
        "with registry.extra(bench_small.plugin):\n"
        f"    bench(['why', {str(suite_file())!r}, '--store', {str(tmp_path)!r}], standalone_mode=False)\n"
        "print({'torch', 'spacy', 'scipy', 'matplotlib'} & set(sys.modules))"
    )
    small = Path(__file__).parents[3] / "tests" / "small"
    found = subprocess.run([sys.executable, "-c", code], cwd=small, capture_output=True, text=True, check=True)
    assert "29 of 29 stages behind 8 cells are not stored" in found.stdout
    assert found.stdout.endswith("set()\n")
