"""N-best lists of Moses and its successors: `id ||| text ||| features ||| score`."""

import re
from collections.abc import Iterator

from bench_recorded.reading.records import Output, OutputFile, OutputRecord, group_by_id

FIRST_LINE = re.compile(r"\d+ \|\|\| ")


def nbest_records(file: OutputFile) -> list[OutputRecord]:
    """Return the outputs of each example in the order of the file, which is best first.

    Scores become the value `score`; they are search scores, not log-probabilities.
    """
    return [*group_by_id(file, _outputs(file))]


def _outputs(file: OutputFile) -> Iterator[tuple[int, str, Output]]:
    for number, line in enumerate(file.lines, 1):
        name, *fields = (part.strip() for part in line.split("|||"))
        if not fields or not (name.isascii() and name.isdecimal()):
            raise file.error(number, "is not `id ||| text ||| features ||| score` with an integer as id.")
        values = {"score": file.number(fields[2], number, "score")} if len(fields) > 2 else {}
        yield number, str(int(name)), Output(fields[0], values=values)
