"""Reads lines of UTF-8 as sacrebleu does: only line feeds end lines, and trailing white space is stripped."""

import gzip
import zlib
from collections.abc import Sequence
from pathlib import Path

from bench_core import DataError
from bench_core.terminal import count_of

UTF_8 = b"\xef\xbb\xbf"
UTF_16 = (b"\xff\xfe", b"\xfe\xff")


def read_lines(path: Path) -> list[str]:
    """Return the lines of a text file, possibly gzipped; raise DataError, with line and byte, for invalid UTF-8.

    Unicode line separators, form feeds and carriage returns do not end a line.
    """
    data = _bytes(path)
    try:
        lines = data.removeprefix(UTF_8).decode("utf-8").split("\n")
    except UnicodeDecodeError as error:
        raise DataError(_undecodable(path, data.removeprefix(UTF_8), error)) from None
    if not lines[-1]:
        del lines[-1]
    if not lines:
        raise DataError(f"{path} is empty. It must have one entry per example.")
    return [line.rstrip() for line in lines]


def read_parallel(references: Sequence[Path], sources: Path | None) -> list[list[str]]:
    """Return the lines of each reference file, followed by the lines of the source file if there is one.

    Raises DataError if the files have different numbers of lines.
    """
    paths = [*references, *([sources] if sources else [])]
    files = [read_lines(path) for path in paths]
    for path, lines in zip(paths, files, strict=True):
        if len(lines) != len(files[0]):
            both = f"{path} has {count_of(len(lines), 'line')}, but {paths[0]} has {len(files[0]):,}"
            raise DataError(f"{both}. Each must have one line per example.")
    return files


def _bytes(path: Path) -> bytes:
    try:
        data = path.read_bytes()
        return gzip.decompress(data) if path.suffix == ".gz" else data
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(f"{path} cannot be decompressed ({error}). Copy it again.") from None
    except OSError as error:
        raise DataError(f"{path} cannot be read ({error.strerror or error}). Correct its path.") from None


def _undecodable(path: Path, data: bytes, error: UnicodeDecodeError) -> str:
    if data.startswith(UTF_16):
        return f"{path}:1 is UTF-16. Convert the file: iconv -f utf-16 -t utf-8."
    line, begin = data.count(b"\n", 0, error.start) + 1, data.rfind(b"\n", 0, error.start) + 1
    return (
        f"{path}:{line}: byte {error.start - begin + 1} of the line, 0x{data[error.start]:02x}, is not UTF-8. "
        "Convert the file from its encoding, for example with: iconv -f latin1 -t utf-8."
    )
