"""Languages without spaces between words are listed once, in the core."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from bench_core import UNSPACED
from bench_metrics.languages import ISO_639_1, has_spaces


@dataclass
class Known:
    language: str | None
    tokenized: bool = False


@pytest.mark.parametrize("code", sorted(UNSPACED))
def test_every_code_of_a_language_without_spaces_is_one(code):
    assert not has_spaces(Known(code))
    assert has_spaces(Known(code, tokenized=True))
    assert ISO_639_1.get(code, code) in UNSPACED
    assert {long for long, short in ISO_639_1.items() if short == code} <= UNSPACED


@pytest.mark.parametrize("code", ["en", "ko", "kor", "vi", None])
def test_other_languages_have_spaces(code):
    assert has_spaces(Known(code))
