"""Warns about stored results with unobserved inputs, and rejects results with inputs not covered by cache keys."""

from collections import Counter
from collections.abc import Iterator
from itertools import chain

from bench_core.execution.undeclared import REMEDY, abridged
from bench_core.planning.stages import Stage
from bench_core.storage.store import Store
from bench_core.terminal import count_of
from input_digests import Dependencies, undeclared


def warnings(stages: list[Stage], store: Store) -> list[str]:
    """Return a warning for each unobserved input, with the number of stored results that it affects."""
    unobserved = (inputs.get("unobserved", {}).items() for _, inputs in _with_inputs(stages, store))
    text = "changes in its inputs are not detected."
    return [
        f"{count_of(number, 'stored result')}: unobserved: {name} (in {modules}); {text}"
        for (name, modules), number in Counter(chain.from_iterable(unobserved)).items()
    ]


def refusals(stages: list[Stage], store: Store) -> Iterator[tuple[Stage, str]]:
    """Yield the stored stages that `--strict` rejects, each with the reason."""
    for stage, inputs in _with_inputs(stages, store):
        if names := undeclared(inputs):
            reason = f"its stored result depends on {abridged(names)}, which no cache key covers (--strict). {REMEDY}"
            yield stage, reason


def _with_inputs(stages: list[Stage], store: Store) -> Iterator[tuple[Stage, Dependencies]]:
    by_key = {stage.key: stage for stage in stages}
    for (_, key), inputs in store.dependencies.items():  # inputs of the plan's stored artifacts
        if inputs and key in by_key:
            yield by_key[key], inputs
