"""The files that `save_pretrained` writes: configuration, tokenizer, weights in one file or several."""

import json
from pathlib import Path

from bench_core import DataError

CONFIG, TOKENIZER, WEIGHTS, INDEX = (
    "config.json", "tokenizer.json", "model.safetensors", "model.safetensors.index.json",
)  # fmt: skip


def files(folder: Path) -> dict[str, Path]:
    """Return all files of a model, by name; raise DataError that says what is missing and what to put where."""
    names = [CONFIG, TOKENIZER, *weights(folder)]
    missing = [name for name in names if not (folder / name).is_file()]
    if missing:
        advice = f"Put {CONFIG}, {TOKENIZER} and {WEIGHTS} there, as transformers' `save_pretrained` writes them."
        if any(folder.glob("*.bin")):
            advice = (
                "Its *.bin files are pickled and are not read: `save_pretrained` writes safetensors in their place."
            )
        raise DataError(f"the model in {folder} is not complete: {', '.join(missing)} not found. {advice}")
    return {name: folder / name for name in names}


def weights(folder: Path) -> list[str]:
    """Return the names of the files with weights, and of the index that lists them."""
    index = folder / INDEX
    if (folder / WEIGHTS).is_file() or not index.is_file():
        return [WEIGHTS]
    try:
        names = sorted(set(json.loads(index.read_text(encoding="utf-8-sig"))["weight_map"].values()))
        outside = [name for name in names if Path(name).name != name]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        names, outside = [], []
    if not names or outside:
        raise DataError(f"{index} is no index of weights: its `weight_map` must name files beside it. Fetch it anew.")
    return [INDEX, *names]
