"""Split a generated page into an index, and a page for each section in a folder of the same name."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from itertools import pairwise
from pathlib import Path

DOCS = Path(__file__).parent.parent / "docs"
FENCE = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\]\(([^)\s]+)\)")


def anchor(heading: str) -> str:
    """Return the GitHub anchor of a heading."""
    return re.sub(r"[^\w\- ]", "", re.sub(r"\]\([^)]*\)", "", heading).lower()).replace(" ", "-")


def split(text: str, name: str, file_name: Callable[[str], str] = anchor) -> dict[str, str]:
    """Split a page for docs/ into pages by path.

    `NAME.md` keeps the text before the first second-level heading; `NAME/SECTION.md` contains a section. Links in
    `text` refer to its own anchors, or are relative to docs/.
    """
    head, *sections = re.split(r"^(?=## )", text, flags=re.MULTILINE)
    names = [file_name(section[3:].partition("\n")[0]) for section in sections]
    places: dict[str, str] = {}
    for page, section in zip(names, sections, strict=True):
        title, *inner = _anchors(section)
        places |= {title: f"{page}.md", **{heading: f"{page}.md#{heading}" for heading in inner}}
    index = _linked(head, lambda target: f"{name}/{places[target[1:]]}" if target[1:] in places else target)
    pages = {f"{name}.md": index}
    for page, section in zip(names, sections, strict=True):
        promoted = _outside_code(section, lambda part: re.sub(r"^#(#+ )", r"\1", part, flags=re.MULTILINE))
        linked = _linked(promoted, lambda target: places.get(target[1:]) or _from_folder(target))
        pages[f"{name}/{page}.md"] = f"{text.partition(chr(10))[0]}\n{linked.rstrip()}\n"
    return pages


def write(pages: Mapping[str, str]) -> None:
    """Write pages to docs/, and remove pages of sections that no longer exist."""
    for folder in {(DOCS / path).parent for path in pages} - {DOCS}:
        folder.mkdir(exist_ok=True)
        for stale in {*folder.glob("*.md")} - {DOCS / path for path in pages}:
            stale.unlink()
    for path, text in pages.items():
        (DOCS / path).write_text(text, encoding="utf-8")


def _anchors(section: str) -> list[str]:
    return [anchor(heading) for heading in re.findall(r"^#{2,6} +(.+?) *$", FENCE.sub("", section), re.MULTILINE)]


def _outside_code(text: str, change: Callable[[str], str]) -> str:
    ends = [0, *(end for block in FENCE.finditer(text) for end in block.span()), len(text)]
    parts = [text[start:end] for start, end in pairwise(ends)]
    return "".join(part if number % 2 else change(part) for number, part in enumerate(parts))


def _linked(text: str, place: Callable[[str], str]) -> str:
    """Apply `place` to the links outside code."""
    return _outside_code(text, lambda part: LINK.sub(lambda link: f"]({place(link[1])})", part))


def _from_folder(target: str) -> str:
    return target if re.match(r"#|[a-z]+:", target) else f"../{target}"
