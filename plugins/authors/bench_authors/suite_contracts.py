"""The contracts on the parts of suites, for `bench check --contracts`."""

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
from bench_core.terminal import counted, say


def check_contracts(suites: Mapping[str, Suite], data: Path, seconds: float | None) -> int:
    """Try the contracts on the parts of suites, each part once, and print a line for each; return the exit code.

    It is 1 if a contract is broken, else 0. Each may take `seconds` in a worker process; None tries them in this one.
    Models and decoders are built with the settings of the suite on a tiny vocabulary, metrics measure invented
    outputs, and tasks read their own data. Text generators, which know the prompts of their data, are not tried.
    """
    tried: set[str] = set()
    code = 0
    with _here(data) if seconds is None else checking(data, seconds) as verdict:
        for name, suite in suites.items():
            if len(suites) > 1:
                say(f"{name}:")
            for label, trial in _trials(located_suite(suite, data)):
                if (whole := f"{label} {trial}") not in tried:
                    tried.add(whole)
                    if sys.stderr.isatty():
                        say(f"... {label}", err=True)
                    found = Verdict(untried=trial) if isinstance(trial, str) else verdict(trial)
                    code = 1 if found.broken else code
                    for line in _lines(label, found):
                        say(line)
    return code


def _here(data: Path) -> AbstractContextManager[Callable[[Trial], Verdict]]:
    from bench_authors.testing.trials import verdict_here  # imports torch

    return nullcontext(partial(verdict_here, data=data))


def _trials(suite: Suite) -> Iterator[tuple[str, Trial | str]]:
    """Yield the parts of a suite, each with a label such as `model lstm`, or why they are not tried."""
    devices = (one.device for one in suite.hardware.values())
    accelerated = any(device_kind() == "cuda" if one == "auto" else one == "cuda" for one in devices)
    cells = [
        (cell, suite.models[cell.model].at(cell.task), suite.tasks[cell.task].source) for cell in cells_of(suite)
    ]
    for cell, model, source in cells:
        parts, trained = [described(model.config)], model.training.updates != 0 and not model.config.is_untrainable()
        of_texts = "it generates texts. Test it with `bench_authors.testing.check_text_generator`."
        trial = Trial("model", parts, source, trained, accelerated, roots=roots_inside(model.config))
        yield f"model {cell.model}", of_texts if writes_text(model.config) else trial
    for cell, model, source in cells:
        if cell.decoder is not None and not writes_text(model.config):
            both = suite.decoders[cell.decoder], model.config
            label, roots = f"decoder {cell.decoder} with {cell.model}", roots_inside(*both)
            yield label, Trial("decoder", [*map(described, both)], source, accelerated=accelerated, roots=roots)
    for name, task in suite.tasks.items():
        yield f"task {name}", Trial("task", [described(task)], roots=roots_inside(task))
    for name, metric in suite.metrics.items():
        yield f"metric {name}", Trial("metric", [described(metric)], roots=roots_inside(metric))


def _lines(label: str, found: Verdict) -> Iterator[str]:
    """Yield the lines to print about a part."""
    number = len(found.done)
    if found.untried:
        yield f"not tried  {label}: {found.untried}"
    elif early := found.broken.keys() & {IMPORTED, BUILT}:
        yield from (f"broken  {label}, {name}: {found.broken[name]}" for name in early)
        return
    elif found.broken:
        yield f"broken  {label}: {len(found.broken)} of {counted(number, 'contract')}"
    else:
        yield f"ok  {label}: {counted(number, 'contract')}"
    yield from (f"  {_sentence(name)}: {why}" for name, why in found.broken.items())
    yield from (f"  right on the CPU only  {_sentence(name)}: {why}" for name, why in found.only_on_cpu.items())
    yield from (f"  exempt  {_sentence(name)}: {why}" for name, why in found.exempt.items())
    if found.left_out:
        yield f"  not tried  {counted(len(found.left_out), 'other contract')}, as earlier ones took too long"


def _sentence(name: str) -> str:
    return name.replace("_", " ")
