"""Tests the contracts of the parts of suites, for `bench check --contracts`."""

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path

from bench_authors.checker import BUILT, IMPORTED, Trial, Verdict, checking
from bench_core.planning.hardware import device_kind
from bench_core.planning.plan import located_suite
from bench_core.planning.stage_code import roots_inside
from bench_core.planning.stage_maker import described
from bench_core.suites.cells import cells_of, writes_text
from bench_core.suites.suite import Suite
from bench_core.terminal import count_of, say


def check_contracts(suites: Mapping[str, Suite], data: Path, seconds: float | None) -> int:
    """Test the contracts of each part in the suites once, print a line for each part, and return the exit code.

    The exit code is 1 if a contract is broken, else 0. Each contract may take up to `seconds` in a worker process;
    if `seconds` is None, contracts are tested in this process. Models and decoders are built with the settings of the
    suite and a tiny vocabulary, metrics score synthetic outputs, and tasks read their own data. Text generators are
    not tested, because they depend on the prompts of their data.
    """
    seen: set[str] = set()
    code = 0
    with _in_process(data) if seconds is None else checking(data, seconds) as verdict:
        for name, suite in suites.items():
            if len(suites) > 1:
                say(f"{name}:")
            for label, trial in _trials(located_suite(suite, data)):
                if (description := f"{label} {trial}") not in seen:
                    seen.add(description)
                    if sys.stderr.isatty():
                        say(f"... {label}", err=True)
                    result = Verdict(untried=trial) if isinstance(trial, str) else verdict(trial)
                    code = 1 if result.broken else code
                    for line in _lines(label, result):
                        say(line)
    return code


def _in_process(data: Path) -> AbstractContextManager[Callable[[Trial], Verdict]]:
    from bench_authors.testing.trials import verdict_here  # imports torch

    return nullcontext(partial(verdict_here, data=data))


def _trials(suite: Suite) -> Iterator[tuple[str, Trial | str]]:
    """Yield a label for each part of a suite, such as `model lstm`, with its trial or the reason not to test it."""
    devices = (hardware.device for hardware in suite.hardware.values())
    accelerated = any(device_kind() == "cuda" if device == "auto" else device == "cuda" for device in devices)
    cells = [
        (cell, suite.models[cell.model].at(cell.task), suite.tasks[cell.task].source) for cell in cells_of(suite)
    ]
    for cell, model, source in cells:
        parts, trained = [described(model.config)], model.training.updates != 0 and not model.config.is_untrainable()
        untestable = "it generates texts. Test it with `bench_authors.testing.check_text_generator`."
        trial = Trial("model", parts, source, trained, accelerated, roots=roots_inside(model.config))
        yield f"model {cell.model}", untestable if writes_text(model.config) else trial
    for cell, model, source in cells:
        if cell.decoder is not None and not writes_text(model.config):
            configs = suite.decoders[cell.decoder], model.config
            label, roots = f"decoder {cell.decoder} with {cell.model}", roots_inside(*configs)
            yield label, Trial("decoder", [*map(described, configs)], source, accelerated=accelerated, roots=roots)
    for name, task in suite.tasks.items():
        yield f"task {name}", Trial("task", [described(task)], roots=roots_inside(task))
    for name, metric in suite.metrics.items():
        yield f"metric {name}", Trial("metric", [described(metric)], roots=roots_inside(metric))


def _lines(label: str, result: Verdict) -> Iterator[str]:
    """Yield the output lines of a part."""
    number = len(result.done)
    if result.untried:
        yield f"not tried  {label}: {result.untried}"
    elif early := result.broken.keys() & {IMPORTED, BUILT}:
        yield from (f"broken  {label}, {name}: {result.broken[name]}" for name in early)
        return
    elif result.broken:
        yield f"broken  {label}: {len(result.broken)} of {count_of(number, 'contract')}"
    else:
        yield f"ok  {label}: {count_of(number, 'contract')}"
    yield from (f"  {_sentence(name)}: {why}" for name, why in result.broken.items())
    yield from (f"  correct on the CPU only  {_sentence(name)}: {why}" for name, why in result.only_on_cpu.items())
    yield from (f"  exempt  {_sentence(name)}: {why}" for name, why in result.exempt.items())
    if result.left_out:
        yield f"  not tried  {count_of(len(result.left_out), 'other contract')}: earlier contracts took too long"


def _sentence(name: str) -> str:
    return name.replace("_", " ")
