"""Reads what `bench outputs` wrote back into predictions, by the documentation of its formats alone."""

from __future__ import annotations

import json
from math import inf, nan

from bench_core import Hypothesis, Prediction
from plain_files import from_csv

AXES = ("task", "model", "decoder", "split", "hardware", "seed")
WORDS = {"inf": inf, "-inf": -inf, "nan": nan}
NUMBERS = {
    "id": int, "target_log_prob": float, "target_tokens": int, "target_words": int, "target_bytes": int,
    "target_characters": int, "weight": float, "group": int,
}  # fmt: skip


def number(value):
    return [*map(number, value)] if isinstance(value, list) else WORDS.get(value, value)


def numbers(values):
    return {name: number(value) for name, value in values.items()}


def of_json(text):
    """Return the predictions by stage, axes and likelihood, in order of their lines."""
    found = {}
    for line in text.splitlines():
        one = json.loads(line)
        place = one.pop("stage"), *(one.pop(axis) for axis in AXES), one.pop("by")
        found.setdefault(place, []).append(prediction(one))
    return found


def prediction(one):
    outputs = one.pop("outputs")
    hypotheses = [
        Hypothesis(
            y["tokens"], y["finished"], number(y["log_prob"]), y["tokens"] if y["actions"] == "tokens" else y["actions"],
            numbers(y["values"]), token_count=y["token_count"],
        )
        for y in outputs
    ]  # fmt: skip
    rest = {**one, "values": numbers(one["values"]), "target_log_prob": number(one["target_log_prob"])}
    rest["by_token"] = one["by_token"] and numbers(one["by_token"])
    return Prediction(**rest, hypotheses=hypotheses, texts=[y["text"] for y in outputs])


def of_csv(text):
    """Return the predictions as `of_json` does."""
    found, last = {}, None
    for row in from_csv(text):
        place = row["stage"], *(row[axis] or None for axis in AXES[:-1]), int(row["seed"]), row["by"] or None
        about = {name: as_number(row[name]) if row[name] else None for name, as_number in NUMBERS.items()}
        about |= {"prompt": row["prompt"], "references": json.loads(row["references"])}
        about |= {name: json.loads(row[name] or "null") for name in ("by_token", "written")}
        one = {**about, "values": json.loads(row["values"]), "outputs": []}
        if row["rank"] in ("", "1"):
            last = one
            found.setdefault(place, []).append(last)
        if row["rank"]:
            assert int(row["rank"]) == len(last["outputs"]) + 1
            output = {name: json.loads(row[name] or "null") for name in ("finished", "tokens")}
            actions = row["actions"] if row["actions"] in ("", "tokens") else json.loads(row["actions"])
            log_prob = float(row["log_prob"]) if row["log_prob"] else None
            more = {"actions": actions or None, "log_prob": log_prob, "values": json.loads(row["output_values"])}
            more["token_count"] = int(row["token_count"]) if row["token_count"] else None
            last["outputs"].append({**output, **more, "text": row["text"]})
    return {place: [*map(prediction, several)] for place, several in found.items()}
