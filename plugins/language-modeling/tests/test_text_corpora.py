from __future__ import annotations

import subprocess
import sys
from hashlib import sha256

import pytest

from bench_core import DataError
from bench_language_modeling import corpus
from bench_language_modeling.api import digests, lines
from bench_language_modeling.plugin import LanguageModelingConfig, SequenceCompletionConfig

WIKI = " \n = Robert = \n \n Robert <unk> is  an actor . \n = = Career = = \n = 3 @.@ 5 is a formula . \n"


@pytest.fixture
def data(tmp_path):
    """A data directory with toy files in the places of WikiText-2 and PTB, and a user's own corpus."""
    for folder, names in {"wikitext-2": "{}.txt", "ptb": "ptb.{}.txt", "mine": "{}.txt"}.items():
        (tmp_path / folder).mkdir()
        for split in ("train", "valid", "test"):
            (tmp_path / folder / names.format(split)).write_text(WIKI)
    return tmp_path


def test_lines_leave_out_headings_and_blank_lines_and_only_those(data):
    assert lines("wikitext-2", "train", data) == ["Robert <unk> is an actor .", "= 3 @.@ 5 is a formula ."]


@pytest.mark.parametrize("name", ["ptb", "mine"])
def test_other_folders_are_read_alike(data, name):
    assert len(lines(name, "test", data)) == 2


def test_streams_keep_every_line(data, tmp_path):
    config = LanguageModelingConfig.model_validate({"corpus": "wikitext-2"})
    info = config.load()(config, tmp_path).prepare(data)
    assert info.extras["statistics"]["train"]["lines"] == 6
    assert info.extras["statistics"]["train"]["tokens"] == len(WIKI.split()) + 6
    assert info.extras["corpus"] == "wikitext-2"


def test_digests_are_those_of_the_files_read(data):
    found = SequenceCompletionConfig.model_validate({"corpus": "wikitext-2"}).reads(data)
    expected = sha256(WIKI.encode()).hexdigest()
    assert found == {f"wikitext-2/{split}.txt": expected for split in ("train", "valid", "test")}
    assert len(digests({"name": "ptb"}, data)) == 3


def test_own_files_are_read_from_the_working_directory(data, monkeypatch):
    monkeypatch.chdir(data / "mine")
    own = {"train": "train.txt", "valid": "valid.txt", "test": "test.txt"}
    assert len(lines(own, "valid", data)) == 2
    assert set(digests(own, data)) == set(own.values())
    with pytest.raises(DataError, match=r"nowhere\.txt\. Relative paths start from"):
        digests({**own, "test": "nowhere.txt"}, data)


def test_what_is_missing_is_named_with_the_command_that_helps(tmp_path):
    with pytest.raises(DataError, match=r"train\.txt is missing.*bench data fetch wikitext-2"):
        digests("wikitext-2", tmp_path)


def test_an_unknown_corpus_is_answered_with_the_nearest_name(tmp_path):
    with pytest.raises(DataError, match=r"no corpus is called 'wikitex-2'. Did you mean 'wikitext-2'"):
        digests("wikitex-2", tmp_path)
    with pytest.raises(DataError, match="'coco-mini' is not plain text"):
        digests("coco-mini", tmp_path)


def test_text_that_is_not_utf8_is_refused_by_file_and_line(data, tmp_path):
    (data / "mine" / "valid.txt").write_bytes(b"fine\ncaf\xe9\n")
    config = SequenceCompletionConfig.model_validate({"corpus": "mine", "sentences": "rule"})
    with pytest.raises(DataError, match=r"valid\.txt.*line 2"):
        config.load()(config, tmp_path).prepare(data)


def test_a_corpus_of_a_few_sentences_is_refused(data, tmp_path):
    config = SequenceCompletionConfig.model_validate({"corpus": "mine", "sentences": "rule"})
    with pytest.raises(DataError, match="has 2 sentences"):
        config.load()(config, tmp_path).prepare(data)


def test_a_plan_needs_neither_torch_nor_spacy_nor_numpy():
    code = """if True:
        import sys
        from pathlib import Path
        from bench_language_modeling.plugin import LanguageModelingConfig, SequenceCompletionConfig
        SequenceCompletionConfig().reads(Path("."))
        LanguageModelingConfig(corpus="markov").reads(Path("."))
        print(*{"torch", "spacy", "numpy", "tokenizers"} & set(sys.modules))
    """
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "\n"


def test_every_known_corpus_of_plain_text_is_in_the_catalogue():
    from bench_text.api import corpora

    for name in corpus.READABLE:
        files = corpora.corpus(name).files
        assert all(any(split in file for file in files) for split in ("train", "valid", "test"))
