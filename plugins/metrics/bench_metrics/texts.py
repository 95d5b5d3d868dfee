"""The base of text metrics: the first output of each example and all its references."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from itertools import chain, islice
from typing import NoReturn, Self, TypeVar

from bench_core import Additive, Outcome, PluginError, SuiteError, TaskInfo
from bench_metrics.languages import check_said

X = TypeVar("X")


class TextMetric(Additive[X]):
    """A metric of text.

    Its signature begins with the number of references and, if they are not the text of the corpus, what they are, as
    both change what scores mean.
    """

    unit = ""

    def begin(self, known: TaskInfo) -> None:
        """Set up what depends on the language of targets, the signature too; by default nothing does.

        Raises SuiteError if it cannot run, or does not suit that language.
        """

    def prepare(self, info: TaskInfo, references: Mapping[int, Sequence[str]]) -> Self:
        """Return the metric set up; its signature has the number of references, "var" if examples differ in it.

        Raises SuiteError if it counts words, and references are in a script without spaces, of no named language.
        """
        check_said(self.config, info, chain.from_iterable(references.values()))
        counts = {len(each) for each in references.values()}
        number = [f"nrefs:{counts.pop() if len(counts) == 1 else 'var'}"] if counts else []
        altered = [f"refs:{info.extras['references']}"] if "references" in info.extras else []
        told = copy(self)
        told.begin(info)
        told.signature = "|".join([*number, *altered, told.signature])
        return told


def compared(outcomes: Sequence[Outcome]) -> Iterator[tuple[str, list[str]]]:
    """Yield the first text of each example and its references; raise where one of them is missing."""
    for outcome in outcomes:
        if not outcome.references or not outcome.texts:
            _refuse(outcomes)
        yield outcome.texts[0], outcome.references


def blocks(items: Iterable[X], size: int) -> Iterator[list[X]]:
    """Yield items in lists of up to `size`."""
    rest = iter(items)
    while some := [*islice(rest, size)]:
        yield some


def _refuse(outcomes: Sequence[Outcome]) -> NoReturn:
    """Raise an error that says of how many examples texts or references are missing."""
    bare = [outcome.id for outcome in outcomes if not outcome.references]
    if bare:
        raise SuiteError(
            f"texts cannot be compared: {len(bare)} of {len(outcomes)} examples have no reference, the first of them "
            f"is example {bare[0]}. Leave this metric out for this task."
        )
    mute = [outcome.id for outcome in outcomes if not outcome.texts]
    raise PluginError(
        f"texts cannot be compared: {len(mute)} of {len(outcomes)} examples have no text, the first of them is "
        f"example {mute[0]}. A decoder must give at least one hypothesis, be it empty."
    )
