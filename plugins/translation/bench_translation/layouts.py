"""File layout of each corpus, as published."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from bench_core import Split

THREE_LETTER_CODES = {"en": "eng", "ro": "ron", "tr": "tur"}  # used in some file names


@dataclass(frozen=True)
class ParallelLayout:
    """Files of a corpus in a folder of the data directory.

    In file names, `{0}` is a language, `{1}` its three-letter code, and `{2}` the codes of both languages.
    """

    languages: Sequence[str]  # any two form a pair; the first two are the default pair
    splits: Mapping[Split, Sequence[str]]  # files of each split, which are concatenated
    tokenized: bool = False  # whether tokens are already separated by spaces
    train_from: str = ""  # how to obtain the training part, if the catalogue does not have it
    folder: str = ""  # folder, if it differs from the name
    hub: str = ""  # a language that occurs in every pair
    shares: Mapping[Split, range] = field(default_factory=dict)  # parts of every hundred lines, if splits share files

    def files(self, split: Split, language: str, pair: Sequence[str]) -> list[str]:
        """Return the files of a language in a pair."""
        long = [THREE_LETTER_CODES.get(code, code) for code in (language, *pair)]
        return [name.format(language, long[0], "-".join(sorted(long[1:]))) for name in self.splits[split]]

    def pairs(self, source: str, target: str) -> bool:
        """Return whether the corpus has this language pair."""
        return source != target and {source, target} <= {*self.languages} and self.hub in ("", source, target)


def folder(source: str, target: str) -> ParallelLayout:
    """Return the layout of a folder added by the user."""
    return ParallelLayout((source, target), {split: (f"{split}.{{0}}",) for split in ("train", "valid", "test")})


TATOEBA = ("tatoeba-test-v2021-08-07.{2}.{1}",)
WMT16 = "https://www.statmt.org/wmt16/translation-task.html"
LAYOUTS: Mapping[str, ParallelLayout] = {
    "multi30k": ParallelLayout(
        ("de", "en", "fr"),
        {"train": ("train.{0}.gz",), "valid": ("val.{0}.gz",), "test": ("test_2016_flickr.{0}.gz",)},
    ),
    "small_parallel_enja": ParallelLayout(
        ("en", "ja"),
        {"train": ("train.{0}",), "valid": ("dev.{0}",), "test": ("test.{0}",)},
        tokenized=True,
    ),
    "wmt-ro-en": ParallelLayout(
        ("ro", "en"),
        {
            "train": ("europarl-v8.ro-en.{0}", "SETIMES2.en-ro.{0}"),
            "valid": ("newsdev2016.{0}",),
            "test": ("newstest2016.{1}",),
        },
        train_from=f"Europarl v8 and SETIMES2 are linked from {WMT16}",
    ),
    "wmt-tr-en": ParallelLayout(
        ("tr", "en"),
        {
            "train": ("SETIMES2.en-tr.{0}",),
            "valid": ("newstest2016.{1}",),
            "test": ("newstest2017.{1}",),
            "newstest2018": ("newstest2018.{1}",),
        },
        train_from=f"SETIMES2 is linked from {WMT16}",
    ),
    "tatoeba": ParallelLayout(
        ("tr", "en", "ro"),
        {"train": TATOEBA, "valid": TATOEBA, "test": TATOEBA},
        folder="tatoeba-tr-ro-en",
        hub="en",
        shares={"train": range(80), "valid": range(80, 90), "test": range(90, 100)},
    ),
    "kftt": ParallelLayout(
        ("ja", "en"),
        {"train": ("kyoto-train.{0}",), "valid": ("kyoto-dev.{0}",), "test": ("kyoto-test.{0}",)},
        train_from="they are in data/orig of kftt-data-1.0.tar.gz, from https://www.phontron.com/kftt",
    ),
}
