"""The file layout of each corpus, as published."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from bench_core import Split

LONG = {"en": "eng", "ro": "ron", "tr": "tur"}  # as in the names of some files


@dataclass(frozen=True)
class Layout:
    """A folder of the data directory.

    In the name of a file, `{0}` is a language, `{1}` its name of three letters, `{2}` both of these of the pair.
    """

    languages: Sequence[str]  # any two of them make a pair; the first two are the usual one
    splits: Mapping[Split, Sequence[str]]  # files of a split, to be joined
    tokenized: bool = False  # whether spaces already stand between all tokens
    train_from: str = ""  # how to come by the training part, where the catalogue has none
    folder: str = ""  # where that is not the name
    hub: str = ""  # a language that every pair has
    shares: Mapping[Split, range] = field(default_factory=dict)  # of every hundred lines, where splits share files

    def files(self, split: Split, language: str, pair: Sequence[str]) -> list[str]:
        """Return the files of one language of a pair."""
        long = [LONG.get(one, one) for one in (language, *pair)]
        return [name.format(language, long[0], "-".join(sorted(long[1:]))) for name in self.splits[split]]

    def pairs(self, source: str, target: str) -> bool:
        """Return whether there are sentences in both languages."""
        return source != target and {source, target} <= {*self.languages} and self.hub in ("", source, target)


def folder(source: str, target: str) -> Layout:
    """Return what a folder that the user added looks like."""
    return Layout((source, target), {split: (f"{split}.{{0}}",) for split in ("train", "valid", "test")})


TATOEBA = ("tatoeba-test-v2021-08-07.{2}.{1}",)
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
    "tatoeba": Layout(
        ("tr", "en", "ro"),
        {"train": TATOEBA, "valid": TATOEBA, "test": TATOEBA},
        folder="tatoeba-tr-ro-en",
        hub="en",
        shares={"train": range(80), "valid": range(80, 90), "test": range(90, 100)},
    ),
    "kftt": Layout(
        ("ja", "en"),
        {"train": ("kyoto-train.{0}",), "valid": ("kyoto-dev.{0}",), "test": ("kyoto-test.{0}",)},
        train_from="they are in data/orig of kftt-data-1.0.tar.gz, from https://www.phontron.com/kftt",
    ),
}
