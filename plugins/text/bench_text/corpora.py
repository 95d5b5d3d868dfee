"""The corpus catalogue: names, paths, digests and licences of files.

A corpus is a folder in the data directory. `corpora.yaml` lists the known corpora with the digest and origin of each
file; users may add folders of any other name.
"""

import gzip
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from bench_core import DataError, suggestion
from bench_core.files import digest as digest

BLOCK_BYTES = 2**16  # lines that are checked together
SPLITS = ("train", "valid", "test")  #: the splits that every corpus has
GITHUB = "https://raw.githubusercontent.com"


@dataclass(frozen=True)
class File:
    """A published file of a corpus."""

    sha256: str | None = None  # None if unknown
    url: str | None = None  # None if it cannot be fetched separately


@dataclass(frozen=True)
class Corpus:
    """An entry of the catalogue."""

    name: str  # also the name of its folder
    about: str
    licence: str  # as stated upstream
    files: Mapping[str, File]  # keys are names inside the folder
    get: str = ""  # how to obtain it, if a file has no URL
    cites: tuple[str, ...] = ()  # keys of citations.bib
    called: tuple[str, ...] = ()  # other names that tasks use for it or for corpora that contain it
    restricted: bool = False  # whether reports must not show its texts, because of its licence or a missing licence

    @property
    def fetchable(self) -> bool:
        """Whether every file has a URL and a digest."""
        return all(file.url and file.sha256 for file in self.files.values())

    @property
    def advice(self) -> str:
        """How to obtain the files."""
        return f"Run `bench data fetch {self.name}`." if self.fetchable else self.get


@cache
def catalogue() -> dict[str, Corpus]:
    """Return the known corpora by name."""
    from ruamel.yaml import YAML

    entries = YAML(typ="safe").load(Path(__file__).with_suffix(".yaml"))
    return {name: _corpus(name, entry) for name, entry in entries.items()}


def _corpus(name: str, entry: Mapping[str, Any]) -> Corpus:
    files = {
        file: File(sha256, f"{GITHUB}/{group['at']}/{_published_name(file, group)}" if "at" in group else None)
        for group in entry["from"]
        for file, sha256 in group["files"].items()
    }
    cites, called = (*entry.get("cite", ()),), (*entry.get("called", ()),)
    more = entry.get("get", ""), cites, called, entry.get("restricted", False)
    return Corpus(name, entry["about"], entry["licence"], files, *more)


def _published_name(file: str, group: Mapping[str, Any]) -> str:
    """Return the name of a file at its source."""
    return f"{group['there']}{Path(file).suffix}" if "there" in group else file


def corpus(name: str) -> Corpus:
    """Return a known corpus; raise DataError with similar names if it is unknown."""
    known = catalogue()
    if name not in known:
        raise DataError(f"no corpus is called {name!r}. {suggestion(name, list(known))}")
    return known[name]


def restriction(name: str) -> str:
    """Return why reports must not show texts of a corpus, such as its licence; empty if reports may show them."""
    entries = (entry for entry in catalogue().values() if entry.restricted and name in (entry.name, *entry.called))
    return next((f"licence of {name}: {entry.licence}" for entry in entries), "")


def locate(name: str, files: Iterable[str], data: Path) -> list[Path]:
    """Return the paths of `files` of a corpus; raise DataError listing all that are missing or empty."""
    paths = [data / name / file for file in files]
    wrong = [f"{path.name} {trouble}" for path in paths if (trouble := _trouble(path))]
    if wrong:
        known = catalogue().get(name)
        advice = known.advice if known else "Put the files there, or set another data directory with --data."
        raise DataError(f"corpus {name!r} is incomplete in {data / name}: {', '.join(wrong)}. {advice}")
    return paths


def _trouble(path: Path) -> str:
    if not path.is_file():
        return "is missing"
    return "" if path.stat().st_size else "is empty"


def check_files(paths: Iterable[Path], advice: str) -> None:
    """Raise DataError listing all files that are missing or empty, followed by `advice`."""
    wrong = [str(path) for path in paths if _trouble(path)]
    if wrong:
        raise DataError(f"missing or empty: {', '.join(wrong)}. {advice}")


def digests(paths: Iterable[Path], data: Path) -> dict[str, str]:
    """Return the digest of each file for a Config's `reads`; keys are relative to the data directory if possible."""
    return {str(path.relative_to(data) if path.is_relative_to(data) else path): digest(path) for path in paths}


def label(path: Path) -> str:
    """Return the label of a user's file in reports: its name and the beginning of its digest."""
    return f"{path.name} ({digest(path)[:8]})"


def unknown(name: str, known: Iterable[str], wrong: str, files: str, data: Path) -> DataError:
    """Return the error for a name that is neither in `known`, the corpora of a task, nor a user's folder.

    `wrong` says why other corpora do not fit, such as "is not parallel"; `files` names the files to add to a folder.
    """
    what = f"corpus {name!r} {wrong}" if name in catalogue() else f"no corpus is called {name!r}"
    return DataError(f"{what}. {suggestion(name, [*known])} Or put {files} into {data / name}.")


def present(name: str, data: Path) -> bool:
    """Return whether all files of a known corpus are available."""
    return not any(_trouble(data / name / file) for file in corpus(name).files)


def verify(name: str, data: Path) -> list[Path]:
    """Return the files of a known corpus; raise DataError listing all that are missing or have a different digest."""
    entry = corpus(name)
    paths = locate(name, entry.files, data)
    wrong = [path.name for path in paths if entry.files[path.name].sha256 not in (None, digest(path))]
    if wrong:
        raise DataError(
            f"corpus {name!r} in {data / name} differs from the published corpus: {', '.join(wrong)} "
            f"{'has' if len(wrong) == 1 else 'have'} a different sha256. Remove these files. {entry.advice}"
        )
    return paths


def fetch(name: str, data: Path) -> list[Path]:
    """Download the missing files of a known corpus and verify all; never overwrite a file."""
    entry = corpus(name)
    if not entry.fetchable:
        raise DataError(f"corpus {name!r} cannot be fetched automatically. {entry.get}")
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
    except (OSError, ValueError) as error:  # no network or page; wrong sha256
        reason = str(error).splitlines()[0]
        raise DataError(
            f"{source.url} could not be fetched: {reason} Alternatively, download it manually to {path}."
        ) from error


def read_text(path: Path) -> str:
    """Return the text of a UTF-8 file, decompressed if it ends in `.gz`, without a BOM and with LF line ends.

    Raises DataError with the line for invalid text, and for a carriage return without a line feed: programs disagree
    on whether it ends a line, so parallel files could become misaligned.
    """
    return "".join(whole_lines(path))


def read_lines(path: Path) -> list[str]:
    """Return the lines of a UTF-8 file, split only at `\\n`, not at characters such as U+2028."""
    return [*lines(path)]


def lines(path: Path) -> Iterator[str]:
    """Yield the lines of `read_lines`, keeping only a block of lines in memory."""
    is_empty = True
    for block in _blocks(path):
        is_empty = False
        yield from [line.removesuffix("\n") for line in block]
    if is_empty:
        yield ""


def whole_lines(path: Path) -> Iterator[str]:
    """Yield the lines of `read_text`, including line feeds."""
    for block in _blocks(path):
        yield from block


def _blocks(path: Path) -> Iterator[Sequence[str]]:
    """Yield the lines of `whole_lines` in blocks, because checking them together is faster."""
    number, offset = 1, 0
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            while block := file.readlines(BLOCK_BYTES if offset else 1):
                content = b"".join(block)
                if offset and _is_plain(content):
                    yield [line.decode() for line in block]
                    number += len(block)
                    offset += len(content)
                    continue
                for line in block:
                    yield [_decode(path, line, number, offset)]
                    number += 1
                    offset += len(line)
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path} cannot be read: {error}.") from error


def _is_plain(content: bytes) -> bool:
    """Return whether content is valid text with LF line ends."""
    try:
        content.decode()
    except UnicodeDecodeError:
        return False
    return b"\0" not in content and b"\r" not in content


def _decode(path: Path, content: bytes, number: int, offset: int) -> str:
    """Decode a line and normalize its line end; raise DataError for invalid text."""
    if not offset and content.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise DataError(f"{path} is UTF-16, not UTF-8. Save it as UTF-8.")
    if b"\0" in content:
        raise DataError(f"{path} is not text: it has a zero byte at offset {offset + content.index(0)}.")
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
            f"{path}:{number}: a carriage return without a line feed is ambiguous. Replace it by a line feed, or "
            "remove it."
        )
    return line
