"""Answers of servers on disk: lines of JSON, each written through to the disk before it is used."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

from filelock import FileLock

from bench_core import DataError
from bench_served.plugin import ServedConfig
from bench_served.requests import Request, key_of

START = re.compile(rb'\{"key": "([0-9a-f]{64})", ')  #: of every line


def folder_of(config: ServedConfig, folder: Path) -> Path:
    """Return where the answers of a model are, by its name, revision and API."""
    digest = hashlib.sha256(json.dumps([config.model, config.revision, config.api]).encode()).hexdigest()
    return folder / "served" / f"{re.sub('[^A-Za-z0-9.]+', '-', config.model)[:60]}-{digest[:12]}"


@lru_cache(maxsize=8)
def answers_in(folder: Path) -> Answers:
    """Return the answers in a folder; the next stages of a process know them already."""
    return Answers(folder)


class Answers:
    """The answers in a folder, by the keys of requests; several processes may add to them at once.

    Of two answers to one request, the first counts, for everybody. A line that a killed process left unfinished is
    removed when the next one is added.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / "answers.jsonl"
        self._places: dict[bytes, tuple[int, int]] = {}  # digest of a request -> first byte and length of its line
        self._end = 0  # of the lines that are known
        self._file = 0  # its inode: another file is read from its beginning

    def prepare(self) -> None:
        """Make the file, so that no answer is lost for want of it; raise DataError if it cannot be written."""
        with self._errors():
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("ab"):
                _sync(self.path.parent)

    def find(self, request: Request) -> dict[str, Any] | None:
        """Return the answer to a request, if there is one, also by another process meanwhile."""
        with self._errors():
            self._look()
            return self._read(request) if bytes.fromhex(request.key) in self._places else None

    def add(self, request: Request, answer: dict[str, Any], about: dict[str, Any]) -> dict[str, Any]:
        """Keep an answer and return it, or another one that was kept meanwhile.

        It is on the disk when this returns. Raises DataError if it cannot be written.
        """
        record = {"key": request.key, "request": request.described, **about, "answer": answer}
        line = json.dumps(record, ensure_ascii=True).encode() + b"\n"
        self.prepare()
        with self._errors(), FileLock(self.path.with_suffix(".lock"), thread_local=False, fallback_to_soft=False):
            if (known := self.find(request)) is not None:
                return known
            with self.path.open("ab") as file:
                file.truncate(self._end)  # what a killed process left unfinished
                file.write(line)
                file.flush()
                os.fsync(file.fileno())
        return answer

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise DataError(
                f"{self.path}: answers cannot be kept here ({error.strerror or error}). Make room, or allow writing."
            ) from None

    def _look(self) -> None:
        """Learn of the whole lines that others have added."""
        try:
            file = self.path.open("rb")
        except FileNotFoundError:
            self._places, self._end = {}, 0
            return
        with file:
            state = os.fstat(file.fileno())
            if state.st_ino != self._file or state.st_size < self._end:
                self._places, self._end, self._file = {}, 0, state.st_ino
            file.seek(self._end)
            for line in file:
                if not line.endswith(b"\n"):
                    break
                if found := START.match(line):
                    self._places.setdefault(bytes.fromhex(found[1].decode()), (self._end, len(line)))
                self._end += len(line)

    def _read(self, request: Request) -> dict[str, Any]:
        first, length = self._places[bytes.fromhex(request.key)]
        with self.path.open("rb") as file:
            file.seek(first)
            line = file.read(length)
        try:
            record = json.loads(line)
            whole = key_of(record["request"]) == record["key"] == request.key and isinstance(record["answer"], dict)
        except (ValueError, KeyError, TypeError):
            whole = False
        if not whole:
            raise DataError(
                f"{self.path}: the answer to {request.about} at byte {first:,} is damaged. Remove that "
                "line, and it is asked again."
            )
        found: dict[str, Any] = record["answer"]
        return found


def _sync(folder: Path) -> None:
    """Write the names in a folder through to the disk, where that can be asked for."""
    try:
        place = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(place)
    finally:
        os.close(place)
