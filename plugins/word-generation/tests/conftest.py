"""A small list of words, prepared."""

from __future__ import annotations

import pytest

from bench_word_generation.plugin import WordGenerationConfig

LIST = {"ab": 400, "aa": 200, "abba": 100, "ba": 90, "cab": 60, "bb": 40, "caba": 30, "abc": 25, "cc": 20, "bac": 12}


@pytest.fixture
def prepared(tmp_path):
    """Return a function that prepares the task of a list, and gives Config, task and facts."""

    def prepare(counts=LIST, **settings):
        path, folder = tmp_path / "list.txt", tmp_path / f"prepared-{len(list(tmp_path.iterdir()))}"
        path.write_text("".join(f"{word} {number}\n" for word, number in counts.items()))
        folder.mkdir()
        plain = {"corpus": {"file": path}, "alphabet": "abc", "samples": 50, "epoch": 300}
        config = WordGenerationConfig.model_validate(plain | settings)
        task = config.load()(config, folder)
        return config, task, task.prepare(tmp_path)

    return prepare
