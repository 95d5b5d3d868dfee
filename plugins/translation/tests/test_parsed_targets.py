from __future__ import annotations

import random
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import spacy
import torch
from pydantic import ValidationError
from spacy.language import Language

from bench_authors.testing import TaskCase, check_task
from bench_core import DataError, Purpose, Size
from bench_reports.content.listings import statistics
from bench_translation import translation
from bench_translation.conllu import sentences
from bench_translation.plugin import TranslationConfig
from bench_translation.translation import CONTINUES, PADDING, spread

# words and heads, counted from 1; 0 is a root
TREES = {
    "train": [
        ("the cat sat on mats", [2, 3, 0, 3, 4]),
        ("Dogs bark", [2, 0]),
        ("a cat", [2, 0]),
        ("the dogs sat on the cat", [2, 3, 0, 6, 6, 3]),
    ],
    "valid": [("a dog sat", [2, 3, 0]), ("mats", [0])],
    "test": [("the cat", [2, 0])],
}


def write_corpus(data, lines=None):
    """Write the words of the trees as targets, and something as their sources."""
    lines = lines or {split: [words for words, _ in trees] for split, trees in TREES.items()}
    corpus = {}
    for split, targets in lines.items():
        (data / f"{split}.xx").write_text("".join(f"{'s ' * (place + 1)}\n" for place in range(len(targets))))
        (data / f"{split}.yy").write_text("".join(f"{line}\n" for line in targets))
        corpus[split] = {"source": f"{split}.xx", "target": f"{split}.yy"}
    return {"corpus": corpus, "pair": "xx-yy", "moses": False}


def tree(words, heads):
    rows = enumerate(zip(words.split(), heads, strict=True), 1)
    lines = [f"{n}\t{word}\t_\t_\t_\t_\t{head}\t{'dep' if head else 'root'}\t_\t_" for n, (word, head) in rows]
    return "\n".join(["# text = " + words, *lines, "", ""])


def write_trees(data, trees=TREES):
    for split, found in trees.items():
        (data / f"{split}.conllu").write_text("".join(tree(*one) for one in found))
    return {"kind": "conllu", **{split: f"{split}.conllu" for split in trees}}


def prepared(data, **settings):
    folder = data / "folder"
    folder.mkdir(exist_ok=True)
    config = TranslationConfig.model_validate(settings)
    task = config.load()(config, folder)
    return task, task.prepare(data)


def told(task, split="train"):
    """Return the heads of each pair, its padding cut off after a look at it."""
    found = {}
    for batch in task.batches(split, Purpose.SCORE, Size(3)):
        heads = batch.extras["heads"]
        assert heads.shape == batch.gold.shape
        assert heads.dtype == torch.long
        for number, row, length in zip(batch.ids.tolist(), heads.tolist(), batch.length.tolist(), strict=True):
            assert set(row[length - 1 :]) == {PADDING}
            found[number] = row[: length - 1]
    return found


WORDS = {0: [1, 2, 2, 2, 3], 1: [1, 1], 2: [1, 1], 3: [1, 2, 2, 5, 5, 2]}


def test_heads_are_places_of_the_target_and_a_root_is_its_own(tmp_path):
    task, info = prepared(tmp_path, **write_corpus(tmp_path), parse=write_trees(tmp_path))
    assert told(task) == WORDS
    assert told(task, "valid") == {0: [1, 2, 2], 1: [0]}
    assert told(task, "test") == {0: [1, 1]}
    assert info.extras["parser"] == {"kind": "conllu", "name": "train.conllu", "uas": None}
    assert "parser" not in info.extras["statistics"]


def test_the_share_of_correct_heads_is_among_the_statistics_that_reports_print(tmp_path, monkeypatch):
    parser = translation.parser
    monkeypatch.setattr(
        translation, "parser", lambda *inputs: replace(parser(*inputs), about={"kind": "spacy", "uas": 91.25})
    )
    _, info = prepared(tmp_path, **write_corpus(tmp_path), parse=write_trees(tmp_path))
    assert dict(statistics(info.extras))["parser/uas"] == 91.25
    assert {"train", "valid", "test"} < {*info.extras["statistics"]}


def test_batches_without_a_parser_have_no_heads(tmp_path):
    task, info = prepared(tmp_path, **write_corpus(tmp_path))
    (batch,) = task.batches("train", Purpose.TRAIN, Size(10))
    assert not batch.extras
    assert "parser" not in info.extras


@pytest.mark.parametrize("tokenizer", ["char", {"kind": "bpe", "vocab_size": 280}, {"kind": "word", "min_count": 2}])
def test_pieces_of_a_word_continue_its_first_one(tmp_path, tokenizer):
    settings = write_corpus(tmp_path) | {"tokenizer": tokenizer}
    task, info = prepared(tmp_path, **settings, parse=write_trees(tmp_path))
    rows = {
        number: row
        for batch in task.batches("train", Purpose.SCORE, Size(3))
        for number, row in zip(batch.ids.tolist(), batch.gold.tolist(), strict=True)
    }
    for number, heads in told(task).items():
        starts = [place for place, head in enumerate(heads) if head != CONTINUES]
        words = TREES["train"][number][0].split()
        pieces = [[info.vocabulary[token] for token in rows[number][a:b]] for a, b in pairwise([*starts, len(heads)])]
        for word, own in zip(words, pieces, strict=True):
            assert own == ["<unk>"] or "".join(own).replace("Ġ", "").strip() == word
        assert [heads[start] for start in starts] == [starts[head] for head in WORDS[number]]


def test_the_words_of_a_tree_are_spread_over_their_pieces():
    assert spread([1, 1, 1], [2, 1, 3]) == [2, CONTINUES, 2, 2, CONTINUES, CONTINUES, PADDING]
    assert spread([], []) == [PADDING]


def test_rows_keep_their_heads_in_every_order_and_when_others_are_left_out(tmp_path):
    parse = write_trees(tmp_path)
    task, _ = prepared(tmp_path, **write_corpus(tmp_path), parse=parse, longest=5)
    assert told(task) == {number: WORDS[number] for number in (0, 1, 2)}


def test_a_line_that_is_left_out_as_empty_has_no_tree_and_one_without_a_source_has(tmp_path):
    lines = {split: [words for words, _ in trees] for split, trees in TREES.items()}
    lines["train"].insert(1, "")
    settings = write_corpus(tmp_path, lines)
    (tmp_path / "train.xx").write_text("s\ns\n\ns\ns\n")
    task, _ = prepared(tmp_path, **settings, parse=write_trees(tmp_path))
    assert told(task) == {0: WORDS[0], 3: WORDS[2], 4: WORDS[3]}


def test_only_splits_with_trees_have_heads(tmp_path):
    parse = write_trees(tmp_path, {"train": TREES["train"]})
    task, _ = prepared(tmp_path, **write_corpus(tmp_path), parse=parse)
    assert told(task) == WORDS
    (batch,) = task.batches("valid", Purpose.SCORE, Size(10))
    assert not batch.extras


def test_several_files_and_several_sentences_of_a_line_are_joined(tmp_path):
    write_corpus(tmp_path)
    first, *others = TREES["train"]
    (tmp_path / "one.conllu").write_text(tree(*first) + tree("Dogs", [0]))
    (tmp_path / "two.conllu").write_text("\n\n" + tree("bark", [0]) + "".join(tree(*one) for one in others[1:]))
    parse = {"kind": "conllu", "train": ["one.conllu", "two.conllu"]}
    task, _ = prepared(tmp_path, **write_corpus(tmp_path), parse=parse)
    assert told(task) == WORDS | {1: [0, 1]}


def test_words_are_compared_in_lower_case_where_the_task_is(tmp_path):
    task, _ = prepared(tmp_path, **write_corpus(tmp_path), lowercase=True, parse=write_trees(tmp_path))
    assert told(task) == WORDS


SPANS = """# it don't matter
1\tit\t_\t_\t_\t_\t4\tnsubj\t_\t_
2-3\tdon't\t_\t_\t_\t_\t_\t_\t_\t_
2\tdo\t_\t_\t_\t_\t4\taux\t_\t_
3\tn't\t_\t_\t_\t_\t2\tadvmod\t_\t_
3.1\tnothing\t_\t_\t_\t_\t_\t_\t_\t_
4\tmatter\t_\t_\t_\t_\t0\troot\t_\t_
"""


@pytest.mark.parametrize(("line", "heads"), [("it do n't matter", [3, 3, 1, 3]), ("it don't matter", [2, 2, 2])])
def test_a_token_of_several_words_is_one_or_several_as_the_line_has_it(tmp_path, line, heads):
    lines = {"train": [line, line], "valid": ["a"], "test": ["a"]}
    (tmp_path / "train.conllu").write_text(f"{SPANS}\n{SPANS}")
    parse = {"kind": "conllu", "train": "train.conllu"}
    task, _ = prepared(tmp_path, **write_corpus(tmp_path, lines), parse=parse)
    assert told(task) == {0: heads, 1: heads}


def test_words_that_are_joined_make_no_circle(tmp_path):
    """`ab` is a token of a and b; a hangs on c, which hangs on b, the root."""
    rows = [
        "1-2\tab" + "\t_" * 8,
        "1\ta\t_\t_\t_\t_\t3\tdep\t_\t_",
        "2\tb\t_\t_\t_\t_\t0\troot\t_\t_",
        "3\tc\t_\t_\t_\t_\t2\tdep\t_\t_",
    ]
    (tmp_path / "train.conllu").write_text("\n".join([*rows, "", *rows]))
    lines = {"train": ["ab c", "a b c"], "valid": ["a"], "test": ["a"]}
    parse = {"kind": "conllu", "train": "train.conllu"}
    task, _ = prepared(tmp_path, **write_corpus(tmp_path, lines), parse=parse)
    assert told(task) == {0: [0, 0], 1: [2, 1, 1]}


def with_row(text):
    return f"1\tthe\t_\t_\t_\t_\t2\tdep\t_\t_\n{text}\n\n"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            with_row("2\tdog\t_\t_\t_\t_\t0\troot\t_\t_"),
            r":2: the word is 'dog', but line 1 of the target has 'cat'",
        ),
        (with_row("2 cat"), r":2 has 1 columns. Use the 10"),
        (with_row("3\tcat\t_\t_\t_\t_\t0\troot\t_\t_"), r":2: expected word 2, found word 3"),
        (with_row("x\tcat\t_\t_\t_\t_\t0\troot\t_\t_"), r":2: 'x' is not a word number"),
        (with_row("2-9\tcat\t_\t_\t_\t_\t0\troot\t_\t_"), r":2: '2-9' is not a word number"),
        (
            with_row("2\tcat\t_\t_\t_\t_\t7\tdep\t_\t_"),
            r":2: invalid head '7': use the number of another word, 1 to 2",
        ),
        (with_row("2\tcat\t_\t_\t_\t_\t2\tdep\t_\t_"), r":2: invalid head '2'"),
        (with_row("2\tcat\t_\t_\t_\t_\t_\tdep\t_\t_"), r":2: invalid head '_'"),
        (with_row("2\tcat\t_\t_\t_\t_\t-1\tdep\t_\t_"), r":2: invalid head '-1'"),
        (with_row("2\tcat\t_\t_\t_\t_\t1\tdep\t_\t_"), r":1: the heads above 'the' form a cycle"),
        ("1.1\tnone" + "\t_" * 8 + "\n\n", r":1: the sentence has no words"),
        (
            tree("the cat sat on mats in it", [2, 3, 0, 3, 4, 7, 3]),
            r":7: the word is 'in', but line 1 of the target ends",
        ),
        (tree(*TREES["train"][0]), r"train\.conllu ends before line 2 of the target, 'Dogs bark'"),
        (
            "".join(tree(*one) for one in [*TREES["train"], ("a cat", [2, 0])]),
            r":25: the sentence 'a cat' follows the last of the 4",
        ),
        ("", r"missing or empty: .*train\.conllu"),
    ],
)
def test_trees_that_do_not_fit_are_refused_by_file_and_line(tmp_path, content, message):
    settings, parse = write_corpus(tmp_path), write_trees(tmp_path)
    (tmp_path / "train.conllu").write_text(content)
    with pytest.raises(DataError, match=message):
        prepared(tmp_path, **settings, parse=parse)


def test_the_real_form_of_a_treebank_is_read(tmp_path):
    (tmp_path / "a.conllu").write_bytes(b"\xef\xbb\xbf# newdoc\r\n" + SPANS.replace("\n", "\r\n").encode())
    (tree,) = sentences([tmp_path / "a.conllu"])
    assert tree.words == ["it", "do", "n't", "matter"]
    assert tree.heads == [3, 3, 1, 3]
    assert tree.place(3).endswith("a.conllu:8")


@Language.component("bench_test_first_word_heads")
def first_word_heads(doc):
    """Hang every word on the first one."""
    for token in doc:
        token.head, token.dep_ = doc[0], "dep"
    return doc


@pytest.fixture
def pipeline(tmp_path):
    nlp = spacy.blank("en")
    nlp.add_pipe("bench_test_first_word_heads")
    nlp.to_disk(tmp_path / "parser")
    return {"kind": "spacy", "pipeline": "parser"}


def test_a_pipeline_of_spacy_is_asked_for_the_heads_of_words_as_they_are(tmp_path, pipeline):
    lines = {"train": ["don't U.S. (x) a", "b c"], "valid": ["it's"], "test": ["a b"]}  # which spaCy would cut
    settings = write_corpus(tmp_path, lines)
    task, info = prepared(tmp_path, **settings, parse=pipeline)
    assert told(task) == {0: [0, 0, 0, 0], 1: [0, 0]}
    assert told(task, "valid") == {0: [0]}
    assert info.extras["parser"]["kind"] == "spacy"
    assert info.extras["parser"]["name"].startswith("en_pipeline ")


def test_a_pipeline_without_a_parser_is_refused(tmp_path):
    spacy.blank("en").to_disk(tmp_path / "parser")
    with pytest.raises(DataError, match=r"spaCy pipeline en_pipeline has no parser, only a tokenizer.*kind: train"):
        prepared(tmp_path, **write_corpus(tmp_path), parse={"kind": "spacy", "pipeline": "parser"})


@pytest.mark.parametrize("name", ["en_core_web_none", "no/such folder"])
def test_a_pipeline_that_is_not_there_is_told_with_ways_to_get_one(tmp_path, name):
    parse = {"kind": "spacy", "pipeline": name}
    settings = write_corpus(tmp_path) | {"parse": parse}
    with pytest.raises(DataError, match=r"no spaCy pipeline.*spacy download.*kind: train, treebank: ud-english-ewt"):
        TranslationConfig.model_validate(settings).reads(tmp_path)


def test_a_damaged_pipeline_is_refused_without_a_traceback(tmp_path, pipeline):
    (tmp_path / "parser" / "config.cfg").write_text("[nlp]\nlang = 3\n")
    with pytest.raises(DataError, match="spaCy cannot load the pipeline 'parser'"):
        prepared(tmp_path, **write_corpus(tmp_path), parse=pipeline)


def test_digests_of_what_parses_are_read_too(tmp_path, pipeline):
    settings = write_corpus(tmp_path)
    plain = TranslationConfig.model_validate(settings).reads(tmp_path)

    def added(parse):
        return set(TranslationConfig.model_validate(settings | {"parse": parse}).reads(tmp_path)) - set(plain)

    assert added(write_trees(tmp_path)) == {"train.conllu", "valid.conllu", "test.conllu"}
    assert {"parser/config.cfg", "parser/meta.json"} <= added(pipeline)
    (tmp_path / "bank").mkdir()
    for part in ("train", "dev", "test"):
        (tmp_path / "bank" / f"xx-{part}.conllu").write_text(tree("a b", [2, 0]))
    assert added({"kind": "train", "treebank": "bank"}) == {"bank/xx-train.conllu", "bank/xx-dev.conllu"}


def test_a_treebank_that_is_not_there_is_told_with_its_home(tmp_path):
    settings = write_corpus(tmp_path) | {"parse": {"kind": "train"}}
    with pytest.raises(DataError, match=r"needs \*-train\.conllu and \*-dev\.conllu in .*ud-english-ewt.*https://"):
        TranslationConfig.model_validate(settings).reads(tmp_path)


def bank(data):
    """Write a treebank in which nouns hang on the verb, before or after it, and articles on their nouns."""
    draws = random.Random(1)
    folder = data / "bank"
    folder.mkdir()
    for part, number in (("train", 60), ("dev", 10)):
        found = []
        for _ in range(number):
            article, noun, verb = (draws.choice(words.split()) for words in ("a the", "dog cat mats", "sat ran bark"))
            more, heads = draws.choice([("", []), (f"{article} {noun}", [5, 3])])
            found.append(tree(f"{article} {noun} {verb} {more}", [2, 3, 0, *heads]))
        (folder / f"xx-{part}.conllu").write_text("".join(found))
    return {"kind": "train", "treebank": "bank", "steps": 25}


def test_a_treebank_that_no_parser_can_learn_is_refused(tmp_path):
    parse = bank(tmp_path)
    for part in ("train", "dev"):  # every head to the right, of which spaCy makes no whole set of moves
        (tmp_path / "bank" / f"xx-{part}.conllu").write_text(tree("a dog sat", [2, 3, 0]) * 40)
    with pytest.raises(DataError, match=r"spaCy cannot learn a parser from .*bank: "):
        prepared(tmp_path, **write_corpus(tmp_path), parse=parse)


@pytest.mark.nightly
def test_a_parser_is_learnt_and_learnt_again_alike(tmp_path):
    parse, settings = bank(tmp_path), write_corpus(tmp_path)
    before = random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()
    task, info = prepared(tmp_path, **settings, parse=parse)
    assert (random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()) == before
    assert info.extras["parser"]["uas"] > 90
    assert info.extras["statistics"]["parser"]["uas"] == info.extras["parser"]["uas"]
    assert "25 steps" in info.extras["parser"]["name"]
    assert told(task, "valid")[0] == [1, 2, 2]
    first, again = told(task), prepared(tmp_path, **settings, parse=parse)
    assert told(again[0]) == first
    assert again[1] == info


@pytest.mark.slow
def test_parsed_targets_keep_all_contracts(tmp_path, pipeline):
    for name, parse in (("trees", write_trees(tmp_path)), ("spacy", pipeline)):
        config = TranslationConfig.model_validate(write_corpus(tmp_path) | {"parse": parse})
        (tmp_path / name).mkdir()
        assert check_task(TaskCase.of(config, tmp_path, tmp_path / name))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"corpus": "kftt", "pair": "en-ja", "tokenizer": "char", "parse": {"kind": "train"}},
            "words of 'ja' are not separated by spaces",
        ),
        ({"parse": "spacy"}, "dictionary"),
        ({"parse": {"kind": "spacy"}}, "pipeline"),
        ({"parse": {"kind": "conllu"}}, "train"),
        ({"parse": {"kind": "stanza"}}, "'conllu', 'spacy', 'train'"),
        ({"parse": {"kind": "train", "steps": 0}}, "steps"),
    ],
)
def test_ways_to_parse_that_cannot_be_are_refused(settings, message):
    with pytest.raises(ValidationError, match=message):
        TranslationConfig.model_validate(settings)


def test_settings_of_parsers_survive_being_written_down():
    for parse in ({"kind": "train"}, {"kind": "spacy", "pipeline": "x"}, {"kind": "conllu", "train": "a.conllu"}):
        config = TranslationConfig.model_validate({"parse": parse})
        assert TranslationConfig.model_validate(config.model_dump(mode="json")) == config
    assert config.parse.train == [Path("a.conllu")]
