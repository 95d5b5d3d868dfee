"""The task, and the corpora that it reads."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from bench_authors.testing import TaskCase, check_task
from bench_code_generation import corpus as corpora_of_code
from bench_code_generation import library
from bench_code_generation.parsing import canonical_form
from bench_code_generation.plugin import CodeGenerationConfig
from bench_core import DataError, Purpose, Rng, Size

PAIRS = {
    "train": [
        ("set x to one", "  x  = 1"),
        ("call f with x", "f ( x )"),
        ("if x ,", "if x :"),
        ("return f of x and y", "return f ( x , y )"),
        ("do nothing", "pass"),
    ],
    "valid": [("call g with x", "g ( x )"), ("if y ,", "if y :")],
    "test": [("return x", "return x"), ("set x to f", "x = f ( )"), ("if x ,", "if x :")],
}


@pytest.fixture
def files(tmp_path):
    corpus = {}
    for split, pairs in PAIRS.items():
        for side, lines in zip(("source", "target"), zip(*pairs, strict=True), strict=True):
            (tmp_path / f"{split}.{side}").write_text("\n".join(lines) + "\n")
        corpus[split] = {side: f"{split}.{side}" for side in ("source", "target")}
    return corpus


def prepared(folder, corpus, **settings):
    config = CodeGenerationConfig.model_validate({"corpus": corpus, **settings})
    task = config.load()(config, folder)
    return task, task.prepare(folder)


BYTE_PAIRS = {"kind": "bpe", "vocab_size": 280}


@pytest.mark.quick(2, 1)
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"shared": True, "tokenizer": BYTE_PAIRS},
        {"tokenizer": {"source": {"min_count": 2}, "target": "char"}},
        {"longest": 5},
    ],
)
def test_the_task_keeps_all_contracts(files, tmp_path, settings):
    config = CodeGenerationConfig.model_validate({"corpus": files, **settings})
    assert check_task(TaskCase.of(config, tmp_path, tmp_path))


def test_rows_are_their_lines_ended_by_stop(files, tmp_path):
    task, info = prepared(tmp_path, files)
    (batch,) = task.batches("train", Purpose.SCORE, Size(100))
    for vocabulary, rows, lengths, side in (
        (info.source_vocabulary, batch.source, batch.source_length, 0),
        (info.vocabulary, batch.gold, batch.length, 1),
    ):
        for pair, row, length in zip(PAIRS["train"], rows.tolist(), lengths.tolist(), strict=True):
            assert [vocabulary[token] for token in row[:length]] == [*pair[side].split(), "<stop>"]
    assert info.extras["statistics"]["test"]["source_unknown"] == 0
    assert sum(info.counts) == batch.length.sum()
    assert not set(info.vocabulary) & {"g", "y :"}


@pytest.mark.parametrize("settings", [{}, {"tokenizer": "char"}, {"tokenizer": BYTE_PAIRS, "shared": True}])
def test_the_text_of_a_target_is_its_reference(files, tmp_path, settings):
    task, _ = prepared(tmp_path, files, **settings)
    assert task.references("train")[0] == ["x = 1"]
    for batch in task.batches("train", Purpose.TRAIN, Size(2), Rng(1)):
        for number, gold, length in zip(batch.ids.tolist(), batch.gold.tolist(), batch.length.tolist(), strict=True):
            assert [task.text(gold[: length - 1])] == task.references("train")[number]
    assert task.sources("test") == {number: source for number, (source, _) in enumerate(PAIRS["test"])}


def test_further_right_lines_are_references_and_an_unknown_token_is_in_none(files, tmp_path):
    (tmp_path / "more.code").write_text("return  ( x )\n\nif < unk > :\n")
    files["test"]["references"] = ["more.code"]
    task, _ = prepared(tmp_path, files)
    assert list(task.references("test").values()) == [
        ["return x", "return ( x )"], ["x = f ( )"], ["if x :", "if < unk > :"],
    ]  # fmt: skip
    assert not set(task.text([1, 1])) & set("<unk>")
    assert "more.code" in task.config.reads(tmp_path)


def test_a_shared_vocabulary_is_one_list_of_both_sides(files, tmp_path):
    _, info = prepared(tmp_path, files, shared=True)
    assert info.vocabulary == info.source_vocabulary
    with pytest.raises(ValidationError, match="same tokenizer"):
        CodeGenerationConfig.model_validate({"shared": True, "tokenizer": {"source": "word", "target": "char"}})


def test_pairs_to_train_on_are_chosen_and_counted(files, tmp_path):
    lines = (tmp_path / "train.target").read_text().split("\n")
    lines[4] = " "
    (tmp_path / "train.target").write_text("\n".join(lines))
    task, info = prepared(tmp_path, files, longest=4)
    assert list(task.references("train")) == list(task.sources("train")) == [0, 1, 2]
    told = info.extras["statistics"]["train"]
    assert (told["pairs"], told["left_out_empty"], told["left_out_long"]) == (3, 1, 1)
    with pytest.raises(DataError, match=r"only 0 of 4 nonempty training pairs of own files .* can be used"):
        prepared(tmp_path, files, longest=1)


def test_empty_code_that_counts_is_an_error_with_file_and_line(files, tmp_path):
    (tmp_path / "test.target").write_text("return x\n \nif x :\n")
    with pytest.raises(DataError, match=r"empty lines: line 2 of .*test\.target\. Every pair in test is used"):
        prepared(tmp_path, files)


def test_sides_of_unequal_length_are_an_error(files, tmp_path):
    (tmp_path / "valid.target").write_text("g ( x )\n")
    with pytest.raises(DataError, match=r"valid\.source has 2 lines, but .*valid\.target has 1"):
        prepared(tmp_path, files)


def test_undecodable_lines_are_told_with_file_and_line(files, tmp_path):
    (tmp_path / "train.source").write_bytes(b"fine\nnot \xe9\n")
    with pytest.raises(DataError, match=r"train\.source is not UTF-8: .* in line 2"):
        prepared(tmp_path, files)


def test_missing_files_are_all_named(files, tmp_path):
    (tmp_path / "test.target").unlink()
    with pytest.raises(DataError, match=r"missing or empty: .*test\.target"):
        prepared(tmp_path, files)
    with pytest.raises(DataError, match=r"all\.anno is missing, all\.code is missing.*bench data fetch django"):
        prepared(tmp_path, "django")
    with pytest.raises(DataError, match=r"src_raw_train\.txt is missing.*bench data fetch django-clean"):
        CodeGenerationConfig(corpus="django-clean").reads(tmp_path)
    with pytest.raises(ValidationError, match="no corpus of code is called 'jango'"):
        CodeGenerationConfig(corpus="jango")


@pytest.fixture
def django(tmp_path, monkeypatch):
    """A small corpus in the layout of Django, of 12 lines."""
    (tmp_path / "django").mkdir()
    for name in ("all.anno", "all.code"):
        (tmp_path / "django" / name).write_text("".join(f"  {name[4:]} _{number}\n" for number in range(12)))
    parts = {"train": slice(8), "valid": slice(8, 10), "test": slice(10, 12)}
    monkeypatch.setattr(corpora_of_code, "PARTS", parts)
    return tmp_path


def test_django_is_split_by_the_order_of_its_lines(django):
    task, info = prepared(django, "django")
    assert [len(task.references(split)) for split in PAIRS] == [8, 2, 2]
    assert task.references("valid") == {0: ["code _8"], 1: ["code _9"]}
    assert task.sources("test") == {0: "anno _10", 1: "anno _11"}
    assert info.extras["corpus"] == "django"
    assert not info.extras["embedded"]
    assert set(task.config.reads(django)) == {"django/all.anno", "django/all.code"}


def test_places_in_django_are_those_of_its_one_file(django):
    (django / "django" / "all.code").write_text("x\n" * 10 + "\n" + "x\n")
    with pytest.raises(DataError, match=r"empty lines: line 11 of .*all\.code\. Every pair in test"):
        prepared(django, "django")


def test_another_number_of_lines_is_not_django(django):
    for name in ("all.anno", "all.code"):
        (django / "django" / name).write_text("x\n" * 13)
    with pytest.raises(DataError, match=r"has 13 pairs .*, not 12"):
        prepared(django, "django")


def test_django_clean_has_its_own_splits(tmp_path):
    (tmp_path / "django-clean").mkdir()
    for part, lines in (("train", 3), ("dev", 2), ("test", 1)):
        for side in ("src", "tgt"):
            text = "".join(f"{side} {part} {number}\n" for number in range(lines))
            (tmp_path / "django-clean" / f"{side}_raw_{part}.txt").write_text(text)
    task, info = prepared(tmp_path, "django-clean")
    assert task.references("valid") == {0: ["tgt dev 0"], 1: ["tgt dev 1"]}
    assert task.sources("test") == {0: "src test 0"}
    assert info.extras["corpus"] == "django-clean"


@pytest.fixture
def small_library(tmp_path, monkeypatch):
    """A library of 60 files with two lines of code each."""
    (tmp_path / "library").mkdir()
    files = []
    for number in range(60):
        path = tmp_path / "library" / f"m{number}.py"
        path.write_text(f"x_{number} = f(y_{number})\nif x_{number}:\n    pass\n")
        files.append((path.name, path))
    monkeypatch.setattr(library, "sources", lambda: files)
    return tmp_path


def test_the_embedded_corpus_is_made_from_the_library(small_library):
    task, info = prepared(small_library, {"name": "cpython-pairs", "pairs": 40})
    sizes = {split: len(task.references(split)) for split in PAIRS}
    assert sizes == {"train": 40, "valid": 4, "test": 4}
    seen = {line for split in ("valid", "test") for (line,) in task.references(split).values()}
    assert not seen & {line for (line,) in task.references("train").values()}
    assert all(canonical_form(line) for line in seen)
    assert info.extras["embedded"]
    assert info.extras["corpus"].startswith(f"cpython-pairs {library.VERSION} (")


def test_a_library_without_sources_is_an_error(small_library, monkeypatch):
    monkeypatch.setattr(library, "sources", list)
    with pytest.raises(DataError, match="too few lines for cpython-pairs"):
        prepared(small_library, "cpython-pairs")


def test_the_embedded_corpus_is_known_by_version_and_digest(tmp_path):
    assert CodeGenerationConfig().reads(tmp_path) == {f"cpython-pairs {library.VERSION}": library.digest()}
