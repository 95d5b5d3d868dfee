"""Word vectors: read from a file, or learnt from the training split."""

import gzip
from codecs import BOM_UTF8
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import IO, TypeAlias
from zlib import error as zlib_error

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bench_core import DataError, Noise, SuiteError

LINE = 2**20  # bytes, the most that a line of text or a word may have
SENTENCE = 10_000  # words; gensim silently leaves out the rest of a longer one
EPOCHS, WINDOW, NEGATIVE = 5, 5, 5

Found: TypeAlias = dict[int, NDArray[np.float32]]  # vectors of tokens, by id


@dataclass(frozen=True)
class Vectors:
    """Vectors of the tokens that have one."""

    name: str  # where they are from
    values: Tensor  # [V, D], 0 where there is none
    known: Tensor  # [V] whether there is one

    def described(self, counts: Tensor) -> str:
        """Return what readers should know: whence, how long, and of which share of the vocabulary and of the text."""
        tokens, text = float(self.known.double().mean()), float(counts[self.known].sum() / counts.sum().clamp(min=1))
        return (
            f"{self.name}, {self.values.shape[1]} dimensions; of {int(self.known.sum()):,} of "
            f"{len(self.known):,} tokens ({tokens:.1%}), which are {text:.1%} of the training text"
        )


def read(path: Path, vocabulary: Sequence[str]) -> Vectors:
    """Read the vectors of `vocabulary` from a file of word2vec (text or binary) or of GloVe, gzipped or not.

    Of words that it has twice, the first counts. Raises DataError, with file and line, for what is no such file, for
    vectors of unequal width, and for a file with no word of the vocabulary.
    """
    ids = {word: number for number, word in enumerate(vocabulary)}
    with _opened(path) as file:
        first = (_line(file, path, 1) or b"").removeprefix(BOM_UTF8)
        header = first.split()
        if len(header) != 2 or not all(field.isdigit() for field in header):
            found = _text(file, path, ids, _width(first, path), first=first)
        elif min(words := int(header[0]), width := int(header[1])) < 1:
            raise DataError(f"{path}:1: the header says {words} vectors of {width} numbers. Give another file.")
        elif _binary_follows(file):
            found = _binary(file, path, ids, width, words)
        else:
            found = _text(file, path, ids, width, words=words)
    if not found:
        shown = ", ".join(repr(word) for word in vocabulary[1:6])
        raise DataError(
            f"{path} has a vector for none of the {len(vocabulary):,} tokens ({shown}, ...). Give vectors of the "
            "same language and case, or none, so that they are learnt from the training split."
        )
    values = torch.zeros(len(vocabulary), len(next(iter(found.values()))), dtype=torch.float32)
    known = torch.zeros(len(vocabulary), dtype=torch.bool)
    for number, vector in found.items():
        values[number], known[number] = torch.from_numpy(vector), True
    return Vectors(path.name, values, known)


def learn(sentences: Sequence[list[int]], vocabulary: Sequence[str], size: int, noise: Noise) -> Vectors:
    """Learn skip-gram vectors of the tokens by gensim, in one thread, so that they can be had again.

    Mikolov et al., 2013, arXiv:1310.4546. All tokens count, however rare.
    """
    try:
        import gensim  # type: ignore[import-untyped]
        from gensim.models import Word2Vec  # type: ignore[import-untyped]
    except ImportError as error:
        raise SuiteError(
            f"word vectors are learnt by gensim, which cannot be imported: {error}. Install it, give a file of "
            "`vectors`, or take another order of the codebook."
        ) from None
    parts = [
        [str(token) for token in sentence[begin : begin + SENTENCE]]
        for sentence in sentences
        for begin in range(0, len(sentence), SENTENCE)
    ]
    if not parts:
        raise DataError("the training split has no sentence to learn word vectors from.")
    model = Word2Vec(
        parts,
        sg=1,
        vector_size=size,
        window=WINDOW,
        negative=NEGATIVE,
        epochs=EPOCHS,
        min_count=1,
        workers=1,
        seed=noise.fork("skip-gram").key % 2**32,
    )
    ids = torch.tensor([int(token) for token in model.wv.index_to_key])
    values = torch.zeros(len(vocabulary), size, dtype=torch.float32)
    values[ids] = torch.from_numpy(np.array(model.wv.vectors, dtype=np.float32))
    known = torch.zeros(len(vocabulary), dtype=torch.bool)
    known[ids] = True
    return Vectors(f"skip-gram learnt from the training split (gensim {gensim.__version__})", values, known)


@contextmanager
def _opened(path: Path) -> Iterator[IO[bytes]]:
    """Open a file, gzipped or not; what goes wrong with it is the user's to know."""
    try:
        with path.open("rb") as plain:
            packed = plain.peek(2)[:2] == b"\x1f\x8b"
        with gzip.open(path) if packed else path.open("rb") as file:
            yield file  # type: ignore[misc]
    except (OSError, EOFError, zlib_error) as error:
        raise DataError(f"{path} cannot be read: {error}. Give a file of word2vec or GloVe.") from None


def _line(file: IO[bytes], path: Path, number: int) -> bytes | None:
    """Return the next line, or None where there is no more."""
    line = file.readline(LINE + 1)
    if len(line) > LINE:
        raise DataError(f"{path}:{number}: a line of more than {LINE:,} bytes is none of word vectors.")
    if b"\r" in line.removesuffix(b"\n").removesuffix(b"\r"):
        raise DataError(
            f"{path}:{number}: a carriage return stands without a line feed. Write a line feed in its place."
        )
    return line.strip(b" \t\r\n") if line else None


def _binary_follows(file: IO[bytes]) -> bool:
    """Return whether the first vector is bytes that no text would have."""
    here = file.tell()
    numbers = file.readline(LINE).partition(b" ")[2]
    file.seek(here)
    return not all(32 <= byte < 127 or byte in b"\t\r\n" for byte in numbers)


def _number(field: bytes) -> float | None:
    try:
        return float(field)
    except ValueError:
        return None


def _text(
    file: IO[bytes], path: Path, ids: Mapping[str, int], width: int, words: int = 0, first: bytes | None = None
) -> Found:
    """Read lines of a word and its numbers: at least `words`; `first` is one that has been read already."""
    found: Found = {}
    number = 2 if first is None else 1
    line = _line(file, path, 2) if first is None else first
    while line is not None:
        if line:
            word, numbers = _fields(line, width, path, number)
            token = ids.get(word.decode(errors="replace"))
            if token is not None and token not in found:
                found[token] = _vector(numbers, path, number)
            words -= 1
        number += 1
        line = _line(file, path, number)
    if words > 0:
        raise DataError(f"{path} ends {words:,} vectors before its header says it does. Fetch the file once more.")
    return found


def _vector(fields: list[bytes], path: Path, number: int) -> NDArray[np.float32]:
    values = [_number(field) for field in fields]
    if not all(value is not None and np.isfinite(value) for value in values):
        raise DataError(f"{path}:{number}: a vector holds what is no number. Correct the line, or leave it out.")
    return np.array(values, np.float32)


def _width(line: bytes, path: Path) -> int:
    """Return how many numbers a first line ends with; a word of GloVe may have spaces in it."""
    numbers = takewhile(lambda field: _number(field) is not None, reversed(line.split()[1:]))
    width = sum(1 for _ in numbers)
    if not width:
        raise DataError(
            f"{path}:1: expected a word and its numbers, or a header of two numbers; found "
            f"{line[:60].decode(errors='replace')!r}. Give a file of word2vec or GloVe."
        )
    return width


def _fields(line: bytes, width: int, path: Path, number: int) -> tuple[bytes, list[bytes]]:
    """Return word and numbers of a line; a word of GloVe may have spaces in it, though not numbers after them."""
    word, *numbers = line.rsplit(maxsplit=width)
    pieces = word.split()
    if len(numbers) != width or (len(pieces) > 1 and _number(pieces[-1]) is not None):
        wrong = len(line.split()) - 1
        raise DataError(
            f"{path}:{number}: a vector of {wrong} numbers among vectors of {width}. Correct the line, or leave it "
            "out."
        )
    return word, numbers


def _binary(file: IO[bytes], path: Path, ids: Mapping[str, int], width: int, words: int) -> Found:
    """Read words, each before a space and the bytes of its numbers, as word2vec writes them."""
    found: Found = {}
    for number in range(1, words + 1):
        word = _word(file, path, number)
        numbers = file.read(4 * width)
        if len(numbers) < 4 * width:
            raise DataError(f"{path} ends within vector {number:,} of {words:,}. Fetch the file once more.")
        token = ids.get(word.decode(errors="replace"))
        if token is not None and token not in found:
            vector = np.frombuffer(numbers, "<f4").astype(np.float32)
            if not np.isfinite(vector).all():
                raise DataError(f"{path}: vector {number:,} holds what is no number. Fetch the file once more.")
            found[token] = vector
    return found


def _word(file: IO[bytes], path: Path, number: int) -> bytes:
    """Return the bytes up to the next space; a line's end before them belongs to the vector before."""
    letters = bytearray()
    while (letter := file.read(1)) != b" ":
        if not letter or len(letters) > LINE:
            raise DataError(f"{path} ends before, or within, word {number:,}. Fetch the file once more.")
        letters += letter
    return bytes(letters).lstrip(b"\n")
