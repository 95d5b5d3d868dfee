"""Reads recorded outputs and references as a run would, and compares outputs with the examples of tasks; no torch."""

from pathlib import Path

from bench_core import Inspection, Prompt
from bench_recorded.matching import matched
from bench_recorded.plugin import RecordedConfig, ReferencesConfig
from bench_recorded.reading.recording import recording
from bench_recorded.reading.text_lines import read_alike


def inspect_outputs(config: RecordedConfig, inspection: Inspection) -> None:
    """Note what is wrong with outputs, and which examples they are not of."""
    for split in inspection.splits:
        for seed in inspection.seeds:
            with inspection.noting():
                _inspect_file(config, inspection, split, config.file(split, seed))


def _inspect_file(config: RecordedConfig, inspection: Inspection, split: str, path: Path) -> None:
    if not inspection.are_small([path]):
        return
    found = recording(path, config, config.prompts.get(split))
    for task, own in inspection.tasks.items():
        if split not in own.prompts:
            inspection.skipped.append(f"whether {path} is of the examples of {task}")
            continue
        prompts = [*own.prompts[split]()]
        of_split = matched(found, config, prompts, split, len(prompts))
        if inspection.is_sampled:
            inspection.skipped.append(f"whether {path} has the examples of {task} that `limits` choose")
        else:
            of_split.of(prompts)
        inspection.warnings += of_split.warnings()


def inspect_references(config: ReferencesConfig, inspection: Inspection) -> None:
    """Note what is wrong with files of references and sources."""
    paths = [*config.references, *([config.sources] if config.sources else [])]
    if inspection.are_small(paths):
        found = read_alike(config.references, config.sources)
        sources = found[-1] if config.sources else [""] * len(found[0])
        inspection.prompts["test"] = lambda: (Prompt(number, text) for number, text in enumerate(sources))
