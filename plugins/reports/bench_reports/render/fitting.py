"""Split tables that are wider than a line into pieces, each with the labels of the rows."""

from collections.abc import Iterator, Sequence

PADDING = 2  #: characters that tabulate adds to a heading


def pieces(rows: Sequence[Sequence[str]], width: float, between: int, most: int = 1000) -> Iterator[list[list[str]]]:
    """Yield rows of cells, headings and labels first, as tables of at most `width` characters per line.

    A column that is too wide is alone with the labels; `between` characters separate columns. No column counts as
    wider than `most` characters, beyond which its text is wrapped.
    """
    head, *rest = rows
    widths = [
        min(most, max([_width(word) + PADDING, *(_width(row[place]) for row in rest)])) + between
        for place, word in enumerate(head)
    ]
    start = 1
    while True:
        end, used = start, widths[0]
        while end < len(widths) and (end == start or used + widths[end] <= width + between):
            used += widths[end]
            end += 1
        yield [[row[0], *row[start:end]] for row in rows]
        if end >= len(widths):
            return
        start = end


def _width(text: str) -> int:
    return max(len(line) for line in text.replace("<br>", "\n").split("\n"))
