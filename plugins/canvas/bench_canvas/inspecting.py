"""Compares canvases with references for `bench check`; does not import torch."""

from collections.abc import Iterable, Sequence
from itertools import islice

from bench_canvas.plugin import MaskedDiffusionConfig
from bench_core import Inspection, Prompt

MAX_REFERENCES = 10_000  #: per split


def inspect(config: MaskedDiffusionConfig, inspection: Inspection) -> None:
    """Warn about references with more words than the canvas has places; tokens are unknown here."""
    for task, about in inspection.tasks.items():
        for split in inspection.splits:
            if config.places is not None and split in about.references and split in about.prompts:
                pairs = zip(about.prompts[split](), about.references[split](), strict=False)
                inspection.warnings += _long(islice(pairs, MAX_REFERENCES), config.places, f"{split!r} of {task}")


def _long(pairs: Iterable[tuple[Prompt, Sequence[str]]], places: int, where: str) -> list[str]:
    """Return a warning that names the first example whose words and EOS exceed the places of a canvas."""
    words = [(prompt.id, len(references[0].split())) for prompt, references in pairs]
    long = [(example, number) for example, number in words if number >= places]
    if not long:
        return []
    (example, number), *_ = long
    text = f"{len(long):,} of {len(words):,} targets in {where} do not fit on a canvas of {places} places, such as"
    return [f"{text} example {example}, with {number} words and EOS. They cannot be scored. Increase `places`."]
