"""The tasks."""

from bench_core import Source
from bench_text.api import SequenceTask, records

WORDS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
SIZES = {"train": 12, "valid": 5, "test": 4}


class JsonPairs(SequenceTask):
    """A source, its target, and perhaps more references."""

    def examples(self, split, data):
        for record in records(getattr(self.config, split), "source", "target"):
            yield record["source"], record["target"], record.get("references", ())


def counted(number):
    """Return a number, digit by digit, in words."""
    return " ".join(WORDS[int(digit)] for digit in str(number))


class Counting(SequenceTask):
    """The square of a number, from the number."""

    def examples(self, split, data):
        for number in range(3, 3 + SIZES[split]):
            sources = {
                Source.TOKENS: counted(number),
                Source.BAG: counted(number * 7),
                Source.VECTOR: [number / 2, -number],
                Source.GRID: [[number, 1], [0, 1], [2, number]],
                Source.IMAGE: [[[number / 16, 0.5]]] * 3,
            }
            target = counted(number**2)
            yield sources.get(self.config.kind), target, [target.upper(), str(number**2)], 1 + (number % 3 == 0)
