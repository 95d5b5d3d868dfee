"""Tokenizers put together at random: a model, what makes texts uniform and cuts them before it, what joins pieces."""

from __future__ import annotations

from random import Random
from typing import Any

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

SPECIAL = ["<unk>", "<s>", "</s>"]
LETTERS = "abcABxyzéüßñİıﬁ²½Ωжя日本語ไทยא😀👩‍🚀\u0301\u200d\u00a0\u2003\u2028\u3000\t\n  .,'-_@#\u2581Ġ\ufffd\x00"
NORMALIZERS = (
    normalizers.NFC, normalizers.NFKC, normalizers.NFD, normalizers.Lowercase, normalizers.StripAccents,
    normalizers.Strip, normalizers.BertNormalizer, lambda: normalizers.Replace(Regex(r"\s+"), " "),
    lambda: normalizers.Replace(" ", "\u2581"), lambda: normalizers.Prepend("\u2581"),
)  # fmt: skip
CUTTERS = (
    pre_tokenizers.Whitespace, pre_tokenizers.WhitespaceSplit, pre_tokenizers.BertPreTokenizer, pre_tokenizers.ByteLevel,
    lambda: pre_tokenizers.ByteLevel(add_prefix_space=False), lambda: pre_tokenizers.ByteLevel(False, use_regex=False),
    pre_tokenizers.Metaspace, lambda: pre_tokenizers.Metaspace(prepend_scheme="never"), pre_tokenizers.Punctuation,
    lambda: pre_tokenizers.Split(Regex(r"\s+"), "removed"), lambda: pre_tokenizers.Split(" ", "merged_with_next"),
    lambda: pre_tokenizers.Digits(individual_digits=True),
)  # fmt: skip
JOINERS = (
    decoders.ByteLevel, decoders.Metaspace, decoders.WordPiece, decoders.Fuse, decoders.ByteFallback,
    lambda: decoders.Metaspace(prepend_scheme="never"), lambda: decoders.Replace("\u2581", " "),
    lambda: decoders.Strip(" ", 1, 0), lambda: decoders.BPEDecoder(suffix="</w>"),
)  # fmt: skip


def random_text(chance: Random, most: int = 8) -> str:
    """Return a text of few letters, so that the same pieces come again, and now and then of any sign of Unicode."""
    signs = [*LETTERS, "ab", " a", *SPECIAL, "</s", "@@"]
    found = chance.choices(signs, k=chance.randrange(most))
    if chance.random() < 0.2:
        found.append(chr(chance.choice([chance.randrange(0x20, 0xD800), chance.randrange(0xE000, 0x110000)])))
    return "".join(found)


def random_tokenizer(chance: Random) -> Any:
    """Return a tokenizer of random parts, which need not fit each other, learned from random texts."""
    found, trainer = chance.choice([_words, _pairs, _unigram, _pieces])(chance)
    if chance.random() < 0.5:
        found.normalizer = normalizers.Sequence([one() for one in chance.sample(NORMALIZERS, chance.randrange(1, 3))])
    if chance.random() < 0.8:
        found.pre_tokenizer = pre_tokenizers.Sequence(
            [one() for one in chance.sample(CUTTERS, chance.randrange(1, 3))]
        )
    if chance.random() < 0.8:
        found.decoder = decoders.Sequence([one() for one in chance.sample(JOINERS, chance.randrange(1, 3))])
    found.train_from_iterator([random_text(chance, 30) for _ in range(20)], trainer)
    if chance.random() < 0.3:
        number = found.token_to_id("<s>")
        found.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", number)])
    if chance.random() < 0.3:
        found.add_tokens([chance.choice(["ab", " a", "日本", "x y"])])
    return PreTrainedTokenizerFast(tokenizer_object=found, bos_token="<s>", eos_token="</s>", unk_token="<unk>")


def _words(chance: Random) -> tuple[Tokenizer, Any]:
    trainer = trainers.WordLevelTrainer(special_tokens=SPECIAL, show_progress=False, vocab_size=60)
    return Tokenizer(models.WordLevel(unk_token="<unk>")), trainer


def _pairs(chance: Random) -> tuple[Tokenizer, Any]:
    more = {"initial_alphabet": pre_tokenizers.ByteLevel.alphabet()} if chance.random() < 0.5 else {}
    trainer = trainers.BpeTrainer(special_tokens=SPECIAL, show_progress=False, vocab_size=300, **more)
    unknown = {"unk_token": "<unk>", "fuse_unk": chance.random() < 0.5} if chance.random() < 0.7 else {}
    return Tokenizer(models.BPE(byte_fallback=chance.random() < 0.3, **unknown)), trainer


def _unigram(chance: Random) -> tuple[Tokenizer, Any]:
    trainer = trainers.UnigramTrainer(special_tokens=SPECIAL, show_progress=False, vocab_size=300, unk_token="<unk>")
    return Tokenizer(models.Unigram()), trainer


def _pieces(chance: Random) -> tuple[Tokenizer, Any]:
    trainer = trainers.WordPieceTrainer(special_tokens=SPECIAL, show_progress=False, vocab_size=90)
    return Tokenizer(models.WordPiece(unk_token="<unk>")), trainer
