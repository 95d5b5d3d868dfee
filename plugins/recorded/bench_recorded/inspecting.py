"""Inspectors that read recorded outputs and references like a run, and match outputs to examples; no torch needed."""

from pathlib import Path

from bench_core import Inspection, Prompt
from bench_recorded.matching import match_outputs
from bench_recorded.plugin import RecordedConfig, ReferencesConfig
from bench_recorded.reading.recording import read_recording
from bench_recorded.reading.text_lines import read_parallel


def inspect_outputs(config: RecordedConfig, inspection: Inspection) -> None:
    """Record invalid outputs, and outputs that do not match the examples."""
    for split in inspection.splits:
        for seed in inspection.seeds:
            with inspection.noting():
                _inspect_file(config, inspection, split, config.file(split, seed))


def _inspect_file(config: RecordedConfig, inspection: Inspection, split: str, path: Path) -> None:
    if not inspection.are_small([path]):
        return
    recording = read_recording(path, config, config.prompts.get(split))
    for name, task in inspection.tasks.items():
        if split not in task.prompts:
            inspection.skipped.append(f"whether {path} matches the examples of {name}")
            continue
        prompts = [*task.prompts[split]()]
        outputs = match_outputs(recording, config, prompts, split, len(prompts))
        if inspection.is_sampled:
            inspection.skipped.append(f"whether {path} has the examples of {name} sampled by `limits`")
        else:
            outputs.of(prompts)
        inspection.warnings += outputs.warnings()


def inspect_references(config: ReferencesConfig, inspection: Inspection) -> None:
    """Record problems with the reference and source files; provide the sources as prompts."""
    paths = [*config.references, *([config.sources] if config.sources else [])]
    if inspection.are_small(paths):
        files = read_parallel(config.references, config.sources)
        sources = files[-1] if config.sources else [""] * len(files[0])
        inspection.prompts["test"] = lambda: (Prompt(number, text) for number, text in enumerate(sources))
