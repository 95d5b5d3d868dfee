"""Counts the outputs that hold a letter."""

from __future__ import annotations

import json

from bench_core.storage.predictions import read_predictions


def count(context, stage, folder):
    predictions = [*read_predictions(context.input(stage, "predictions").file("predictions.jsonl.gz"))]
    number = sum(stage.settings["letter"] in one.texts[0] for one in predictions)
    (folder / "count.json").write_text(json.dumps({"number": number, "examples": len(predictions)}))
    return {"examples": len(predictions)}
