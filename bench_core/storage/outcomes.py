"""Outcomes on disk: gzipped JSON lines, byte-identical for identical outcomes."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bench_core.data import Hypothesis, Outcome


def write_lines(path: Path, lines: Iterable[Any]) -> None:
    """Write gzipped JSON lines, without a time stamp."""
    text = "".join(json.dumps(line, sort_keys=True, ensure_ascii=False) + "\n" for line in lines)
    path.write_bytes(gzip.compress(text.encode(), 6, mtime=0))


def read_lines(path: Path) -> list[Any]:
    """Read gzipped JSON lines."""
    lines = gzip.decompress(path.read_bytes()).decode().split("\n")  # no other end of a line: texts may hold them
    return [json.loads(line) for line in lines[:-1]]


def write_outcomes(path: Path, outcomes: Iterable[Outcome]) -> None:
    """Write outcomes; actions identical to the tokens are omitted."""
    write_lines(path, (_as_json(outcome) for outcome in outcomes))


def read_outcomes(path: Path) -> list[Outcome]:
    """Read outcomes."""
    return [_from_json(line) for line in read_lines(path)]


def _as_json(outcome: Outcome) -> dict[str, Any]:
    data = asdict(outcome)
    for hypothesis in data["hypotheses"]:
        if hypothesis["actions"] == hypothesis["tokens"]:
            hypothesis["actions"] = "tokens"
    return data


def _from_json(data: dict[str, Any]) -> Outcome:
    hypotheses = []
    for one in data["hypotheses"]:
        actions = one["tokens"] if one["actions"] == "tokens" else one["actions"]
        hypotheses.append(Hypothesis(**{**one, "actions": actions}))
    return Outcome(**{**data, "hypotheses": hypotheses})
