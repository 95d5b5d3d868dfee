"""Fonts of PDFs: which glyphs of a font a figure needs is found once for all figures that need the same."""

from __future__ import annotations

from contextlib import nullcontext
from io import BytesIO
from typing import NamedTuple

import pytest

_parts = {}


class Part(NamedTuple):
    """A font as bytes, reduced to some glyphs."""

    font: bytes
    glyph_index_map: dict[int, int]


@pytest.fixture(autouse=True)
def parts_of_fonts(request, monkeypatch):
    """Reduce a font to the same glyphs once, which takes longer than to draw; slow tests do so each time."""
    from matplotlib.backends import _backend_pdf_ps as fonts

    if request.node.get_closest_marker("slow") or not hasattr(fonts, "SubsetResults"):  # as older versions have none
        return
    reduced, written = fonts.get_glyphs_subset, fonts.font_as_file

    def part(font, glyphs):
        key = font, frozenset(glyphs)
        if key not in _parts:
            with reduced(font, glyphs) as found:
                _parts[key] = Part(written(found.font).getvalue(), found.glyph_index_map)
        return nullcontext(_parts[key])

    monkeypatch.setattr(fonts, "get_glyphs_subset", part)
    monkeypatch.setattr(fonts, "font_as_file", BytesIO)
