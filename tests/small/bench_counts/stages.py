"""Counts the outputs that hold a letter."""

from __future__ import annotations

import json

from bench_core.storage.outcomes import read_outcomes


def count(context, stage, folder):
    outcomes = [*read_outcomes(context.input(stage, "outcomes").file("outcomes.jsonl.gz"))]
    number = sum(stage.settings["letter"] in one.texts[0] for one in outcomes)
    (folder / "count.json").write_text(json.dumps({"number": number, "examples": len(outcomes)}))
    return {"examples": len(outcomes)}
