"""Files of a suite are found from its own folder, else from the working directory, else in the data directory."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import SimpleNamespace

import bench_small.listed
import pytest
from click.testing import CliRunner
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

import bench_core
from bench_core import DataError, PathOrName, Settings, registry
from bench_core.commands.main import bench
from bench_core.execution.undeclared import undeclared
from bench_core.planning.path_settings import located, paths
from bench_core.planning.plan import plan
from bench_core.suites.load import load
from process_watch import Input, Reading

FILED = """
suite: filed
tasks:
  words: {name: filed, file: own/train.txt}
"""
GIVEN = """
suite: given
tasks:
  text:
    name: sequence-completion
    corpus: {train: own/train.txt, valid: own/train.txt, test: own/train.txt}
    sentences: lines
    tokenizer: {kind: pretrained, path: own/tokens}
"""


class TaggerSettings(Settings):
    tagger: PathOrName | None = None
    lists: list[Path] = []


@pytest.fixture
def places(tmp_path, monkeypatch):
    """The folder of a suite, the working directory and the data directory; each may have files."""
    found = {name: tmp_path / name for name in ("suite", "work", "data")}
    for folder in found.values():
        folder.mkdir()
    monkeypatch.chdir(found["work"])
    with registry.extra(bench_small.listed):
        yield found


def put(folder, text, name="own/train.txt"):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def planned(places, text=FILED, suite="suite"):
    path = places[suite] / "suite.yaml"
    path.write_text(text)
    found = plan(load(path), places["data"])
    stage = next(iter(found.stages.values()))
    return stage


@pytest.mark.parametrize(
    "given", [["suite"], ["work"], ["data"], ["work", "suite"], ["data", "work"], ["data", "suite"]]
)
def test_the_suite_is_asked_before_the_working_directory_and_that_before_the_data_directory(places, given):
    for name in given:
        put(places[name], f"text of {name}")
    assert [*planned(places).places] == [str(places[given[-1]] / "own/train.txt")]


def test_a_suite_and_its_files_have_the_same_keys_wherever_they_lie(places):
    put(places["suite"], "text")
    first = planned(places).key
    shutil.rmtree(places["suite"] / "own")
    put(places["data"], "text")
    assert planned(places).key == first
    put(places["suite"], "another text")
    assert planned(places).key != first


def test_a_relative_path_to_the_suite_does_not_change_what_it_finds(places, monkeypatch):
    put(places["suite"], "text")
    (places["suite"] / "suite.yaml").write_text(FILED)
    monkeypatch.chdir(places["suite"].parent)
    stage = next(iter(plan(load(Path("suite/suite.yaml")), places["data"]).stages.values()))
    assert [*stage.places] == [str(places["suite"] / "own/train.txt")]


def test_a_missing_file_is_told_with_all_places_where_it_was_looked_for(places):
    with pytest.raises(DataError) as error:
        planned(places)
    command = ["check", str(places["suite"] / "suite.yaml"), "--data", str(places["data"])]
    checked = CliRunner().invoke(bench, command)
    for text in (str(error.value), " ".join(f"{checked.output} {checked.exception}".split())):
        assert f"there is no file own/train.txt in {places['suite']} or {places['work']} or {places['data']}" in text


def test_a_name_or_path_is_followed_where_it_leads_and_else_left_alone(places):
    settings = TaggerSettings(tagger="en_core_web_sm", lists=["a.txt"])
    (places["data"] / "en_core_web_sm").mkdir()
    assert located(settings, places["data"], places["suite"]) == settings
    assert paths(located(settings, places["data"], places["suite"])) == [(Path("a.txt"), ("lists", "0"))]
    for place in ("work", "suite"):
        (places[place] / "en_core_web_sm").mkdir()
        assert located(settings, places["data"], places["suite"]).tagger == str(places[place] / "en_core_web_sm")
    absolute = TaggerSettings(tagger=str(places["suite"] / "en_core_web_sm"))
    assert located(absolute, places["data"], places["suite"]) == absolute


def tokenizer(folder, words):
    tokens = Tokenizer(models.WordLevel(unk_token="<unk>"))
    tokens.pre_tokenizer = pre_tokenizers.Whitespace()
    tokens.train_from_iterator([words], trainers.WordLevelTrainer(special_tokens=["<end>", "<unk>"]))
    folder.mkdir(parents=True, exist_ok=True)
    tokens.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text('{"eos_token": "<end>"}')


def test_a_tokenizer_beside_the_suite_counts_by_what_its_folder_holds(places, tmp_path):
    put(places["suite"], "a b c d e f g h i j k\n" * 6)
    tokenizer(places["suite"] / "own/tokens", "a b c")
    stage = planned(places, GIVEN)
    assert str(places["suite"] / "own/tokens") in stage.places
    assert not [name for name in stage.settings["data"] if str(tmp_path) in name]
    shutil.move(places["suite"] / "own", places["work"] / "own")
    assert planned(places, GIVEN).key == stage.key
    tokenizer(places["work"] / "own/tokens", "a b d")
    assert planned(places, GIVEN).key != stage.key


def test_a_tokenizer_of_the_data_directory_keeps_its_name_in_keys(places):
    put(places["suite"], "a b c d e f g h i j k\n" * 6)
    tokenizer(places["data"] / "own/tokens", "a b c")
    stage = planned(places, GIVEN)
    assert stage.settings["task"]["tokenizer"]["path"] == "own/tokens"
    assert {*stage.settings["data"]} == {"own/tokens/tokenizer.json", "own/tokens/tokenizer_config.json"}


def test_a_run_reads_the_tokenizer_beside_its_suite_in_another_process(places):
    put(places["suite"], "a b c a b c a b c a b c\n" * 6)
    tokenizer(places["suite"] / "own/tokens", "a b c")
    (places["suite"] / "suite.yaml").write_text(GIVEN)
    bench_core.run(places["suite"] / "suite.yaml", data=places["data"], store="store", out="runs")
    found = {path.read_text() for path in Path("store").glob("prepare/*/data/vocabulary.json")}
    assert found == {'["<end>", "<unk>", "a", "b", "c", "<cpad>"]'}


WORDS = """
suite: words
tasks: {words: {name: word-generation, corpus: {train: ../lists/a.txt, valid: ../lists/a.txt, test: ../lists/a.txt}}}
models: {letters: {name: char-gru, state: 2}}
metrics: {nats: {name: perplexity, unit: token}}
training: {mode: evaluate}
"""


def test_files_above_the_folder_of_the_suite_are_covered_by_keys(tmp_path):
    for name in ("lists", "suites"):
        (tmp_path / name).mkdir()
    (tmp_path / "lists" / "a.txt").write_text("anna bead cab dad ebb fab gab " * 40)
    path = tmp_path / "suites" / "words.yaml"
    path.write_text(WORDS)
    run = bench_core.run(path, store=tmp_path / "store", out=tmp_path / "runs", workers=0, strict=True)
    assert [cell.reason for cell in run.cells] == [""]


def test_the_folders_of_a_covered_file_are_covered_and_no_other_path(tmp_path):
    (tmp_path / "away" / "sub").mkdir(parents=True)
    (tmp_path / "a").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "away" / "sub")
    places = [str(tmp_path / "a/../models/gpt2/w.bin"), str(tmp_path / "link/../t.txt")]
    stage = SimpleNamespace(roots={}, settings={}, places=places)
    found = {
        Input(sort, str(tmp_path / name)): Reading(set(), (), "")
        for sort, name in [
            ("existence", "models"), ("existence", "models/gpt2"), ("existence", "model"), ("existence", "models/gpt"),
            ("listing", "models"), ("status", "models/gpt2/w.bin"), ("file", "models/gpt2/v.bin"),
            ("file", "away/t.txt"), ("file", "t.txt"),  # `..` leads out of the folder that is linked to
        ]
    }  # fmt: skip
    left = undeclared(stage, found, tmp_path)
    assert [(item.sort, Path(item.name).relative_to(tmp_path).as_posix()) for item in left] == [
        ("existence", "model"), ("existence", "models/gpt"), ("listing", "models"), ("file", "models/gpt2/v.bin"),
        ("file", "t.txt"),
    ]  # fmt: skip
