"""A suite with its files in a folder, which faults change."""

from __future__ import annotations

import csv
import gzip
import io
import json
from pathlib import Path
from random import Random
from typing import Any

from bench_faults.server import Server

#: A record of a file of data.
Row = dict[str, Any]


class Place:
    """Settings of a suite, records and lines of its files; `write` puts all on disk."""

    def __init__(self, folder: Path, rng: Random, server: Server) -> None:
        self.folder, self.rng, self.server = folder, rng, server
        self.settings: dict[str, Any] = {}
        self.rows: dict[str, list[Row]] = {}
        self.lines: dict[str, list[str]] = {}

    @property
    def suite(self) -> Path:
        """The suite file."""
        return self.folder / "suite.yaml"

    @property
    def task(self) -> dict[str, Any]:
        """The settings of the only task."""
        (task,) = self.settings["tasks"].values()
        return task

    def records(self, *forms: str) -> str:
        """Choose a file of records, of one of these forms."""
        return self.rng.choice([name for name in self.rows if not forms or name.split(".")[1] in forms])

    def text(self, *endings: str) -> str:
        """Choose a file of lines."""
        return self.rng.choice([name for name in self.lines if not endings or Path(name).suffix in endings])

    def write(self) -> None:
        """Write the suite and its files; JSON is YAML."""
        self.suite.write_text(json.dumps(self.settings, indent=1))
        for name, rows in self.rows.items():
            self.file(name, form(name, rows).encode())
        for name, lines in self.lines.items():
            self.file(name, "".join(f"{line}\n" for line in lines).encode())

    def file(self, name: str, content: bytes) -> None:
        """Write a file, packed if its name says so."""
        path = self.folder / name
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)

    def read(self, name: str) -> bytes:
        """Return what a file holds, unpacked."""
        content = (self.folder / name).read_bytes()
        return gzip.decompress(content) if name.endswith(".gz") else content


def form(name: str, rows: list[Row]) -> str:
    """Return records as the name of their file says."""
    ending = name.split(".")[1]
    if ending in ("jsonl", "ndjson"):
        return "".join(json.dumps(row) + "\n" for row in rows)
    if ending == "json":
        return json.dumps(rows, indent=1)
    out = io.StringIO()
    fields = list(dict.fromkeys(field for row in rows for field in row))
    table = csv.DictWriter(out, fields, delimiter="\t" if ending == "tsv" else ",", lineterminator="\n")
    table.writeheader()
    table.writerows(rows)
    return out.getvalue()
