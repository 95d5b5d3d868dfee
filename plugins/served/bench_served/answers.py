"""Caches responses on disk as lines of JSON; each response is flushed to disk before it is used."""

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

START = re.compile(rb'\{"key": "([0-9a-f]{64})", ')  #: beginning of every line


def folder_of(config: ServedConfig, folder: Path) -> Path:
    """Return the folder for a model's cached responses, which depends on the model's name, revision and API."""
    digest = hashlib.sha256(json.dumps([config.model, config.revision, config.api]).encode()).hexdigest()
    return folder / "served" / f"{re.sub('[^A-Za-z0-9.]+', '-', config.model)[:60]}-{digest[:12]}"


@lru_cache(maxsize=8)
def answers_in(folder: Path) -> Answers:
    """Return the responses cached in a folder; later stages of the process share the index."""
    return Answers(folder)


class Answers:
    """The responses cached in a folder, by request keys; several processes may add to them concurrently.

    If a request has two responses, all processes use the first. A line that a killed process left incomplete is
    removed when the next line is added.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / "answers.jsonl"
        self._places: dict[bytes, tuple[int, int]] = {}  # request key -> offset and length of its line in bytes
        self._end = 0  # offset after the indexed lines
        self._inode = 0  # a file with another inode is read from its beginning

    def prepare(self) -> None:
        """Create the file before responses are requested; raise DataError if it cannot be written."""
        with self._errors():
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("ab"):
                _sync(self.path.parent)

    def find(self, request: Request) -> dict[str, Any] | None:
        """Return the cached response to a request, possibly added by another process, or None."""
        with self._errors():
            self._update_index()
            return self._read(request) if bytes.fromhex(request.key) in self._places else None

    def add(self, request: Request, answer: dict[str, Any], metadata: dict[str, Any]) -> dict[str, Any]:
        """Store a response and return it, or return the response that another process has already stored.

        The response is on disk when this returns. Raises DataError if it cannot be written.
        """
        record = {"key": request.key, "request": request.description, **metadata, "answer": answer}
        line = json.dumps(record, ensure_ascii=True).encode() + b"\n"
        self.prepare()
        with self._errors(), FileLock(self.path.with_suffix(".lock"), thread_local=False, fallback_to_soft=False):
            if (cached := self.find(request)) is not None:
                return cached
            with self.path.open("ab") as file:
                file.truncate(self._end)  # removes a line that a killed process left incomplete
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
                f"{self.path}: cannot cache responses here ({error.strerror or error}). Free space, or allow writing."
            ) from None

    def _update_index(self) -> None:
        """Index the complete lines that have been added to the file."""
        try:
            file = self.path.open("rb")
        except FileNotFoundError:
            self._places, self._end = {}, 0
            return
        with file:
            status = os.fstat(file.fileno())
            if status.st_ino != self._inode or status.st_size < self._end:
                self._places, self._end, self._inode = {}, 0, status.st_ino
            file.seek(self._end)
            for line in file:
                if not line.endswith(b"\n"):
                    break
                if match := START.match(line):
                    self._places.setdefault(bytes.fromhex(match[1].decode()), (self._end, len(line)))
                self._end += len(line)

    def _read(self, request: Request) -> dict[str, Any]:
        first, length = self._places[bytes.fromhex(request.key)]
        with self.path.open("rb") as file:
            file.seek(first)
            line = file.read(length)
        try:
            record = json.loads(line)
            valid = key_of(record["request"]) == record["key"] == request.key and isinstance(record["answer"], dict)
        except (ValueError, KeyError, TypeError):
            valid = False
        if not valid:
            raise DataError(
                f"{self.path}: the response for {request.about} at byte {first:,} is damaged. Remove that line to "
                "send the request again."
            )
        answer: dict[str, Any] = record["answer"]
        return answer


def _sync(folder: Path) -> None:
    """Flush a folder's entries to disk, on systems that support it."""
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
