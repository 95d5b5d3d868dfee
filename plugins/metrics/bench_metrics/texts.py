"""The base class of text metrics, which compare the first output of each example with all of its references."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from itertools import chain, islice
from typing import NoReturn, Self, TypeVar

from bench_core import Additive, PluginError, Prediction, SuiteError, TaskInfo
from bench_metrics.languages import check_spaces

X = TypeVar("X")


class TextMetric(Additive[X]):
    """A metric of texts.

    Its signature begins with the number of references and, if references are not the raw text of the corpus, their
    form, such as `refs:lowercase`.
    """

    unit = ""

    def begin(self, info: TaskInfo) -> None:
        """Set up everything that depends on the target language, including the signature; by default, do nothing.

        Raises SuiteError if the metric cannot run or does not support that language.
        """

    def prepare(self, info: TaskInfo, references: Mapping[int, Sequence[str]]) -> Self:
        """Return a prepared metric whose signature has the number of references, or "var" if it varies by example.

        Raises SuiteError if the metric counts words, no language is set, and references have a script without spaces.
        """
        check_spaces(self.config, info, chain.from_iterable(references.values()))
        counts = {len(each) for each in references.values()}
        number = [f"nrefs:{counts.pop() if len(counts) == 1 else 'var'}"] if counts else []
        altered = [f"refs:{info.extras['references']}"] if "references" in info.extras else []
        prepared = copy(self)
        prepared.begin(info)
        prepared.signature = "|".join([*number, *altered, prepared.signature])
        return prepared


def compared(predictions: Sequence[Prediction]) -> Iterator[tuple[str, list[str]]]:
    """Yield the first text of each example and its references; raise if either is missing."""
    for prediction in predictions:
        if not prediction.references or not prediction.texts:
            _refuse(predictions)
        yield prediction.texts[0], prediction.references


def blocks(items: Iterable[X], size: int) -> Iterator[list[X]]:
    """Yield items in lists of up to `size`."""
    rest = iter(items)
    while some := [*islice(rest, size)]:
        yield some


def _refuse(predictions: Sequence[Prediction]) -> NoReturn:
    """Raise an error with the number of examples without references or texts."""
    bare = [prediction.id for prediction in predictions if not prediction.references]
    if bare:
        raise SuiteError(
            f"texts cannot be compared: {len(bare)} of {len(predictions)} examples have no reference, the first "
            f"being example {bare[0]}. Leave this metric out for this task."
        )
    mute = [prediction.id for prediction in predictions if not prediction.texts]
    raise PluginError(
        f"texts cannot be compared: {len(mute)} of {len(predictions)} examples have no text, the first being "
        f"example {mute[0]}. A decoder must return at least one hypothesis, which may be empty."
    )
