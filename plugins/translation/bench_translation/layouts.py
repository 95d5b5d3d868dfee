"""Where the files of each corpus are, by the names that its publishers gave them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bench_core import Split

LONG = {"en": "eng", "ro": "ron", "tr": "tur"}  # as in the names of some files
UNSPACED = frozenset({"ja", "zh", "yue", "th"})  # languages that set no spaces between words


@dataclass(frozen=True)
class Layout:
    """A folder of the data directory; `{0}` in the name of a file is a language, `{1}` its name of three letters."""

    languages: Sequence[str]  # any two of them make a pair; the first two are the usual one
    splits: Mapping[Split, Sequence[str]]  # files of a split, to be joined
    tokenized: bool = False  # whether spaces already stand between all tokens
    train_from: str = ""  # how to come by the training part, where the catalogue has none

    def files(self, split: Split, language: str) -> list[str]:
        """Return the files of one language."""
        return [name.format(language, LONG.get(language, language)) for name in self.splits[split]]


def folder(source: str, target: str) -> Layout:
    """Return what a folder that the user added looks like."""
    return Layout((source, target), {split: (f"{split}.{{0}}",) for split in ("train", "valid", "test")})


WMT16 = "https://www.statmt.org/wmt16/translation-task.html"
LAYOUTS: Mapping[str, Layout] = {
    "multi30k": Layout(
        ("de", "en", "fr"),
        {"train": ("train.{0}.gz",), "valid": ("val.{0}.gz",), "test": ("test_2016_flickr.{0}.gz",)},
    ),
    "small_parallel_enja": Layout(
        ("en", "ja"),
        {"train": ("train.{0}",), "valid": ("dev.{0}",), "test": ("test.{0}",)},
        tokenized=True,
    ),
    "wmt-ro-en": Layout(
        ("ro", "en"),
        {
            "train": ("europarl-v8.ro-en.{0}", "SETIMES2.en-ro.{0}"),
            "valid": ("newsdev2016.{0}",),
            "test": ("newstest2016.{1}",),
        },
        train_from=f"Europarl v8 and SETIMES2 are linked from {WMT16}",
    ),
    "wmt-tr-en": Layout(
        ("tr", "en"),
        {
            "train": ("SETIMES2.en-tr.{0}",),
            "valid": ("newstest2016.{1}",),
            "test": ("newstest2017.{1}",),
            "newstest2018": ("newstest2018.{1}",),
        },
        train_from=f"SETIMES2 is linked from {WMT16}",
    ),
    "kftt": Layout(
        ("ja", "en"),
        {"train": ("kyoto-train.{0}",), "valid": ("kyoto-dev.{0}",), "test": ("kyoto-test.{0}",)},
        train_from="they are in data/orig of kftt-data-1.0.tar.gz, from https://www.phontron.com/kftt",
    ),
}
