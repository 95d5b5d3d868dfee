"""Tokenizers of Marian and M2M-100, which have files of their own and read sources and targets differently."""

from __future__ import annotations

import json

import pytest
import torch
from published import LINES, publish
from transformers import M2M100Tokenizer, MarianTokenizer

from bench_core import Prompt, Rng, Scoring, SuiteError
from bench_decoders.plugin import GreedyConfig

pieces = pytest.importorskip("sentencepiece")
TARGETS = [line[::-1] for line in LINES]


def train(prefix, lines):
    pieces.SentencePieceTrainer.train(
        sentence_iterator=iter(lines * 3), model_prefix=str(prefix), vocab_size=16, model_type="char",
        hard_vocab_limit=False, minloglevel=2,
    )  # fmt: skip
    model = pieces.SentencePieceProcessor(model_file=f"{prefix}.model")
    return [model.id_to_piece(token) for token in range(model.get_piece_size())]


def rewritten(saved, tokenizer, **settings):
    """Put another tokenizer in the place of that of a checkpoint."""
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (saved.folder / name).unlink()
    tokenizer.save_pretrained(saved.folder)
    saved.rewrite(**settings)
    return saved.folder


@pytest.fixture
def marian(tmp_path):
    """Return a checkpoint with the tokenizer of Marian: two sets of pieces, one vocabulary."""
    own = tmp_path / "own"
    own.mkdir()
    both = [*train(own / "source", LINES), *train(own / "target", [*TARGETS, "ghi"])]
    names = ["</s>", "<unk>", *dict.fromkeys(one for one in both if one not in ("<unk>", "<s>", "</s>")), "<pad>"]
    vocabulary = {name: token for token, name in enumerate(names)}
    (own / "vocab.json").write_text(json.dumps(vocabulary))
    tokenizer = MarianTokenizer(
        str(own / "source.model"),
        str(own / "target.model"),
        str(own / "vocab.json"),
        source_lang="a",
        target_lang="b",
    )
    last = len(names) - 1
    ends = {"eos_token_id": 0, "pad_token_id": last, "decoder_start_token_id": last, "bad_words_ids": [[last]]}
    saved = publish(tmp_path / "marian", "marian", vocab_size=len(names), bos_token_id=0, **ends)
    saved.rewrite("generation_config.json", **ends)
    rewritten(saved, tokenizer)
    return saved, tokenizer


def test_marian_reads_sources_and_targets_by_different_pieces(marian):
    saved, tokenizer = marian
    model = saved.model()
    batch = model.encode([Prompt(0, "abba cab")], ["ghi"])
    assert batch.source[0].tolist() == tokenizer("abba cab").input_ids
    target = tokenizer(text_target="ghi").input_ids
    assert model.numbering.swap(batch.gold[0].tolist()) == target
    assert tokenizer("ghi").input_ids != target
    assert model.text(batch.gold[0, :-1].tolist()) == "ghi"
    assert model.score(batch, Scoring("exact", Rng(0))).log_probs.isfinite().all()


def test_marian_never_writes_padding_and_what_it_writes_is_what_generate_writes(marian):
    saved, tokenizer = marian
    model, config = saved.model(), GreedyConfig(max_tokens=6)
    source = torch.tensor([tokenizer("cab").input_ids])
    given = {"attention_mask": torch.ones_like(source), "max_new_tokens": 6, "do_sample": False, "num_beams": 1}
    (row,) = saved.network.generate(source, **given, eos_token_id=0).tolist()
    with torch.no_grad():
        ((one,),) = config.load()(config).decode(model, model.encode([Prompt(0, "cab")]), Rng(0))
    assert model.numbering.swap(one.tokens) == [token for token in row[1:] if token]
    assert len(tokenizer) - 1 not in model.numbering.swap(one.tokens)


@pytest.fixture
def m2m(tmp_path):
    """Return a checkpoint with the tokenizer of M2M-100."""
    own = tmp_path / "own"
    own.mkdir()
    names = ["<s>", "<pad>", "</s>", "<unk>", *train(own / "pieces", LINES)[3:]]
    (own / "vocab.json").write_text(json.dumps({name: token for token, name in enumerate(names)}))
    tokenizer = M2M100Tokenizer(str(own / "vocab.json"), str(own / "pieces.model"))
    saved = publish(tmp_path / "m2m", "m2m_100", vocab_size=120)  # twelve pieces, a hundred languages, and more
    rewritten(saved, tokenizer)
    return saved, tokenizer


def test_m2m_begins_sources_with_their_language_and_targets_with_theirs(m2m):
    saved, tokenizer = m2m
    model = saved.model(source_language="fr", target_language="de")
    tokenizer.src_lang = "fr"
    assert model.tokens_of("abba cab") == tokenizer("abba cab").input_ids
    assert model.tokens_of("abba cab")[0] == tokenizer.get_lang_id("fr")
    assert model.vocabulary_size == 112
    assert model.prefix == [2, tokenizer.get_lang_id("de")]
    batch = model.encode([Prompt(0, "cab")], ["face"])
    assert model.text(batch.gold[0, :-1].tolist()) == "face"


@pytest.mark.parametrize("setting", ["source_language", "target_language"])
def test_m2m_refuses_languages_that_it_does_not_know(m2m, setting):
    with pytest.raises(SuiteError, match="no token for the language 'xx'"):
        m2m[0].model(**{setting: "xx"})


def test_a_language_whose_token_the_model_does_not_have_is_refused(m2m):
    saved, _ = m2m
    saved.rewrite(vocab_size=20)
    with pytest.raises(SuiteError, match="begins with token 28, which is not in its vocabulary"):
        saved.model(target_language="de")
