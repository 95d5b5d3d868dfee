"""Published checkpoints: which files make one, and whether it is of the family that a model asks for; no torch."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, TypeAlias

from bench_core import DataError
from bench_huggingface.folder import CONFIG, INDEX, WEIGHTS, weights

Family: TypeAlias = Literal["causal", "seq2seq"]

GENERATION = "generation_config.json"
#: Files of tokenizers by which one can be told to be there.
VOCABULARIES = (
    "tokenizer.json", "tokenizer.model", "spiece.model", "sentencepiece.bpe.model", "source.spm", "vocab.json",
    "vocab.txt",
)  # fmt: skip
#: What else a tokenizer, or the generation of texts, may read.
OPTIONAL = (
    GENERATION, *VOCABULARIES, "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "merges.txt",
    "target.spm", "target_vocab.json", "chat_template.jinja",
)  # fmt: skip
#: What is fetched of a repository.
PATTERNS = (CONFIG, *OPTIONAL, WEIGHTS, INDEX, "model-*.safetensors")
#: How names of architectures end.
ENDINGS: Mapping[Family, tuple[str, ...]] = {
    "causal": ("ForCausalLM", "LMHeadModel"),
    "seq2seq": ("ForConditionalGeneration", "MTModel", "WithLMHeadModel", "ForSeq2SeqLM"),
}
NAMES: Mapping[Family, str] = {"causal": "hf-pretrained-lm", "seq2seq": "hf-pretrained-seq2seq"}
KINDS: Mapping[Family, str] = {"causal": "causal language model", "seq2seq": "encoder-decoder"}


def files(folder: Path, family: Family) -> dict[str, Path]:
    """Return all files of a checkpoint, by name; raise DataError that says what is missing, or of another family."""
    if not folder.is_dir():
        raise DataError(f"there is no folder {folder} with a model. Correct its path, or put the model there.")
    if not (folder / CONFIG).is_file():
        raise _missing(folder, CONFIG, "the description of the architecture")
    check_family(folder, family)
    names = weights(folder)
    lost = [name for name in names if not (folder / name).is_file()]
    if lost:
        pickled = any(folder.glob("*.bin")) and lost == [WEIGHTS]
        advice = " Its *.bin files are pickled and are not read: `save_pretrained` writes safetensors in their place."
        raise _missing(folder, ", ".join(lost), "the weights", advice if pickled else "")
    optional = [name for name in OPTIONAL if (folder / name).is_file()]
    if not set(VOCABULARIES) & set(optional):
        raise _missing(
            folder, "tokenizer.json", "the tokenizer",
            " Write it there with `save_pretrained` of the tokenizer that the model was trained with.",
        )  # fmt: skip
    return {name: folder / name for name in (CONFIG, *optional, *names)}


def check_family(folder: Path, family: Family) -> None:
    """Raise DataError unless the configuration in a folder is that of such a model, as far as it says."""
    path = folder / CONFIG
    config = read_json(path)
    kind, architectures = config.get("model_type"), config.get("architectures") or []
    if not isinstance(kind, str):
        raise DataError(f"{path} names no `model_type`, so it is no configuration of transformers. Fetch it anew.")
    if "quantization_config" in config:
        raise DataError(f"the model in {folder} has quantized weights, which are not read. Choose the full ones.")
    is_seq2seq = config.get("is_encoder_decoder") is True
    other: Family = "causal" if family == "seq2seq" else "seq2seq"
    if is_seq2seq != (family == "seq2seq"):
        raise DataError(
            f"the model in {folder} ({kind!r}) is no {KINDS[family]}, as its {CONFIG} says by `is_encoder_decoder: "
            f"{str(is_seq2seq).lower()}`. If it is a {KINDS[other]}, name the model {NAMES[other]}."
        )
    if architectures and not any(str(one).endswith(ENDINGS[family]) for one in architectures):
        names = ", ".join(map(str, architectures))
        raise DataError(
            f"the model in {folder} is a {names}, which writes no text. A {KINDS[family]} is needed, whose name ends "
            f"in {' or '.join(ENDINGS[family])}."
        )


def read_json(path: Path) -> dict[str, Any]:
    """Return the mapping in a JSON file; raise DataError if it holds none."""
    try:
        found = json.loads(path.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError) as error:
        raise DataError(f"{path} cannot be read as JSON ({' '.join(str(error).split())}). Fetch it anew.") from None
    if not isinstance(found, dict):
        raise DataError(f"{path} holds no mapping of settings. Fetch it anew.")
    return found


def _missing(folder: Path, name: str, what: str, advice: str = "") -> DataError:
    advice = advice or f" Put {what} there, as transformers' `save_pretrained` writes it."
    return DataError(f"the model in {folder} lacks {what}: {name} not found.{advice}")
