"""Opens the files of a model as far as that needs neither torch nor transformers: headers, tokenizers, families."""

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib.util import find_spec
from itertools import islice
from pathlib import Path

from bench_core import DataError, Inspection
from bench_core.files import check_weights
from bench_huggingface.checkpoint import Family, read_json
from bench_huggingface.checkpoint_check import Checkpoint
from bench_huggingface.folder import CONFIG, INDEX, TOKENIZER
from bench_huggingface.plugin import CausalLMConfig, CheckpointConfig

READ = 10_000  #: references that are encoded
#: Mappings of transformers from types of models to classes.
MAPPINGS = {"causal": "MODEL_FOR_CAUSAL_LM_MAPPING_NAMES", "seq2seq": "MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES"}


def inspect_model(config: CausalLMConfig, inspection: Inspection) -> None:
    """Note what is wrong with the files of a model that is trained further."""
    if config.path is not None:
        _inspect(inspection, config.files(inspection.data), "causal")


def inspect_checkpoint(config: CheckpointConfig, inspection: Inspection) -> None:
    """Note what is wrong with the files of a published model, and which references its tokens cannot write."""
    files = config.files(inspection.data)
    _inspect(inspection, files, config.family)
    checkpoint = Checkpoint(files, config)
    inspection.problems += checkpoint.problems()
    inspection.skipped += checkpoint.skipped()
    for task, about in inspection.tasks.items():
        for split in inspection.splits:
            with inspection.noting():
                checkpoint.check_texts(about, inspection, split)
        splits = [split for split in inspection.splits if split in about.references]
        if TOKENIZER not in files or not splits:
            inspection.skipped.append(f"which references of {task} the tokens of {files[CONFIG].parent} can write")
            continue
        for split in splits:
            number, lost = _lost(files[TOKENIZER], islice(about.references[split](), READ))
            inspection.bound(f"{task} {split}", number, lost, f"the tokens of {files[CONFIG].parent.name}")


def _lost(path: Path, references: Iterable[Sequence[str]]) -> tuple[int, int]:
    """Return the number of references, and of those that tokens change, white space at their ends aside.

    White space there depends on what stands before, and on settings of transformers.
    """
    from tokenizers import Tokenizer

    tokenizer, number, lost = Tokenizer.from_file(str(path)), 0, 0
    for texts in references:
        number += 1
        ids = tokenizer.encode(texts[0], add_special_tokens=False).ids
        written = str(tokenizer.decode(ids, skip_special_tokens=False)).strip()
        lost += all(written != text.strip() for text in texts)
    return number, lost


def _inspect(inspection: Inspection, files: Mapping[str, Path], family: Family) -> None:
    """Note what is wrong with files; the classes of transformers, which import torch, are not asked."""
    check_files(files, family)
    inspection.skipped.append(f"whether the weights in {files[CONFIG].parent} are those of its architecture")


def check_files(files: Mapping[str, Path], family: Family) -> None:
    """Raise DataError for a file that cannot be read, or a type of model that transformers does not know."""
    check_weights(path for name, path in files.items() if path.suffix == ".safetensors")
    for name, path in files.items():
        if path.suffix == ".json" and name not in (TOKENIZER, INDEX):
            read_json(path)
    if TOKENIZER in files:
        _check_tokenizer(files[TOKENIZER])
    kind, known = str(read_json(files[CONFIG]).get("model_type")), known_types(family)
    if known and kind not in known:
        raise DataError(
            f"{files[CONFIG]}: this version of transformers has no model of type {kind!r} for texts. Install another "
            "version, or choose another model."
        )


def _check_tokenizer(path: Path) -> None:
    from tokenizers import Tokenizer

    try:
        Tokenizer.from_file(str(path))
    except Exception as error:  # the library has no other name for it
        raise DataError(f"{path} is no tokenizer: {' '.join(str(error).split())}. Copy it again.") from None


@cache
def known_types(family: Family) -> frozenset[str]:
    """Return the types of models of a family, as the source of transformers lists them; none if it cannot be read."""
    spec = find_spec("transformers")
    if spec is None or not spec.submodule_search_locations:
        return frozenset()
    path = Path(spec.submodule_search_locations[0], "models", "auto", "modeling_auto.py")
    try:
        text = path.read_text(encoding="utf-8")
    except OSError:
        return frozenset()
    found = re.search(rf"^{MAPPINGS[family]} = OrderedDict\((.*?)^\)", text, re.DOTALL | re.MULTILINE)
    return frozenset(re.findall(r'\("([^"]+)", "', found[1])) if found else frozenset()
