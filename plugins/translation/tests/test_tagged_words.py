from __future__ import annotations

import re

import pytest
from pydantic import ValidationError

from bench_core import DataError
from bench_translation.plugin import TranslationConfig

ROWS = [
    [("The", "DET"), ("May", "PROPN"), ("dogs", "NOUN"), ("may", "AUX"), ("dogs", "VERB"), (".", "PUNCT")],
    [("dogs", "NOUN"), ("may", "AUX"), ("do", "AUX"), ("n't", "PART"), ("Ankara", "PROPN")],
]
SPAN = "3-4\tdon't\t_\t_\t_\t_\t_\t_\t_\t_"


def conllu(sentences=ROWS, span=SPAN):
    lines = []
    for number, words in enumerate(sentences):
        for place, (word, tag) in enumerate(words, 1):
            if span and (number, place) == (1, 3):
                lines.append(span)
            head = 0 if place == 1 else 1
            lines.append(f"{place}\t{word}\t_\t{tag}\t_\t_\t{head}\tdep\t_\t_")
        lines.append("")
    return "\n".join(lines)


def put(data, text=None, name="bank/en_x-ud-train.conllu"):
    path = data / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(conllu() if text is None else text)
    for split in ("train", "valid", "test"):
        (data / "mine").mkdir(exist_ok=True)
        for language in ("de", "en"):
            (data / "mine" / f"{split}.{language}").write_text("the dogs may\ndogs do .\n")
    return path


def prepared(data, folder, **settings):
    folder.mkdir(exist_ok=True)
    config = TranslationConfig.model_validate({"corpus": "mine", "pair": "de-en", "tags": "bank", **settings})
    return config.load()(config, folder).prepare(data)


def test_each_word_has_its_commonest_tag_and_a_token_of_several_words_the_first_of_theirs(tmp_path):
    put(tmp_path)
    tags = prepared(tmp_path, tmp_path / "folder").extras["tags"]
    assert tags["words"] == {
        "The": "DET", "the": "DET", "May": "PROPN", "may": "AUX", "dogs": "NOUN", ".": "PUNCT", "do": "AUX",
        "n't": "PART", "don't": "AUX", "Ankara": "PROPN", "ankara": "PROPN",
    }  # fmt: skip
    assert re.fullmatch("bank [0-9a-f]{8}", tags["name"])
    assert tags["kind"] == "word"


def test_words_in_lower_case_have_the_commonest_tag_of_all_their_spellings(tmp_path):
    put(tmp_path, conllu([[("March", "PROPN"), ("march", "VERB"), ("March", "PROPN")]], span=""))
    words = prepared(tmp_path, tmp_path / "folder", lowercase=True).extras["tags"]["words"]
    assert words == {"march": "PROPN"}
    assert prepared(tmp_path, tmp_path / "other").extras["tags"]["words"] == {"March": "PROPN", "march": "VERB"}


def test_what_tokens_are_of_words_is_told(tmp_path):
    put(tmp_path)
    for tokenizer in ("char", {"kind": "bpe", "vocab_size": 300}):
        info = prepared(tmp_path, tmp_path / "folder", tokenizer=tokenizer)
        assert info.extras["tags"]["kind"] == ("char" if tokenizer == "char" else "bpe")


def test_a_treebank_may_be_a_file_and_its_digest_is_among_what_is_read(tmp_path):
    path = put(tmp_path, name="own.conllu")
    config = TranslationConfig.model_validate({"corpus": "mine", "pair": "de-en", "tags": "own.conllu"})
    assert "own.conllu" in config.reads(tmp_path)
    before = prepared(tmp_path, tmp_path / "folder", tags="own.conllu").extras["tags"]
    path.write_text(conllu(ROWS[:1]))
    after = prepared(tmp_path, tmp_path / "folder", tags="own.conllu").extras["tags"]
    assert "do" in before["words"]
    assert "do" not in after["words"]
    assert before["name"] != after["name"]


def test_without_a_treebank_nothing_is_told_of_words(tmp_path):
    put(tmp_path)
    assert "tags" not in prepared(tmp_path, tmp_path / "folder", tags=None).extras


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("other/en_x-ud-train.conllu", None, r"bank is neither .*\*-train\.conllu.*correct `tags:`"),
        ("bank/en_x-ud-train.conllu", "", r"empty: .*en_x-ud-train\.conllu"),
        ("bank/de_x-ud-train.conllu", None, r"is in 'de', according to its name, but targets are in 'en'"),
        ("bank/a-train.conllu", conllu([[("dog", "NN")]]), r"a-train\.conllu:1: 'NN' is not a universal part of speech"),
        ("bank/a-train.conllu", conllu([[("dog", "_")]]), r":1: '_' is not a universal part of speech"),
        ("bank/a-train.conllu", "1\tdog\tNOUN\n", r"a-train\.conllu:1 has 3 columns"),
    ],
)  # fmt: skip
def test_a_treebank_that_is_missing_broken_or_of_another_language_is_told(tmp_path, name, text, message):
    put(tmp_path, text, name)
    with pytest.raises(DataError, match=message):
        prepared(tmp_path, tmp_path / "folder")
    config = TranslationConfig.model_validate({"corpus": "mine", "pair": "de-en", "tags": "bank"})
    if "columns" not in message and "speech" not in message and "according to its name" not in message:
        with pytest.raises(DataError, match=message):
            config.reads(tmp_path)


def test_words_that_no_spaces_set_apart_have_no_parts_of_speech():
    with pytest.raises(ValidationError, match="remove `tags`"):
        TranslationConfig.model_validate(
            {"corpus": "kftt", "pair": "en-ja", "tokenizer": {"source": "word", "target": "char"}, "tags": "bank"}
        )


# Tatoeba


def number(line):
    return int(line.split()[0])


def tatoeba(data, size=230):
    for long in ("tur", "ron"):
        for language in ("eng", long):
            path = data / "tatoeba-tr-ro-en" / f"tatoeba-test-v2021-08-07.eng-{long}.{language}"
            path.parent.mkdir(exist_ok=True)
            path.write_text("".join(f"{line} {language} {long}\n" for line in range(size)))
    return data


@pytest.mark.parametrize("pair", ["tr-en", "en-tr", "ro-en", "en-ro"])
def test_tatoeba_is_split_by_the_lines_of_each_hundred(tmp_path, pair):
    tatoeba(tmp_path)
    (tmp_path / "folder").mkdir()
    config = TranslationConfig.model_validate({"corpus": "tatoeba", "pair": pair, "moses": False})
    task = config.load()(config, tmp_path / "folder")
    info = task.prepare(tmp_path)
    found = {split: [*task.sources(split).values()] for split in ("train", "valid", "test")}
    places = {split: [number(line) for line in lines] for split, lines in found.items()}
    assert places == {
        "train": [line for line in range(230) if line % 100 < 80],
        "valid": [line for line in range(230) if 80 <= line % 100 < 90],
        "test": [line for line in range(230) if line % 100 >= 90],
    }
    source, target = ({"tr": "tur", "ro": "ron", "en": "eng"}[language] for language in pair.split("-"))
    assert {line.split()[1] for lines in found.values() for line in lines} == {source}
    for split in found:
        assert [number(one) for (one,) in task.references(split).values()] == places[split]
        assert {one.split()[1] for (one,) in task.references(split).values()} == {target}
    assert info.extras["corpus"] == "tatoeba"
    long = ({source, target} - {"eng"}).pop()
    assert set(config.reads(tmp_path)) == {
        f"tatoeba-tr-ro-en/tatoeba-test-v2021-08-07.eng-{long}.{language}" for language in ("eng", long)
    }


def test_an_empty_line_of_tatoeba_is_told_by_its_place_in_the_file(tmp_path):
    tatoeba(tmp_path)
    path = tmp_path / "tatoeba-tr-ro-en" / "tatoeba-test-v2021-08-07.eng-tur.eng"
    lines = path.read_text().splitlines()
    lines[192] = ""
    path.write_text("\n".join([*lines, ""]))
    (tmp_path / "folder").mkdir()
    config = TranslationConfig.model_validate({"corpus": "tatoeba"})
    assert config.languages == ("tr", "en")
    with pytest.raises(DataError, match=r"line 193 of .*eng-tur\.eng.*Every pair in test is used"):
        config.load()(config, tmp_path / "folder").prepare(tmp_path)


def test_own_files_in_place_of_a_split_of_tatoeba_are_read_whole(tmp_path):
    tatoeba(tmp_path)
    for language in ("tr", "en"):
        (tmp_path / f"own.{language}").write_text("".join(f"{line} own\n" for line in range(95)))
    (tmp_path / "folder").mkdir()
    own = {"name": "tatoeba", "test": {"source": "own.tr", "target": "own.en"}}
    config = TranslationConfig.model_validate({"corpus": own})
    task = config.load()(config, tmp_path / "folder")
    task.prepare(tmp_path)
    assert len(task.sources("test")) == 95
    assert len(task.sources("valid")) == 20


def test_tatoeba_has_no_pair_without_english():
    for pair in ("tr-ro", "en-en", "de-en"):
        with pytest.raises(ValidationError, match=rf"'{pair}' is not a pair of this corpus; it has en with tr or ro"):
            TranslationConfig.model_validate({"corpus": "tatoeba", "pair": pair})


def test_files_of_tatoeba_that_are_missing_are_told_with_the_command_that_fetches_them(tmp_path):
    with pytest.raises(DataError, match=r"eng-tur\.tur is missing.*`bench data fetch tatoeba-tr-ro-en`"):
        TranslationConfig.model_validate({"corpus": "tatoeba"}).reads(tmp_path)
