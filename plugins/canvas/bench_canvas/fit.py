"""Checks that the canvases of a suite fit its schedules, targets and prompts; does not import torch."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from bench_canvas.canvas import Canvas
from bench_core import Section

Problem = tuple[Sequence[str | int], str]


class CanvasFit(Section):
    """Reports schedules with more passes than places, and canvases that are too narrow for a task's settings.

    It adds no keys to suites: `bench check` and `bench run` report these problems at the settings of parts.
    """

    def check(self, names: Any) -> Iterable[Problem]:
        """Yield the problems of each model that has a number of places, with its tasks and decoders."""
        suite = names.suite
        for name, entry in suite.models.items():
            for task, settings in suite.tasks.items():
                config = entry.at(task).config
                places = getattr(config, "places", None)
                if places is None or not any(issubclass(kind, Canvas) for kind in config.capabilities):
                    continue
                keys = (
                    "models",
                    suite.origins.get(name, name),
                    *(("by_task", task) if task in entry.by_task else ()),
                )
                if not _is_skipped(suite, task=task, model=name):
                    yield from _narrow((*keys, "places"), places, task, settings)
                for decoder, schedule in suite.decoders.items():
                    if not _is_skipped(suite, task=task, model=name, decoder=decoder):
                        yield from _long(name, places, decoder, schedule)


def _narrow(keys: Sequence[str], places: int, task: str, settings: Any) -> Iterator[Problem]:
    """Yield what is wrong if a canvas is full with a task's prompt or its longest training target."""
    prefix, longest = getattr(settings, "prefix", None), getattr(settings, "longest", None)
    if isinstance(prefix, int) and prefix >= places:
        text = f"prompts of {task!r} have {prefix} tokens (`prefix`) and fill the canvas of {places} places."
        yield keys, f"{text} Set `places` to {prefix + 2} or more, or shorten the prompts."
    if isinstance(longest, int) and longest >= places:
        text = f"targets of {task!r} have up to {longest} tokens (`longest`) and EOS; the canvas has {places} places."
        yield keys, f"{text} Set `places` to {longest + 1} or more, or reduce `longest`."


def _long(model: str, places: int, decoder: str, schedule: Any) -> Iterator[Problem]:
    """Yield what is wrong if a decoder of canvases has a schedule with more passes than places."""
    passes = getattr(schedule, "passes", None)
    if issubclass(schedule.needs, Canvas) and passes is not None and passes > places:
        text = f"{passes} passes cannot write the {places} places of {model!r}: each pass writes at least one place."
        yield (
            ("decoders", decoder, "passes"),
            f"{text} Reduce `passes` to {places} or less, or list the pair under `skip:`.",
        )


def _is_skipped(suite: Any, **names: str) -> bool:
    """Return whether a suite skips all cells with these names."""
    return any(not skip.metric and skip.covers(**names) for skip in suite.skip)
