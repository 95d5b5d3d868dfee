"""Warns of stored results with unobserved inputs, and refuses those with inputs that no cache key covers."""

from collections import Counter
from collections.abc import Iterator

from bench_core.execution.undeclared import REMEDY, abridged
from bench_core.planning.stages import Stage
from bench_core.storage.store import Store
from bench_core.terminal import counted
from input_digests import Dependencies, undeclared


def warnings(stages: list[Stage], store: Store) -> list[str]:
    """Return a warning for each input that could not be observed, with the number of stored results behind it."""
    found = Counter(one for _, inputs in _stored(stages, store) for one in inputs.get("unobserved", {}).items())
    text = "changes of its inputs are not detected."
    return [
        f"{counted(number, 'stored result')}: unobserved: {name} (in {modules}); {text}"
        for (name, modules), number in found.items()
    ]


def refusals(stages: list[Stage], store: Store) -> Iterator[tuple[Stage, str]]:
    """Yield the stored stages that `--strict` refuses, with the reason."""
    for stage, inputs in _stored(stages, store):
        if names := undeclared(inputs):
            told = f"its stored result depends on {abridged(names)}, which no cache key covers (--strict). {REMEDY}"
            yield stage, told


def _stored(stages: list[Stage], store: Store) -> Iterator[tuple[Stage, Dependencies]]:
    by_key = {stage.key: stage for stage in stages}
    for (_, key), inputs in store.dependencies.items():  # of the artifacts that the plan has found
        if inputs and key in by_key:
            yield by_key[key], inputs
