from __future__ import annotations

import csv
import json

import pytest


def write_jsonl(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def write_json(path, rows):
    path.write_text(json.dumps(rows, indent=1))


def write_csv(path, rows, delimiter=","):
    with path.open("w", newline="") as file:
        rows_of = csv.DictWriter(file, [*rows[0]], delimiter=delimiter)
        rows_of.writeheader()
        rows_of.writerows(rows)


def write_tsv(path, rows):
    write_csv(path, rows, "\t")


def write_parquet(path, rows):
    import pyarrow
    import pyarrow.parquet

    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path)


WRITERS = {"jsonl": write_jsonl, "json": write_json, "csv": write_csv, "tsv": write_tsv, "parquet": write_parquet}


@pytest.fixture
def write(tmp_path):
    """Write rows to a file of a kind; return its path."""

    def writing(name, rows):
        path = tmp_path / name
        WRITERS[path.suffix.removeprefix(".")](path, rows)
        return path

    return writing


@pytest.fixture
def prepared(tmp_path):
    """Prepare a task, given its Config and settings; return it and its facts."""

    def preparing(kind, **settings):
        config = kind.model_validate(settings)
        folder = tmp_path / "prepared"
        folder.mkdir(exist_ok=True)
        task = config.load()(config, folder)
        return task, config.complete(task.prepare(tmp_path))

    return preparing
