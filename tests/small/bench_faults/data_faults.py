"""Faults in files of data, and in settings that say where they are and how they are read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bench_faults.fault import fault
from bench_faults.place import Place
from bench_faults.working import SIZES

RECORDS = ("records", "stories", "asked")
LINES = ("lines", "translation", "prefixes", "sentences", "stream", "codes")
SIDES = ("lines", "translation", "codes")
#: Roles of fields, of which each suite of records has some.
TEXTS = {"source", "prompt", "target"}


def chosen(place: Place) -> tuple[str, int]:
    """Choose a file of data and a record in it."""
    name = place.rng.choice([name for name in place.rows if name != "theirs.jsonl"])
    return name, place.rng.randrange(len(place.rows[name]))


def column(place: Place, *roles: str) -> str:
    """Return the field of the data that has one of these roles."""
    fields = place.task["fields"]
    found = fields[place.rng.choice([role for role in roles if role in fields])]
    return "de" if found == "{topic}: {de}" else found


@fault("a field of the settings that no record has", *RECORDS)
def _(place: Place) -> Sequence[str]:
    fields = place.task["fields"]
    role = place.rng.choice([role for role in fields if isinstance(fields[role], str) and "{" not in fields[role]])
    fields[role] += "n"
    return [fields[role]]


@fault("a field of a template that no record has", *RECORDS)
def _(place: Place) -> Sequence[str]:
    role = place.rng.choice([role for role in place.task["fields"] if role in TEXTS])
    place.task["fields"][role] = "about {topik}"
    return ["topik"]


@fault("a template that does not end", "records")
def _(place: Place) -> Sequence[str]:
    place.task["fields"]["source"] = "{topic}: {de"
    return ["source"]


@fault("a reference field that no record has", "records")
def _(place: Place) -> Sequence[str]:
    place.task["fields"]["references"] = ["en", "other"]
    return ["other"]


@fault("a path into a field that is text", "records", "stories")
def _(place: Place) -> Sequence[str]:
    place.task["fields"]["target"] += ".best"
    return ["best"]


@fault("a field that one record lacks", "asked", "records", "stories")
def _(place: Place) -> Sequence[str]:
    name, row = chosen(place)
    field = column(place, *TEXTS)
    if name.split(".")[1] in ("csv", "tsv"):
        for record in place.rows[name]:
            del record[field]
    else:
        del place.rows[name][row][field]
    return [name, field]


@fault("a text that is no text", "asked", "records", "stories")
def _(place: Place) -> Sequence[str]:
    name, row = chosen(place)
    wrong: list[Any] = [None, ["a"], {"a": 1}, 1.5, True]
    if name.split(".")[1] in ("csv", "tsv"):
        wrong = ["", "  "]
    place.rows[name][row][column(place, *TEXTS)] = place.rng.choice(wrong)
    return [name]


@fault("a blank text", *RECORDS)
def _(place: Place) -> Sequence[str]:
    name, row = chosen(place)
    place.rows[name][row][column(place, *(TEXTS - {"source"}))] = place.rng.choice(["", " ", "\u00a0"])
    return [name]


@fault("an id that comes twice", "records", "stories")
def _(place: Place) -> Sequence[str]:
    name, _ = chosen(place)
    rows = place.rows[name]
    last = len(rows) if name.startswith(tuple(SIZES)) else 12  # of the same split
    one, other = place.rng.sample(range(last), 2)
    rows[one]["key"] = rows[other]["key"]
    return [name, rows[other]["key"]]


@fault("an id that is no name", "records", "stories")
def _(place: Place) -> Sequence[str]:
    name, row = chosen(place)
    place.rows[name][row]["key"] = "" if name.split(".")[1] in ("csv", "tsv") else place.rng.choice([None, [1], ""])
    return [name]


@fault("a weight that is none", "records")
def _(place: Place) -> Sequence[str]:
    name, row = chosen(place)
    place.rows[name][row]["weight"] = place.rng.choice([-1, "heavy", float("nan"), float("inf")])
    return [name]


@fault("a line that is not JSON", *RECORDS, late=True)
def _(place: Place) -> Sequence[str]:
    names = [name for name in place.rows if name.split(".")[1] in ("jsonl", "ndjson") and name != "theirs.jsonl"]
    if not names:
        place.file(place.records(), b'[{"title": "a", "story"')
        return []
    name = place.rng.choice(names)
    lines = place.read(name).splitlines()
    row = place.rng.randrange(len(lines))
    lines[row] = place.rng.choice([lines[row][:-3], b"{'title': 'a'}", b"nothing", lines[row] + b"}", b"{"])
    place.file(name, b"\n".join(lines))
    return [name, str(row + 1)]


@fault("a record that is no object", *RECORDS, late=True)
def _(place: Place) -> Sequence[str]:
    name, _ = chosen(place)
    if name.split(".")[1] in ("jsonl", "ndjson"):
        lines = place.read(name).splitlines()
        lines[place.rng.randrange(len(lines))] = place.rng.choice([b"[1, 2]", b'"a text"', b"3", b"null"])
        place.file(name, b"\n".join(lines))
    else:
        place.file(name, place.rng.choice([b'{"a": 1}', b"7", b"[1, 2]"]))
    return [name]


@fault("a row with too few or too many cells", "records", "stories", late=True)
def _(place: Place) -> Sequence[str]:
    name, _ = chosen(place)
    separator = b"\t" if name.split(".")[1] == "tsv" else b","
    lines = place.read(name).splitlines()
    row = place.rng.randrange(1, len(lines))
    lines[row] = place.rng.choice([lines[row] + separator + b"more", lines[row].split(separator)[0]])
    place.file(name, b"\n".join(lines))
    return [name]


@fault("a column that comes twice", "records", "stories", late=True)
def _(place: Place) -> Sequence[str]:
    name, _ = chosen(place)
    if name.split(".")[1] in ("csv", "tsv"):
        place.file(name, place.read(name).replace(b"key", place.task["fields"]["target"].encode(), 1))
    else:
        place.file(name, b"")
    return [name]


def files(place: Place) -> list[str]:
    """Return the files that a suite names."""
    return [*place.rows, *place.lines]


ALL = (*RECORDS, *LINES, "tokens", "scored", "words")


@fault("a split to select checkpoints on that the data lack", "records", "lines", "stories", "prefixes")
def _(place: Place) -> Sequence[str]:
    del place.task["data"]["valid"]
    return ["valid", "split: train"]


@fault("a split to stop on that nothing is called", *RECORDS[:2], *LINES)
def _(place: Place) -> Sequence[str]:
    place.settings["training"][place.rng.choice(["select", "stop"])] = {"metric": "loss", "split": "dev"}
    return ["dev"]


@fault("an empty file", *ALL, late=True)
def _(place: Place) -> Sequence[str]:
    name = place.rng.choice(files(place))
    place.file(name, b"")
    return [name]


@fault("a file that is gone", *ALL, "captions", "published", late=True)
def _(place: Place) -> Sequence[str]:
    name = place.rng.choice([*files(place), *(["features.npy"] if (place.folder / "features.npy").exists() else [])])
    (place.folder / name).unlink()
    return [name]


@fault("a folder in place of a file", *ALL, late=True)
def _(place: Place) -> Sequence[str]:
    name = place.rng.choice(files(place))
    (place.folder / name).unlink()
    (place.folder / name).mkdir()
    return [name]


@fault("a file that is not UTF-8", *ALL, late=True)
def _(place: Place) -> Sequence[str]:
    name = place.rng.choice(files(place))
    content = place.read(name)
    place.file(
        name,
        place.rng.choice([content.decode().encode("utf-16"), content.replace(b"e", b"\xe4"), content + b"\xff\n"]),
    )
    return [name]


@fault("a packed file in pieces", *ALL, late=True)
def _(place: Place) -> Sequence[str]:
    name = place.rng.choice(files(place))
    content = place.read(name)
    (place.folder / name).unlink()
    packed = f"{name}.x.gz"
    place.suite.write_text(place.suite.read_text().replace(f'"{name}"', f'"{packed}"'))
    place.file(packed, content)
    whole = (place.folder / packed).read_bytes()
    (place.folder / packed).write_bytes(place.rng.choice([whole[:-9], b"no gzip at all", whole[:30]]))
    return [packed]


@fault("half of a surrogate pair", "records", "stories", "asked", late=True)
def _(place: Place) -> Sequence[str]:
    name, _ = chosen(place)
    text = place.read(name)
    if "json" not in name:
        place.file(name, text + b"\xed\xa0\x80\n")
    else:
        place.file(name, text.replace(b'": "', b'": "\\ud800', 10))
    return [name]


@fault("a share that leaves nothing", "stories")
def _(place: Place) -> Sequence[str]:
    split = place.rng.choice(list(SIZES))
    place.task["data"][split]["share"] = [97, 99]
    return [split]


@fault("a share that is none", "stories")
def _(place: Place) -> Sequence[str]:
    place.task["data"]["train"]["share"] = place.rng.choice([[60, 0], [0, 120], [0], 50, [0, 0]])
    return ["share"]


@fault("a condition that no record meets", "records", "stories")
def _(place: Place) -> Sequence[str]:
    data = place.task["data"]
    split = place.rng.choice(list(SIZES))
    data[split] = {
        **(data[split] if isinstance(data[split], dict) else {"files": data[split]}),
        "where": {"key": "nobody"},
    }
    return [split]


@fault("a condition on a field that no record has", "records", "stories")
def _(place: Place) -> Sequence[str]:
    data = place.task["data"]
    split = place.rng.choice(list(SIZES))
    data[split] = {
        **(data[split] if isinstance(data[split], dict) else {"files": data[split]}),
        "where": {"langg": "de"},
    }
    return ["langg"]


@fault("sides of different lengths", *SIDES)
def _(place: Place) -> Sequence[str]:
    name = place.text(".de", ".en")
    if place.rng.random() < 0.5:
        place.lines[name].pop()
    else:
        place.lines[name].append("one more")
    return [name]


@fault("a blank line in a side", *SIDES)
def _(place: Place) -> Sequence[str]:
    name = place.rng.choice(["test.de", "test.en", "valid.de", "valid.en"])
    row = place.rng.randrange(len(place.lines[name]))
    place.lines[name][row] = place.rng.choice(["", "  "])
    return [name, str(row + 1)]


@fault("a trained model without data to train on", "records", "lines", "stories", "prefixes")
def _(place: Place) -> Sequence[str]:
    del place.task["data"]["train"]
    return ["train"]


@fault("a split to score that the data lack", "records", "lines", "stories", "prefixes")
def _(place: Place) -> Sequence[str]:
    del place.task["data"]["test"]
    return ["test"]


@fault("targets that the data are said to lack", "records", "stories")
def _(place: Place) -> Sequence[str]:
    data = place.task["data"]
    data["train"] = {
        **(data["train"] if isinstance(data["train"], dict) else {"files": data["train"]}),
        "targets": False,
    }
    return ["train"]


@fault("a file of the wrong kind", "records", late=True)
def _(place: Place) -> Sequence[str]:
    name, _ = chosen(place)
    wrong = place.rng.choice(["parquet", "json", "csv"] if "json" not in name else ["parquet", "csv", "tsv"])
    split = name.split(".")[0]
    (place.folder / f"{split}.{wrong}").write_bytes(place.read(name))
    if wrong == "json" or name != f"{split}.{wrong}":
        place.suite.write_text(place.suite.read_text().replace(f'"{name}"', f'"{split}.{wrong}"'))
    return [f"{split}.{wrong}"]


@fault("a prefix longer than all texts", "prefixes", "sentences", "tokens")
def _(place: Place) -> Sequence[str]:
    place.task["prefix"] = place.rng.choice([30, 400, 4000])
    if place.task["name"] == "sequence-completion":
        place.task["short"] = "drop"
    return ["prefix"]


@fault("examples that are all too long", "records", "lines", "translation", "stories", "sentences")
def _(place: Place) -> Sequence[str]:
    place.task["longest"] = 1
    return ["longest"]


@fault("a source that is longer than its limit", "translation")
def _(place: Place) -> Sequence[str]:
    place.task["source_limit"] = 6
    place.lines["test.de"][3] = "der " * 9
    return ["test.de"]


@fault("a count of a word that is none", "words")
def _(place: Place) -> Sequence[str]:
    row = place.rng.randrange(len(place.lines["words.tsv"]))
    word = place.lines["words.tsv"][row].split("\t")[0]
    place.lines["words.tsv"][row] = place.rng.choice([f"{word}\tmany", word, f"{word}\t-3", f"{word}\t1.5"])
    return ["words.tsv", str(row + 1)]


@fault("a word that comes twice", "words")
def _(place: Place) -> Sequence[str]:
    place.lines["words.tsv"].append(place.lines["words.tsv"][place.rng.randrange(5)])
    return ["words.tsv"]


@fault("words that are all too rare", "words")
def _(place: Place) -> Sequence[str]:
    place.task["min_count"] = 1000
    return ["min_count"]


@fault("a character outside the alphabet", "words")
def _(place: Place) -> Sequence[str]:
    place.task["outside"] = "error"
    place.lines["words.tsv"].append("naïve\t12")
    return ["words.tsv"]


@fault("annotations that are not what they should be", "captions", late=True)
def _(place: Place) -> Sequence[str]:
    text = place.read("captions.json")
    place.file("captions.json", place.rng.choice([
        text[:-20], b"[]", b"{}", text.replace(b'"split": "test"', b'"split": "tests"'), text.replace(b'"image_id": 3', b'"image_id": 300'),
        text.replace(b'"caption"', b'"captions"'),
    ]))  # fmt: skip
    return ["captions.json"]


@fault("features of other images", "captions", late=True)
def _(place: Place) -> Sequence[str]:
    import numpy

    wrong = place.rng.choice(
        [numpy.ones((5, 3), "float32"), numpy.ones((24,), "float32"), numpy.full((24, 3), numpy.nan, "float32")]
    )
    numpy.save(place.folder / "features.npy", wrong)
    return ["features.npy"]
