"""Languages without spaces between words are listed once, in the core."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from bench_core import UNSPACED
from bench_metrics.languages import SHORT, spaced


@dataclass
class Known:
    language: str | None
    tokenized: bool = False


@pytest.mark.parametrize("code", sorted(UNSPACED))
def test_every_code_of_a_language_without_spaces_is_one(code):
    assert not spaced(Known(code))
    assert spaced(Known(code, tokenized=True))
    assert SHORT.get(code, code) in UNSPACED
    assert {long for long, short in SHORT.items() if short == code} <= UNSPACED


@pytest.mark.parametrize("code", ["en", "ko", "kor", "vi", None])
def test_other_languages_have_spaces(code):
    assert spaced(Known(code))
