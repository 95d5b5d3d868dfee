"""The catalogue of corpora: names, places, digests and licences of files.

A corpus is a folder below the data directory. Those that tasks know by name stand in `corpora.yaml`, with the digest
of each file and where it comes from; a user may add folders of any other name.
"""

import gzip
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from bench_core import DataError, suggestion
from bench_core.files import digest as digest

SPLITS = ("train", "valid", "test")  #: those that every corpus has
GITHUB = "https://raw.githubusercontent.com"


@dataclass(frozen=True)
class File:
    """One file of a corpus, as it is published."""

    sha256: str | None = None  # None where it is not known
    url: str | None = None  # None where it cannot be fetched by itself


@dataclass(frozen=True)
class Corpus:
    """One entry of the catalogue."""

    name: str  # its folder
    about: str
    licence: str  # as stated upstream
    files: Mapping[str, File]  # by name inside the folder
    get: str = ""  # how to come by it, where some file has no address
    cites: tuple[str, ...] = ()  # keys of citations.bib
    called: tuple[str, ...] = ()  # what tasks call it, or larger parts of it, besides
    restricted: bool = False  # whether reports may not show its texts, by its licence or for want of one

    @property
    def fetchable(self) -> bool:
        """Return whether every file has an address and a digest."""
        return all(file.url and file.sha256 for file in self.files.values())

    @property
    def advice(self) -> str:
        """Return what a user without the files should do."""
        return f"Run `bench data fetch {self.name}`." if self.fetchable else self.get


@cache
def catalogue() -> dict[str, Corpus]:
    """Return the corpora that are known by name."""
    from ruamel.yaml import YAML

    entries = YAML(typ="safe").load(Path(__file__).with_suffix(".yaml"))
    return {name: _corpus(name, entry) for name, entry in entries.items()}


def _corpus(name: str, entry: Mapping[str, Any]) -> Corpus:
    files = {
        file: File(sha256, f"{GITHUB}/{group['at']}/{_published(file, group)}" if "at" in group else None)
        for group in entry["from"]
        for file, sha256 in group["files"].items()
    }
    cites, called = (*entry.get("cite", ()),), (*entry.get("called", ()),)
    more = entry.get("get", ""), cites, called, entry.get("restricted", False)
    return Corpus(name, entry["about"], entry["licence"], files, *more)


def _published(file: str, group: Mapping[str, Any]) -> str:
    """Return what a file is called where it comes from."""
    return f"{group['there']}{Path(file).suffix}" if "there" in group else file


def corpus(name: str) -> Corpus:
    """Return the entry called `name`; raise DataError with the nearest names if there is none."""
    known = catalogue()
    if name not in known:
        raise DataError(f"no corpus is called {name!r}. {suggestion(name, list(known))}")
    return known[name]


def restriction(name: str) -> str:
    """Return why reports do not show texts of a corpus: its licence, if that does not permit it; else nothing."""
    entries = (one for one in catalogue().values() if one.restricted and name in (one.name, *one.called))
    return next((f"licence of {name}: {one.licence}" for one in entries), "")


def locate(name: str, files: Iterable[str], data: Path) -> list[Path]:
    """Return where `files` of a corpus are; raise DataError that names all that are missing or empty."""
    paths = [data / name / file for file in files]
    wrong = [f"{path.name} {trouble}" for path in paths if (trouble := _trouble(path))]
    if wrong:
        known = catalogue().get(name)
        advice = known.advice if known else "Put the files there, or name another data directory with --data."
        raise DataError(f"corpus {name!r} is not complete in {data / name}: {', '.join(wrong)}. {advice}")
    return paths


def _trouble(path: Path) -> str:
    if not path.is_file():
        return "is missing"
    return "" if path.stat().st_size else "is empty"


def check_files(paths: Iterable[Path], advice: str) -> None:
    """Raise DataError that names all files that are missing or empty, followed by `advice`."""
    wrong = [str(path) for path in paths if _trouble(path)]
    if wrong:
        raise DataError(f"missing or empty: {', '.join(wrong)}. {advice}")


def digests(paths: Iterable[Path], data: Path) -> dict[str, str]:
    """Return the digest of each file, for a Config's `reads`, by its place in the data directory if it is there."""
    return {str(path.relative_to(data) if path.is_relative_to(data) else path): digest(path) for path in paths}


def label(path: Path) -> str:
    """Return what reports call a user's own file: its name and the beginning of its digest."""
    return f"{path.name} ({digest(path)[:8]})"


def unknown(name: str, known: Iterable[str], wrong: str, files: str, data: Path) -> DataError:
    """Return the error for a name that is none of those `known` to a task, nor a folder of the user's.

    `wrong` is what the corpora of other tasks lack, such as "is not parallel"; `files` those to put into a folder.
    """
    what = f"corpus {name!r} {wrong}" if name in catalogue() else f"no corpus is called {name!r}"
    return DataError(f"{what}. {suggestion(name, [*known])} Or put {files} into {data / name}.")


def present(name: str, data: Path) -> bool:
    """Return whether all files of a known corpus are there."""
    return not any(_trouble(data / name / file) for file in corpus(name).files)


def verify(name: str, data: Path) -> list[Path]:
    """Return the files of a known corpus; raise DataError that names all that are missing or not as published."""
    entry = corpus(name)
    paths = locate(name, entry.files, data)
    wrong = [path.name for path in paths if entry.files[path.name].sha256 not in (None, digest(path))]
    if wrong:
        raise DataError(
            f"corpus {name!r} in {data / name} is not the published one: {', '.join(wrong)} "
            f"{'differs' if len(wrong) == 1 else 'differ'} in sha256. Move such files away. {entry.advice}"
        )
    return paths


def fetch(name: str, data: Path) -> list[Path]:
    """Download what is missing of a known corpus, each file with a check of its sha256; never overwrite a file."""
    entry = corpus(name)
    if not entry.fetchable:
        raise DataError(f"corpus {name!r} cannot be fetched file by file. {entry.get}")
    folder = data / name
    for file, source in entry.files.items():
        if _trouble(folder / file):
            _download(source, folder / file)
    return verify(name, data)


def _download(source: File, path: Path) -> None:
    import pooch

    pooch.get_logger().setLevel("WARNING")
    quiet = pooch.HTTPDownloader(progressbar=False, timeout=60)
    try:
        pooch.retrieve(source.url, f"sha256:{source.sha256}", path.name, path.parent, downloader=quiet)
    except (OSError, ValueError) as error:  # no network, no such page; or another sha256
        reason = str(error).splitlines()[0]
        raise DataError(f"{source.url} could not be fetched: {reason} You may put it at {path} by hand.") from error


def read_text(path: Path) -> str:
    """Return a UTF-8 file, unpacked if it ends in `.gz`, without a byte order mark and with plain line feeds.

    Raises DataError, with the line, for what is no text, and for a carriage return without a line feed: some programs
    take it for the end of a line and others for a part of the line, so parallel files would lose their step.
    """
    return "".join(whole_lines(path))


def read_lines(path: Path) -> list[str]:
    """Return the lines of a UTF-8 file, ended by `\\n` alone; signs such as U+2028 end none."""
    return [*lines(path)]


def lines(path: Path) -> Iterator[str]:
    """Yield what `read_lines` returns, with one line in memory at a time."""
    is_empty = True
    for line in whole_lines(path):
        is_empty = False
        yield line.removesuffix("\n")
    if is_empty:
        yield ""


def whole_lines(path: Path) -> Iterator[str]:
    """Yield the lines of a file as `read_text` reads them, each with its line feed."""
    offset = 0
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            for number, content in enumerate(file, 1):
                yield _decoded(path, content, number, offset)
                offset += len(content)
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path} cannot be read: {error}.") from error


def _decoded(path: Path, content: bytes, number: int, offset: int) -> str:
    """Return a line with a plain line feed; raise DataError if it is no text."""
    if not offset and content.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise DataError(f"{path} is UTF-16, not UTF-8. Save it as UTF-8.")
    if b"\0" in content:
        raise DataError(f"{path} is not text: a zero byte stands at offset {offset + content.index(0)}.")
    try:
        line = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise DataError(
            f"{path} is not UTF-8: byte 0x{content[error.start]:02x} at offset {offset + error.start}, in line "
            f"{number} ({error.reason}). Save it as UTF-8."
        ) from error
    line = line.removeprefix("" if offset else "\ufeff")
    line = f"{line[:-2]}\n" if line.endswith("\r\n") else line
    if "\r" in line:
        raise DataError(
            f"{path}:{number}: a carriage return without a line feed may or may not end a line. Write a line feed in "
            "its place, or take it out."
        )
    return line
