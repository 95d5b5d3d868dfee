"""Word vectors: read from a file, or learned from the training split."""

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

from bench_core import DataError, Rng, SuiteError, TaskInfo

MAX_LINE_BYTES = 2**20  # longest line of text, or word
MAX_SENTENCE_WORDS = 10_000  # gensim silently ignores the rest of longer sentences
EPOCHS, WINDOW, NEGATIVE = 5, 5, 5

TokenVectors: TypeAlias = dict[int, NDArray[np.float32]]  # by token id


@dataclass(frozen=True)
class Vectors:
    """Word vectors of a vocabulary."""

    name: str  # source
    values: Tensor  # [V, D], 0 where unknown
    known: Tensor  # [V] whether a token has a vector

    def of(self, tokens: Tensor) -> "Vectors":
        """Return the vectors of some tokens [R], in their order."""
        return Vectors(self.name, self.values[tokens], self.known[tokens])

    def description(self, counts: Tensor) -> str:
        """Describe source, dimensions, and coverage of the vocabulary and of the text."""
        tokens, text = float(self.known.double().mean()), float(counts[self.known].sum() / counts.sum().clamp(min=1))
        return (
            f"{self.name}, {self.values.shape[1]} dimensions; covers {int(self.known.sum()):,} of "
            f"{len(self.known):,} tokens ({tokens:.1%}) and {text:.1%} of the training text"
        )


def vectors_of(
    info: TaskInfo, size: int, sentences: Sequence[list[int]] | None = None, rng: Rng | None = None
) -> Vectors | None:
    """Return the vectors in `info.files["vectors"]`, or vectors of `size` dimensions learned from `sentences`.

    None if there is neither a file nor sentences.
    """
    if "vectors" in info.files:
        return read(info.files["vectors"], info.vocabulary)
    return None if sentences is None or rng is None else learn(sentences, info.vocabulary, size, rng)


def read(path: Path, vocabulary: Sequence[str]) -> Vectors:
    """Read the vectors of `vocabulary` from a file in word2vec (text or binary) or GloVe format, gzipped or not.

    If a word is repeated, its first vector is used. Raises DataError for other formats, for vectors of unequal width,
    and for files without a word of the vocabulary.
    """
    ids = {word: number for number, word in enumerate(vocabulary)}
    with _open(path) as file:
        first = (_line(file, path, 1) or b"").removeprefix(BOM_UTF8)
        header = first.split()
        if len(header) != 2 or not all(field.isdigit() for field in header):
            rows = _text(file, path, ids, _width(first, path), first=first)
        elif min(words := int(header[0]), width := int(header[1])) < 1:
            raise DataError(
                f"{path}:1: the header announces {words} vectors of {width} numbers. Provide another file."
            )
        elif _binary_follows(file):
            rows = _binary(file, path, ids, width, words)
        else:
            rows = _text(file, path, ids, width, words=words)
    if not rows:
        examples = ", ".join(repr(word) for word in vocabulary[1:6])
        raise DataError(
            f"{path} has no vector for any of the {len(vocabulary):,} tokens ({examples}, ...). Provide vectors of "
            "the same language and case, or leave `vectors` out to learn them from the training split."
        )
    values = torch.zeros(len(vocabulary), len(next(iter(rows.values()))), dtype=torch.float32)
    known = torch.zeros(len(vocabulary), dtype=torch.bool)
    for number, vector in rows.items():
        values[number], known[number] = torch.from_numpy(vector), True
    return Vectors(path.name, values, known)


def learn(sentences: Sequence[list[int]], vocabulary: Sequence[str], size: int, rng: Rng) -> Vectors:
    """Learn skip-gram vectors of the tokens with gensim, in a single thread for reproducibility.

    Mikolov et al., 2013, arXiv:1310.4546. All tokens are included, however rare.
    """
    try:
        import gensim  # type: ignore[import-untyped]
        from gensim.models import Word2Vec  # type: ignore[import-untyped]
    except ImportError as error:
        raise SuiteError(
            f"learning word vectors requires gensim, which cannot be imported: {error}. Install it, provide a file "
            "as `vectors`, or choose a codebook without vectors."
        ) from None
    parts = [
        [str(token) for token in sentence[begin : begin + MAX_SENTENCE_WORDS]]
        for sentence in sentences
        for begin in range(0, len(sentence), MAX_SENTENCE_WORDS)
    ]
    if not parts:
        raise DataError(
            "the training split has no sentence to learn word vectors from. Provide `vectors`, or choose a "
            "codebook without vectors."
        )
    model = Word2Vec(
        parts,
        sg=1,
        vector_size=size,
        window=WINDOW,
        negative=NEGATIVE,
        epochs=EPOCHS,
        min_count=1,
        workers=1,
        seed=rng.fork("skip-gram").key % 2**32,
    )
    ids = torch.tensor([int(token) for token in model.wv.index_to_key])
    values = torch.zeros(len(vocabulary), size, dtype=torch.float32)
    values[ids] = torch.from_numpy(np.array(model.wv.vectors, dtype=np.float32))
    known = torch.zeros(len(vocabulary), dtype=torch.bool)
    known[ids] = True
    return Vectors(f"skip-gram learned from the training split (gensim {gensim.__version__})", values, known)


@contextmanager
def _open(path: Path) -> Iterator[IO[bytes]]:
    """Open a file, gzipped or not; raise DataError if it cannot be read."""
    try:
        with path.open("rb") as plain:
            packed = plain.peek(2)[:2] == b"\x1f\x8b"
        with gzip.open(path) if packed else path.open("rb") as file:
            yield file  # type: ignore[misc]
    except (OSError, EOFError, zlib_error) as error:
        raise DataError(f"{path} cannot be read: {error}. Provide a file in word2vec or GloVe format.") from None


def _line(file: IO[bytes], path: Path, number: int) -> bytes | None:
    """Return the next line, or None at the end of the file."""
    line = file.readline(MAX_LINE_BYTES + 1)
    if len(line) > MAX_LINE_BYTES:
        raise DataError(
            f"{path}:{number}: a line of more than {MAX_LINE_BYTES:,} bytes. Provide a file of word vectors."
        )
    if b"\r" in line.removesuffix(b"\n").removesuffix(b"\r"):
        raise DataError(f"{path}:{number}: a carriage return without a line feed. Replace it with a line feed.")
    return line.strip(b" \t\r\n") if line else None


def _binary_follows(file: IO[bytes]) -> bool:
    """Return whether the first vector contains bytes that do not occur in text."""
    here = file.tell()
    numbers = file.readline(MAX_LINE_BYTES).partition(b" ")[2]
    file.seek(here)
    return not all(32 <= byte < 127 or byte in b"\t\r\n" for byte in numbers)


def _number(field: bytes) -> float | None:
    try:
        return float(field)
    except ValueError:
        return None


def _text(
    file: IO[bytes], path: Path, ids: Mapping[str, int], width: int, words: int = 0, first: bytes | None = None
) -> TokenVectors:
    """Read at least `words` lines, each with a word and its numbers; `first` is a line that was already read."""
    rows: TokenVectors = {}
    number = 2 if first is None else 1
    line = _line(file, path, 2) if first is None else first
    while line is not None:
        if line:
            word, numbers = _fields(line, width, path, number)
            token = ids.get(word.decode(errors="replace"))
            if token is not None and token not in rows:
                rows[token] = _vector(numbers, path, number)
            words -= 1
        number += 1
        line = _line(file, path, number)
    if words > 0:
        raise DataError(f"{path} ends {words:,} vectors earlier than its header announces. Download the file again.")
    return rows


def _vector(fields: list[bytes], path: Path, number: int) -> NDArray[np.float32]:
    values = [_number(field) for field in fields]
    if not all(value is not None and np.isfinite(value) for value in values):
        raise DataError(
            f"{path}:{number}: a vector contains a value that is not a number. Correct or remove the line."
        )
    return np.array(values, np.float32)


def _width(line: bytes, path: Path) -> int:
    """Return how many numbers the first line ends with; GloVe words may contain spaces."""
    numbers = takewhile(lambda field: _number(field) is not None, reversed(line.split()[1:]))
    width = sum(1 for _ in numbers)
    if not width:
        raise DataError(
            f"{path}:1: expected a word and its numbers, or a header of two numbers; found "
            f"{line[:60].decode(errors='replace')!r}. Provide a file in word2vec or GloVe format."
        )
    return width


def _fields(line: bytes, width: int, path: Path, number: int) -> tuple[bytes, list[bytes]]:
    """Return the word and the numbers of a line; GloVe words may contain spaces, but not end with a number."""
    word, *numbers = line.rsplit(maxsplit=width)
    pieces = word.split()
    if len(numbers) != width or (len(pieces) > 1 and _number(pieces[-1]) is not None):
        wrong = len(line.split()) - 1
        raise DataError(
            f"{path}:{number}: a vector of {wrong} numbers among vectors of {width}. Correct or remove the line."
        )
    return word, numbers


def _binary(file: IO[bytes], path: Path, ids: Mapping[str, int], width: int, words: int) -> TokenVectors:
    """Read binary word2vec records: a word, a space and the bytes of its numbers."""
    rows: TokenVectors = {}
    for number in range(1, words + 1):
        word = _word(file, path, number)
        numbers = file.read(4 * width)
        if len(numbers) < 4 * width:
            raise DataError(f"{path} ends within vector {number:,} of {words:,}. Download the file again.")
        token = ids.get(word.decode(errors="replace"))
        if token is not None and token not in rows:
            vector = np.frombuffer(numbers, "<f4").astype(np.float32)
            if not np.isfinite(vector).all():
                raise DataError(
                    f"{path}: vector {number:,} contains a value that is not a number. Download the file again."
                )
            rows[token] = vector
    return rows


def _word(file: IO[bytes], path: Path, number: int) -> bytes:
    """Return the bytes up to the next space; a preceding line feed belongs to the previous vector."""
    letters = bytearray()
    while (letter := file.read(1)) != b" ":
        if not letter or len(letters) > MAX_LINE_BYTES:
            raise DataError(f"{path} ends before, or within, word {number:,}. Download the file again.")
        letters += letter
    return bytes(letters).lstrip(b"\n")
