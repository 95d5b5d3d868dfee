"""Checks the files of a model without torch or transformers: headers, tokenizers, model families."""

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib.util import find_spec
from itertools import islice
from pathlib import Path

from bench_core import DataError, Inspection
from bench_core.files import check_weights
from bench_huggingface.checkpoint import Family, one_line, read_json
from bench_huggingface.checkpoint_check import Checkpoint
from bench_huggingface.folder import CONFIG, INDEX, TOKENIZER
from bench_huggingface.plugin import CausalLMConfig, CheckpointConfig

MAX_REFERENCES = 10_000  #: maximum number of references to encode
#: Names of transformers' mappings from model types to classes.
MAPPINGS = {"causal": "MODEL_FOR_CAUSAL_LM_MAPPING_NAMES", "seq2seq": "MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES"}


def inspect_model(config: CausalLMConfig, inspection: Inspection) -> None:
    """Report problems with the files of a model that is trained further."""
    if config.path is not None:
        _inspect(inspection, config.files(inspection.data), "causal")


def inspect_checkpoint(config: CheckpointConfig, inspection: Inspection) -> None:
    """Report problems with the files of a published model, and references that its tokens cannot represent."""
    files = config.files(inspection.data)
    _inspect(inspection, files, config.family)
    checkpoint = Checkpoint(files, config)
    inspection.problems += checkpoint.problems()
    inspection.skipped += checkpoint.unchecked()
    for task, about in inspection.tasks.items():
        for split in inspection.splits:
            with inspection.noting():
                checkpoint.check_texts(about, inspection, split)
        splits = [split for split in inspection.splits if split in about.references]
        if TOKENIZER not in files or not splits:
            unknown = f"which references of {task} the tokens of {files[CONFIG].parent} can represent"
            inspection.skipped.append(unknown)
            continue
        for split in splits:
            number, lost = _lost(files[TOKENIZER], islice(about.references[split](), MAX_REFERENCES))
            inspection.bound(f"{task} {split}", number, lost, f"the tokens of {files[CONFIG].parent.name}")


def _lost(path: Path, references: Iterable[Sequence[str]]) -> tuple[int, int]:
    """Return the number of references, and how many change when encoded; ignore leading and trailing white space.

    Such white space depends on the preceding text and on settings of transformers.
    """
    from tokenizers import Tokenizer

    tokenizer, number, lost = Tokenizer.from_file(str(path)), 0, 0
    for texts in references:
        number += 1
        ids = tokenizer.encode(texts[0], add_special_tokens=False).ids
        decoded = str(tokenizer.decode(ids, skip_special_tokens=False)).strip()
        lost += all(decoded != text.strip() for text in texts)
    return number, lost


def _inspect(inspection: Inspection, files: Mapping[str, Path], family: Family) -> None:
    """Report problems with files; does not use transformers classes, which import torch."""
    check_files(files, family)
    inspection.skipped.append(f"whether the weights in {files[CONFIG].parent} match its architecture")


def check_files(files: Mapping[str, Path], family: Family) -> None:
    """Raise DataError for an unreadable file, or a model type that transformers does not support."""
    check_weights(path for name, path in files.items() if path.suffix == ".safetensors")
    for name, path in files.items():
        if path.suffix == ".json" and name not in (TOKENIZER, INDEX):
            read_json(path)
    if TOKENIZER in files:
        _check_tokenizer(files[TOKENIZER])
    kind, supported = str(read_json(files[CONFIG]).get("model_type")), supported_types(family)
    if supported and kind not in supported:
        raise DataError(
            f"{files[CONFIG]}: this version of transformers has no text model of type {kind!r}. Install another "
            "version, or choose another model."
        )


def _check_tokenizer(path: Path) -> None:
    from tokenizers import Tokenizer

    try:
        Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises no more specific class
        raise DataError(f"{path} is not a tokenizer: {one_line(error)}. Download it again.") from None


@cache
def supported_types(family: Family) -> frozenset[str]:
    """Return the model types that the source of transformers lists for a family; empty if it cannot be read."""
    spec = find_spec("transformers")
    if spec is None or not spec.submodule_search_locations:
        return frozenset()
    path = Path(spec.submodule_search_locations[0], "models", "auto", "modeling_auto.py")
    try:
        text = path.read_text(encoding="utf-8")
    except OSError:
        return frozenset()
    match = re.search(rf"^{MAPPINGS[family]} = OrderedDict\((.*?)^\)", text, re.DOTALL | re.MULTILINE)
    return frozenset(re.findall(r'\("([^"]+)", "', match[1])) if match else frozenset()
