"""The files of `save_pretrained`: configuration, tokenizer, and weights in one or several files."""

import json
from pathlib import Path

from bench_core import DataError

CONFIG, TOKENIZER = "config.json", "tokenizer.json"
WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"


def files(folder: Path) -> dict[str, Path]:
    """Return all files of a model by name; raise DataError for missing files."""
    names = [CONFIG, TOKENIZER, *weights(folder)]
    missing = [name for name in names if not (folder / name).is_file()]
    if missing:
        advice = f"Put {CONFIG}, {TOKENIZER} and {WEIGHTS} there, as written by transformers' `save_pretrained`."
        if any(folder.glob("*.bin")):
            advice = "Pickled *.bin files are not supported; `save_pretrained` writes safetensors instead."
        raise DataError(f"the model in {folder} is incomplete: {', '.join(missing)} not found. {advice}")
    return {name: folder / name for name in names}


def weights(folder: Path) -> list[str]:
    """Return the names of the weight files, and of their index if there is one."""
    index = folder / INDEX
    if (folder / WEIGHTS).is_file() or not index.is_file():
        return [WEIGHTS]
    try:
        names = sorted(set(json.loads(index.read_text(encoding="utf-8-sig"))["weight_map"].values()))
        outside = [name for name in names if Path(name).name != name]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        names, outside = [], []
    if not names or outside:
        raise DataError(
            f"{index} is not an index of weights: its `weight_map` must name files in its folder. Download it again."
        )
    return [INDEX, *names]
