"""Lists of words and their counts, and what is wrong with some of them."""

from __future__ import annotations

import gzip
import subprocess
import sys
from hashlib import sha256

import pytest
from pydantic import ValidationError

from bench_core import DataError
from bench_word_generation.plugin import WordGenerationConfig
from bench_word_generation.word_counts import count, read_list


def listed(tmp_path, text, name="words.txt"):
    path = tmp_path / name
    path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    return path


@pytest.mark.parametrize("name", ["words.txt", "words.txt.gz"])
@pytest.mark.parametrize("text", ["the\t12\nof\t7\n", "the 12\nof 7", "the 12\r\n\r\nof\t7 \r\n"])
def test_a_word_and_its_count_stand_in_a_line_apart_by_a_tab_or_a_space(tmp_path, text, name):
    assert read_list(listed(tmp_path, text, name)) == {"the": 12, "of": 7}


def test_a_tab_may_follow_words_with_spaces_of_all_kinds(tmp_path):
    assert read_list(listed(tmp_path, "new york\t5\na\u00a0b 3\n")) == {"new york": 5, "a\u00a0b": 3}


@pytest.mark.parametrize(
    ("text", "line", "what"),
    [
        ("the 12\nof many\n", 2, "the count of 'of' is 'many', not a non-negative whole number"),
        ("the -12\n", 1, "the count of 'the' is '-12', not a non-negative whole number"),
        ("the 1.5\n", 1, r"is '1\.5', not a non-negative whole number"),
        ("the ١٢\n", 1, "not a non-negative whole number"),
        ("the\n", 1, "'the' is not a word and its count"),
        ("a b 5\n", 1, "'a b 5' is not a word and its count"),
        ("a\tb\t5\n", 1, "is not a word and its count"),
        ("the 1\nof 2\n\nthe 3\n", 4, "'the' is already in line 1"),
        ("the 1234567890123456\n", 1, "has more than 15 digits"),
    ],
)
def test_a_wrong_line_is_named_with_its_file_and_number(tmp_path, text, line, what):
    with pytest.raises(DataError, match=rf"words\.txt is not a list.* line {line}: .*{what}"):
        read_list(listed(tmp_path, text))


def test_many_wrong_lines_are_told_in_one_message_that_stays_short(tmp_path):
    with pytest.raises(DataError, match=r"line 1: .*line 5: .*and 15 more lines") as caught:
        read_list(listed(tmp_path, "".join(f"word{n} x\n" for n in range(20))))
    assert "line 6" not in str(caught.value)


@pytest.mark.parametrize("text", ["\n \n", "\n"])
def test_a_list_without_words_is_refused(tmp_path, text):
    with pytest.raises(DataError, match=r"words\.txt has no words"):
        read_list(listed(tmp_path, text))


def test_a_list_that_is_not_utf8_is_refused_by_line(tmp_path):
    (tmp_path / "words.txt").write_bytes(b"the 1\ncaf\xe9 2\n")
    with pytest.raises(DataError, match=r"words\.txt is not UTF-8.* line 2"):
        read_list(tmp_path / "words.txt")


def test_known_lists_are_read_from_the_data_directory_and_keyed_by_their_digests(tmp_path):
    (tmp_path / "word-frequency").mkdir()
    path = listed(tmp_path / "word-frequency", "the 12\n", "en_50k.txt")
    config = WordGenerationConfig.model_validate({"corpus": "en_50k.txt"})
    assert count(config.corpus, tmp_path).counts == {"the": 12}
    assert config.reads(tmp_path) == {"word-frequency/en_50k.txt": sha256(path.read_bytes()).hexdigest()}


def test_a_known_list_that_is_missing_comes_with_the_command_that_fetches_it(tmp_path):
    config = WordGenerationConfig.model_validate({"corpus": "count_1w.txt.gz"})
    with pytest.raises(DataError, match=r"count_1w\.txt\.gz is missing.*bench data fetch word-frequency"):
        config.reads(tmp_path)


def test_own_lists_are_read_from_the_working_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    listed(tmp_path, "the 12\n", "mine.tsv")
    config = WordGenerationConfig.model_validate({"corpus": {"file": "mine.tsv"}})
    assert set(config.reads(tmp_path / "nowhere")) == {"mine.tsv"}
    assert count(config.corpus, tmp_path).name.startswith("mine.tsv (")
    missing = WordGenerationConfig.model_validate({"corpus": {"file": "other.tsv"}})
    with pytest.raises(DataError, match=r"other\.tsv is missing or empty\. Relative paths start from .*en_50k\.txt"):
        missing.reads(tmp_path)


def test_words_of_a_text_are_counted_over_all_of_its_splits(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for split, text in {"train": " = Ann = \nthe cat the dog\n", "valid": "the cat .\n", "test": "a bird\n"}.items():
        (tmp_path / f"{split}.txt").write_text(text)
    corpus = {split: f"{split}.txt" for split in ("train", "valid", "test")}
    config = WordGenerationConfig.model_validate({"corpus": corpus})
    found = count(config.corpus, tmp_path)
    assert found.counts == {"the": 3, "cat": 2, "dog": 1, ".": 1, "a": 1, "bird": 1}
    assert found.about == {"embedded": False}
    assert set(config.reads(tmp_path)) == {"train.txt", "valid.txt", "test.txt"}


def test_the_folder_of_the_lists_is_no_list():
    with pytest.raises(ValidationError, match=r"count_1w\.txt\.gz or en_50k\.txt"):
        WordGenerationConfig.model_validate({"corpus": "word-frequency"})


@pytest.mark.parametrize(
    ("settings", "what"),
    [
        ({"alphabet": ""}, "must not repeat characters"),
        ({"alphabet": "aba"}, "must not repeat characters"),
        ({"alphabet": "ab c"}, "contain white space"),
        ({"alphabet": "abC"}, "'C' in the alphabet cannot occur"),
        ({"shortest": 5, "longest": 4}, r"`shortest` \(5\) must be at most `longest` \(4\)"),
        ({"test": 1.0}, "less than 1"),
        ({"valid": 0}, "greater than 0"),
        ({"min_count": 0}, "greater than 0"),
        ({"corpus": {"file": "a.txt", "seed": 1}}, "Extra inputs"),
    ],
)
def test_settings_that_cannot_be_are_refused(settings, what):
    with pytest.raises(ValidationError, match=what):
        WordGenerationConfig.model_validate(settings)


def test_a_plan_needs_neither_torch_nor_numpy():
    code = """if True:
        import sys
        from pathlib import Path
        from bench_word_generation.plugin import WordGenerationConfig
        WordGenerationConfig.model_validate({"corpus": {"name": "english"}}).reads(Path("."))
        print(*{"torch", "numpy", "spacy"} & set(sys.modules))
    """
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "\n"
