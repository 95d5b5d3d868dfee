from __future__ import annotations

import gzip
import re
import subprocess
import sys
from hashlib import sha256
from itertools import permutations
from pathlib import Path

import pytest
from pydantic import ValidationError
from ruamel.yaml import YAML

from bench_authors.testing import TaskCase, check_task
from bench_core import DataError, Purpose, Size
from bench_translation.plugin import TranslationConfig

ENGLISH = ["A man sits.", "Two women, both young, walk.", "A dog runs!", "Mr. Smith's cat sleeps.", "A man walks."]
OTHER = [
    "Ein Mann sitzt.",
    "Zwei Frauen, beide jung, gehen.",
    "Ein Hund rennt!",
    "Die Katze schläft.",
    "Ein Mann geht.",
]
JAPANESE = ["男が座る。", "二人の女が歩く。", "犬が走る！", "猫が寝る。", "男が歩く。"]
FOLDERS = {
    "multi30k": [f"{split}.{{}}.gz" for split in ("train", "val", "test_2016_flickr")],
    "small_parallel_enja": ["train.{}", "dev.{}", "test.{}"],
    "wmt-ro-en": ["europarl-v8.ro-en.{}", "SETIMES2.en-ro.{}", "newsdev2016.{}", "newstest2016.{}"],
    "wmt-tr-en": ["SETIMES2.en-tr.{}", "newstest2016.{}", "newstest2017.{}", "newstest2018.{}"],
    "kftt": ["kyoto-train.{}", "kyoto-dev.{}", "kyoto-test.{}"],
    "mine": ["train.{}", "valid.{}", "test.{}"],
}
LONG = {"en": "eng", "ro": "ron", "tr": "tur"}
SPACED = {"ja": [" ".join(line) for line in JAPANESE]}


def write(path, lines):
    content = "".join(f"{line}\n" for line in lines).encode()
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(gzip.compress(content, mtime=0) if path.suffix == ".gz" else content)


def lines_of(language, name):
    lines = {"en": ENGLISH, "ja": SPACED["ja"] if name.startswith(("dev", "train", "test")) else JAPANESE}
    return [f"{line} {name.split('.')[0]}" for line in lines.get(language, OTHER)]


def put(data, folder, languages):
    for name in FOLDERS[folder]:
        for language in languages:
            long = name.startswith("newstest")
            write(data / folder / name.format(LONG[language] if long else language), lines_of(language, name))
    return data


def prepared(data, folder, **settings):
    folder.mkdir(exist_ok=True)
    config = TranslationConfig.model_validate(settings)
    task = config.load()(config, folder)
    return task, task.prepare(data)


CHARACTERS = {"tokenizer": "char"}
KNOWN = [
    ("multi30k", "de-en", {}),
    ("multi30k", "fr-de", {"tokenizer": {"kind": "bpe", "vocab_size": 300}, "shared": True}),
    ("small_parallel_enja", "en-ja", {}),
    ("small_parallel_enja", "ja-en", {}),
    ("wmt-ro-en", "en-ro", {}),
    ("wmt-tr-en", "tr-en", {"lowercase": True}),
    ("kftt", "ja-en", {"tokenizer": {"source": "char", "target": "word"}}),
    ("kftt", "en-ja", CHARACTERS),
    ("mine", "cs-en", {}),
]


@pytest.mark.parametrize(("name", "pair", "settings"), KNOWN)
def test_each_corpus_is_read_as_its_publishers_lay_it_out(tmp_path, name, pair, settings):
    data = put(tmp_path, name, pair.split("-"))
    task, info = prepared(data, tmp_path / "folder", corpus=name, pair=pair, **settings)
    splits = {"train": 0, "valid": -2, "test": -1}
    if name == "wmt-tr-en":
        splits = {"train": 0, "valid": 1, "test": 2, "newstest2018": 3}
    for split, place in splits.items():
        file = FOLDERS[name][place]
        source, target = (lines_of(language, file) for language in pair.split("-"))
        if name == "wmt-ro-en" and split == "train":  # two corpora, one after the other
            source, target = (
                lines_of(language, file) + lines_of(language, FOLDERS[name][1]) for language in pair.split("-")
            )
        assert task.sources(split) == dict(enumerate(source))
        lowered = str.lower if settings.get("lowercase") else str
        assert task.references(split) == {number: [lowered(line)] for number, line in enumerate(target)}
        assert info.extras["statistics"][split]["pairs"] == len(source)
        assert task.config.purposes(split) == set(Purpose)
    assert not task.config.purposes("nonsense")
    assert info.extras["languages"] == dict(zip(("source", "target"), pair.split("-"), strict=True))
    assert info.extras["corpus"] == name
    assert not info.extras["embedded"]


@pytest.mark.quick(1, 2)
@pytest.mark.parametrize(("name", "pair", "settings"), KNOWN)
def test_every_corpus_keeps_all_contracts(tmp_path, name, pair, settings):
    data = put(tmp_path, name, pair.split("-"))
    config = TranslationConfig.model_validate({"corpus": name, "pair": pair, **settings})
    (tmp_path / "folder").mkdir()
    assert check_task(TaskCase.of(config, data, tmp_path / "folder"))


def test_texts_are_as_the_references(tmp_path):
    put(tmp_path, "multi30k", ["de", "en"])
    task, _ = prepared(tmp_path, tmp_path / "folder", corpus="multi30k")
    (batch,) = task.batches("train", Purpose.DECODE, Size(10))
    texts = [
        task.text(row[: length - 1]) for row, length in zip(batch.gold.tolist(), batch.length.tolist(), strict=True)
    ]
    assert texts == lines_of("en", "train")


def test_digests_are_those_of_the_files_of_the_pair(tmp_path):
    put(tmp_path, "multi30k", ["de", "en", "fr"])
    found = TranslationConfig(corpus="multi30k", pair="fr-de").reads(tmp_path)
    assert set(found) == {
        f"multi30k/{name.format(language)}" for name in FOLDERS["multi30k"] for language in ("fr", "de")
    }
    content = (tmp_path / "multi30k" / "train.fr.gz").read_bytes()
    assert found["multi30k/train.fr.gz"] == sha256(content).hexdigest()
    assert TranslationConfig().reads(tmp_path) == {}


def test_splits_of_one_file_divide_every_hundred_of_its_pairs(tmp_path):
    lines = {language: [f"{language} {number}" for number in range(230)] for language in ("tr", "en")}
    for language in lines:
        write(tmp_path / "tatoeba-tr-ro-en" / f"tatoeba-test-v2021-08-07.eng-tur.{LONG[language]}", lines[language])
    task, _ = prepared(tmp_path, tmp_path / "folder", corpus="tatoeba", pair="tr-en")
    wanted = {"train": range(80), "valid": range(80, 90), "test": range(90, 100)}
    for split, share in wanted.items():
        numbers = [number for number in range(230) if number % 100 in share]
        assert [*task.sources(split).values()] == [lines["tr"][number] for number in numbers]
        assert [*task.references(split).values()] == [[lines["en"][number]] for number in numbers]


@pytest.mark.parametrize("name", ["wmt-ro-en", "wmt-tr-en", "kftt"])
def test_a_missing_training_part_is_told_with_its_files_and_their_home(tmp_path, name):
    pair = {"wmt-ro-en": "ro-en", "wmt-tr-en": "tr-en", "kftt": "ja-en"}[name]
    put(tmp_path, name, pair.split("-"))
    missing = [
        path for path in (tmp_path / name).iterdir() if path.name.startswith(("SETIMES2", "europarl", "kyoto-train"))
    ]
    for path in missing:
        path.unlink()
    with pytest.raises(DataError, match=r"no training files in.*https://.*`train:`") as error:
        TranslationConfig.model_validate({"corpus": name, "tokenizer": "char"}).reads(tmp_path)
    assert all(path.name in str(error.value) for path in missing)


def test_files_of_ones_own_stand_in_for_a_missing_training_part(tmp_path):
    put(tmp_path, "kftt", ["ja", "en"])
    for path in list((tmp_path / "kftt").glob("kyoto-train.*")):
        path.unlink()
    write(tmp_path / "own" / "a.ja", ["犬", "猫"])
    write(tmp_path / "own" / "a.en", ["a dog", "a cat"])
    train = {"source": "own/a.ja", "target": "own/a.en"}
    task, info = prepared(tmp_path, tmp_path / "folder", corpus={"name": "kftt", "train": train}, tokenizer="char")
    assert task.references("train") == {0: ["a dog"], 1: ["a cat"]}
    label = info.extras["corpus"].pop("train")
    assert label.startswith("a.ja (")
    assert info.extras["corpus"] == {"valid": "kftt", "test": "kftt"}
    assert info.extras["statistics"]["test"]["pairs"] == 5


def own(tmp_path, source=ENGLISH, target=OTHER, split="train", tail=("", "")):
    """Write a user's own files, of which those of one split are given."""
    corpus = {}
    for each in ("train", "valid", "test"):
        sides = (source, target) if each == split else (ENGLISH, OTHER)
        corpus[each] = {"source": f"{each}.en", "target": f"{each}.de"}
        for name, lines, end in zip(corpus[each].values(), sides, tail, strict=True):
            content = "".join(f"{line}\n" for line in lines) + (end if each == split else "")
            (tmp_path / name).write_bytes(content.encode("utf-8", "surrogateescape"))
    return {"corpus": corpus, "pair": "en-de"}


def test_own_files_are_below_the_data_directory_and_several_are_joined(tmp_path):
    settings = own(tmp_path)
    settings["corpus"]["train"] = {"source": ["train.en", "valid.en"], "target": ["train.de", "valid.de"]}
    task, info = prepared(tmp_path, tmp_path / "folder", **settings)
    assert list(task.sources("train").values()) == ENGLISH * 2
    assert [label[:9] for label in info.extras["corpus"].values()] == ["train.en ", "valid.en ", "test.en ("]
    assert set(task.config.reads(tmp_path)) == {
        f"{split}.{end}" for split in settings["corpus"] for end in ("en", "de")
    }


def test_lines_end_with_a_line_feed_and_nothing_else(tmp_path):
    hostile = ["a\x85b c", "d\u2028e", "f\x1cg\x1dh", "i\u00a0j", "k\tl", "m\x0bn\x0co"]
    settings = own(tmp_path, hostile, [line.upper() for line in hostile], "test")
    task, _ = prepared(tmp_path, tmp_path / "folder", **settings)
    assert list(task.sources("test").values()) == hostile
    assert [line for (line,) in task.references("test").values()] == [line.upper() for line in hostile]
    batches = list(task.batches("test", Purpose.DECODE, Size(2)))
    assert [number for batch in batches for number in batch.ids.tolist()] == list(range(6))


def test_a_byte_order_mark_and_line_ends_of_windows_are_no_text(tmp_path):
    settings = own(tmp_path)
    (tmp_path / "test.en").write_bytes(b"\xef\xbb\xbfone\r\ntwo\r\n")
    (tmp_path / "test.de").write_bytes(b"eins\nzwei")
    task, _ = prepared(tmp_path, tmp_path / "folder", **settings)
    assert task.sources("test") == {0: "one", 1: "two"}
    assert task.references("test") == {0: ["eins"], 1: ["zwei"]}


def test_unequal_files_are_refused_with_both_counts(tmp_path):
    settings = own(tmp_path, ENGLISH, OTHER[:-1], "valid")
    with pytest.raises(DataError, match=r"valid\.en has 5 lines, but .*valid\.de has 4"):
        prepared(tmp_path, tmp_path / "folder", **settings)


def test_empty_lines_are_not_trained_on_and_counted(tmp_path):
    settings = own(tmp_path, ["", *ENGLISH[1:3], " \u00a0", ENGLISH[4]], [*OTHER[:4], "\x07"])
    task, info = prepared(tmp_path, tmp_path / "folder", **settings)
    assert info.extras["statistics"]["train"]["left_out_empty"] == 3
    assert task.sources("train") == {1: ENGLISH[1], 2: ENGLISH[2]}
    assert task.references("train") == {1: [OTHER[1]], 2: [OTHER[2]]}
    (batch,) = task.batches("train", Purpose.SCORE, Size(10))
    assert batch.ids.tolist() == [1, 2]


def test_an_empty_line_to_test_on_is_refused_by_file_and_line(tmp_path):
    settings = own(tmp_path, ENGLISH, [*OTHER[:2], "  ", OTHER[3], ""], "test")
    with pytest.raises(DataError, match=r"line 3 of .*test\.de; other incomplete pairs: 1\. Every pair in test"):
        prepared(tmp_path, tmp_path / "folder", **settings)


def test_a_line_is_found_in_the_file_that_has_it(tmp_path):
    settings = own(tmp_path, ENGLISH, [*OTHER[:4], ""], "test")
    settings["corpus"]["test"] = {"source": ["valid.en", "test.en"], "target": ["valid.de", "test.de"]}
    with pytest.raises(DataError, match=r"line 5 of .*test\.de\."):
        prepared(tmp_path, tmp_path / "folder", **settings)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"fine\ncaf\xe9\n", r"test\.de is not UTF-8.*line 2"),
        ("vier\n".encode("utf-16"), r"test\.de is UTF-16"),
        (b"a\0b\n", r"test\.de is not text"),
        (b"", r"empty: .*test\.de"),
    ],
)
def test_files_that_are_no_text_are_refused_by_name(tmp_path, content, message):
    settings = own(tmp_path)
    (tmp_path / "test.de").write_bytes(content)
    with pytest.raises(DataError, match=message):
        prepared(tmp_path, tmp_path / "folder", **settings)


def test_an_unknown_corpus_is_answered_with_the_nearest_name(tmp_path):
    for name, message in (("multi30", "Did you mean 'multi30k'"), ("wikitext-2", "is not parallel. Known: multi30k")):
        with pytest.raises(DataError, match=message) as error:
            TranslationConfig(corpus=name, pair="de-en").reads(tmp_path)
        assert "valid.de, valid.en" in str(error.value)
    with pytest.raises(DataError, match=r"train\.de\.gz is missing.*bench data fetch multi30k"):
        TranslationConfig(corpus="multi30k").reads(tmp_path)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"corpus": "multi30k", "pair": "de-ja"}, "'de-ja' is not a pair of this corpus; it has de, en, fr"),
        ({"corpus": "multi30k", "pair": "de-de"}, "not a pair"),
        ({"corpus": "multi30k", "pair": "German"}, "pattern"),
        ({"pair": "de-en"}, "it has en, art"),
        ({"corpus": "mine"}, "such as `pair: de-en`"),
        ({"corpus": "kftt"}, "words of 'ja' are not separated by spaces"),
        ({"corpus": "kftt", "tokenizer": {"source": "char", "target": "bpe"}, "shared": True}, "same tokenizer"),
        ({"corpus": {}, "pair": "de-en"}, "at least one of `train`, `valid`, `test` and `tests`"),
        (
            {"corpus": {"tests": {"valid": {"source": "a", "target": "b"}}}, "pair": "de-en"},
            "cannot be called 'valid'",
        ),
        ({"corpus": {"tests": {"a b": {"source": "a", "target": "b"}}}, "pair": "de-en"}, "pattern"),
        (
            {"corpus": {"name": "kftt", "train": {"source": ["a", "b"], "target": "c"}}, "tokenizer": "char"},
            "must have the same length",
        ),
        ({"corpus": {"name": "invented", "sentence": 3}}, "sentence"),
        ({"corpus": 3}, "name of a corpus"),
        ({"tokenizer": "words"}, "'bpe'"),
        ({"over_limit": "truncate"}, "source_limit"),
        ({"ratio": 0.5}, "ratio"),
    ],
)
def test_settings_that_cannot_be_are_refused(settings, message):
    with pytest.raises(ValidationError, match=message):
        TranslationConfig.model_validate(settings)


def test_settings_survive_being_written_down():
    for settings in (
        {},
        {"corpus": "multi30k", "pair": "fr-en", "tokenizer": {"kind": "bpe", "vocab_size": 500}, "shared": True},
        {
            "corpus": {"name": "kftt", "train": {"source": "a", "target": "b"}},
            "tokenizer": {"source": "char", "target": "word"},
        },
    ):
        config = TranslationConfig.model_validate(settings)
        assert TranslationConfig.model_validate(config.model_dump(mode="json")) == config
    assert TranslationConfig(corpus="multi30k").languages == ("de", "en")
    assert TranslationConfig(corpus="small_parallel_enja").languages == ("en", "ja")


def test_the_suite_of_the_readme_says_what_can_be():
    readme = (Path(__file__).parent.parent / "README.md").read_text()
    suites = [YAML(typ="safe").load(text) for text in re.findall(r"```yaml\n(.*?)```", readme, re.DOTALL)]
    for task in (task for suite in suites for task in suite.get("tasks", {}).values()):
        assert task.pop("name") == "translation"
        assert len(TranslationConfig.model_validate(task).languages) == 2


def test_a_plan_needs_neither_torch_nor_numpy_nor_sacremoses():
    code = """if True:
        import sys
        from pathlib import Path
        from bench_translation.plugin import TranslationConfig
        TranslationConfig().reads(Path("."))
        print(*{"torch", "numpy", "sacremoses", "tokenizers"} & set(sys.modules))
    """
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "\n"


def test_the_catalogue_has_every_file_but_those_to_train_on_that_cannot_be_fetched():
    from bench_text.api import corpora
    from bench_translation.layouts import LAYOUTS

    for name, layout in LAYOUTS.items():
        splits = set(layout.splits) - ({"train"} if layout.train_from else set())
        pairs = [pair for pair in permutations(layout.languages, 2) if layout.pairs(*pair)]
        wanted = {
            file
            for split in splits
            for pair in pairs
            for language in pair
            for file in layout.files(split, language, pair)
        }
        assert wanted == set(corpora.corpus(layout.folder or name).files)
