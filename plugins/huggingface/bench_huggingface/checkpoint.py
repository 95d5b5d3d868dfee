"""The files of published checkpoints; checks their model family; does not import torch."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, TypeAlias

from bench_core import DataError
from bench_huggingface.folder import CONFIG, INDEX, WEIGHTS, weights

Family: TypeAlias = Literal["causal", "seq2seq"]

GENERATION = "generation_config.json"
#: Files whose presence shows that there is a tokenizer.
VOCABULARIES = (
    "tokenizer.json", "tokenizer.model", "spiece.model", "sentencepiece.bpe.model", "source.spm", "vocab.json",
    "vocab.txt",
)  # fmt: skip
#: Further files that tokenizers or text generation may read.
OPTIONAL = (
    GENERATION, *VOCABULARIES, "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "merges.txt",
    "target.spm", "target_vocab.json", "chat_template.jinja",
)  # fmt: skip
#: Files to fetch from a repository.
PATTERNS = (CONFIG, *OPTIONAL, WEIGHTS, INDEX, "model-*.safetensors")
#: Suffixes of architecture names.
ENDINGS: Mapping[Family, tuple[str, ...]] = {
    "causal": ("ForCausalLM", "LMHeadModel"),
    "seq2seq": ("ForConditionalGeneration", "MTModel", "WithLMHeadModel", "ForSeq2SeqLM"),
}
NAMES: Mapping[Family, str] = {"causal": "hf-pretrained-lm", "seq2seq": "hf-pretrained-seq2seq"}
KINDS: Mapping[Family, str] = {"causal": "a causal language model", "seq2seq": "an encoder-decoder"}


def files(folder: Path, family: Family) -> dict[str, Path]:
    """Return all files of a checkpoint by name; raise DataError for missing files or a wrong model family."""
    if not folder.is_dir():
        raise DataError(f"the folder {folder} does not exist. Correct the path, or put the model there.")
    if not (folder / CONFIG).is_file():
        raise _missing(folder, CONFIG, "the description of the architecture")
    check_family(folder, family)
    names = weights(folder)
    missing = [name for name in names if not (folder / name).is_file()]
    if missing:
        pickled = any(folder.glob("*.bin")) and missing == [WEIGHTS]
        advice = " Pickled *.bin files are not supported; `save_pretrained` writes safetensors instead."
        raise _missing(folder, ", ".join(missing), "the weights", advice if pickled else "")
    optional = [name for name in OPTIONAL if (folder / name).is_file()]
    if not set(VOCABULARIES) & set(optional):
        advice = " Save the model's tokenizer there with `save_pretrained`."
        raise _missing(folder, "tokenizer.json", "the tokenizer", advice)
    return {name: folder / name for name in (CONFIG, *optional, *names)}


def check_family(folder: Path, family: Family) -> None:
    """Raise DataError if the configuration in a folder belongs to another model family."""
    path = folder / CONFIG
    config = read_json(path)
    kind, architectures = config.get("model_type"), config.get("architectures") or []
    if not isinstance(kind, str):
        raise DataError(f"{path} has no `model_type`, so it is not a transformers configuration. Download it again.")
    if "quantization_config" in config:
        raise DataError(
            f"the model in {folder} has quantized weights, which are not supported. Use the full weights."
        )
    is_seq2seq = config.get("is_encoder_decoder") is True
    other: Family = "causal" if family == "seq2seq" else "seq2seq"
    if is_seq2seq != (family == "seq2seq"):
        raise DataError(
            f"the model in {folder} ({kind!r}) is not {KINDS[family]} ({CONFIG}: `is_encoder_decoder: "
            f"{str(is_seq2seq).lower()}`). For {KINDS[other]}, use {NAMES[other]}."
        )
    if architectures and not any(str(name).endswith(ENDINGS[family]) for name in architectures):
        names = ", ".join(map(str, architectures))
        raise DataError(
            f"the model in {folder} is a {names}, which does not generate text. Use {KINDS[family]} whose name "
            f"ends in {' or '.join(ENDINGS[family])}."
        )


def read_json(path: Path) -> dict[str, Any]:
    """Return the mapping in a JSON file; raise DataError if the file does not contain a mapping."""
    try:
        content = json.loads(path.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError) as error:
        raise DataError(f"{path} cannot be read as JSON ({one_line(error)}). Download it again.") from None
    if not isinstance(content, dict):
        raise DataError(f"{path} does not contain a mapping of settings. Download it again.")
    return content


def one_line(error: Exception) -> str:
    """Return the message of an error of a library as one line; the name of its class without a message."""
    return " ".join(str(error).split()) or type(error).__name__


def _missing(folder: Path, name: str, what: str, advice: str = "") -> DataError:
    advice = advice or f" Put {what} there, as written by transformers' `save_pretrained`."
    return DataError(f"the model in {folder} lacks {what}: {name} not found.{advice}")
