"""Tiny tokenizers of every kind, lossless and lossy, with `<s>`, `</s>` and `<unk>` as control tokens."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

SPECIAL = ["<unk>", "<s>", "</s>"]
LINES = ["abba ab ba", "a b  aab", "bab Ab", "ab\nba", "b ab a"] * 3
SIGN = "\u2581"


def _trained(model: Any, trainer: Any, pre: Any = None, decoder: Any = None, normalizer: Any = None) -> Tokenizer:
    found = Tokenizer(model)
    if pre:
        found.pre_tokenizer = pre
    if normalizer:
        found.normalizer = normalizer
    if decoder:
        found.decoder = decoder
    found.train_from_iterator(LINES, trainer)
    return found


def word(**more: Any) -> Tokenizer:
    trainer = trainers.WordLevelTrainer(special_tokens=SPECIAL, show_progress=False)
    return _trained(models.WordLevel(unk_token="<unk>"), trainer, pre_tokenizers.WhitespaceSplit(), **more)


def bytes_of(add_prefix_space: bool = False, use_regex: bool = True) -> Tokenizer:
    trainer = trainers.BpeTrainer(
        vocab_size=270, special_tokens=SPECIAL, show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )  # fmt: skip
    pre = pre_tokenizers.ByteLevel(add_prefix_space=add_prefix_space, use_regex=use_regex)
    return _trained(models.BPE(), trainer, pre, decoders.ByteLevel())


def pairs(**more: Any) -> Tokenizer:
    trainer = trainers.BpeTrainer(vocab_size=16, special_tokens=SPECIAL, show_progress=False)
    return _trained(models.BPE(unk_token="<unk>"), trainer, **{"decoder": decoders.Fuse(), **more})


def unigram(pre: Any = None, decoder: Any = None) -> Tokenizer:
    trainer = trainers.UnigramTrainer(vocab_size=14, special_tokens=SPECIAL, unk_token="<unk>", show_progress=False)
    return _trained(models.Unigram(), trainer, pre, decoder or decoders.Fuse())


def metaspace(scheme: str) -> Tokenizer:
    given = {"prepend_scheme": scheme}
    return unigram(pre_tokenizers.Metaspace(**given), decoders.Metaspace(**given))


def byte_fallback(prepend: bool) -> Tokenizer:
    """Return pieces of characters with bytes for all others, as Llama 2 has them."""
    letters = [SIGN, "a", "b", "ab", f"{SIGN}a", f"{SIGN}ab"]
    names = [*SPECIAL, *(f"<0x{byte:02X}>" for byte in range(256)), *letters]
    merges = [("a", "b"), (SIGN, "a"), (SIGN, "ab")]
    model = models.BPE(
        {name: place for place, name in enumerate(names)},
        merges,
        unk_token="<unk>",
        byte_fallback=True,
        fuse_unk=True,
    )
    found = Tokenizer(model)
    before = [normalizers.Prepend(SIGN)] if prepend else []
    found.normalizer = normalizers.Sequence([*before, normalizers.Replace(" ", SIGN)])
    strip = [decoders.Strip(" ", 1, 0)] if prepend else []
    found.decoder = decoders.Sequence([decoders.Replace(SIGN, " "), decoders.ByteFallback(), decoders.Fuse(), *strip])
    return found


def pieces(lowercase: bool) -> Tokenizer:
    trainer = trainers.WordPieceTrainer(vocab_size=24, special_tokens=SPECIAL, show_progress=False)
    return _trained(
        models.WordPiece(unk_token="<unk>"), trainer, pre_tokenizers.BertPreTokenizer(), decoders.WordPiece(),
        normalizers.BertNormalizer(lowercase=lowercase),
    )  # fmt: skip


KINDS: dict[str, Callable[[], Tokenizer]] = {
    "words": word,
    "words in lower case": lambda: word(normalizer=normalizers.Lowercase()),
    "bytes": bytes_of,
    "bytes without a pattern": lambda: bytes_of(use_regex=False),
    "bytes behind a space": lambda: bytes_of(add_prefix_space=True),
    "pairs": pairs,
    "pairs in NFKC": lambda: pairs(normalizer=normalizers.NFKC()),
    "pairs of words": lambda: pairs(
        pre=pre_tokenizers.Split(Regex(r"\s+"), "isolated"), normalizer=normalizers.Replace("A", "a")
    ),
    "unigram": unigram,
    "metaspace always": lambda: metaspace("always"),
    "metaspace first": lambda: metaspace("first"),
    "metaspace never": lambda: metaspace("never"),
    "byte fallback": lambda: byte_fallback(prepend=True),
    "byte fallback, no space before": lambda: byte_fallback(prepend=False),
    "pieces": lambda: pieces(lowercase=False),
    "pieces in lower case": lambda: pieces(lowercase=True),
}
LOSSLESS = ("bytes", "bytes without a pattern", "byte fallback", "byte fallback, no space before")


def tokenizer(kind: str, begins: bool = False) -> Any:
    """Return a tokenizer of transformers; `begins`: it puts `<s>` before each text."""
    found = KINDS[kind]()
    if begins:
        number = found.token_to_id("<s>")
        found.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", number)])
    return PreTrainedTokenizerFast(tokenizer_object=found, bos_token="<s>", eos_token="</s>", unk_token="<unk>")
