"""Faults in recorded outputs, servers, tokenizers, checkpoints, names and types of settings."""

from __future__ import annotations

import json
import shutil
import socket
from collections.abc import Sequence

from bench_faults.fault import fault
from bench_faults.place import Place


@fault("an output too few or too many", "records", "lines", "scored")
def _(place: Place) -> Sequence[str]:
    name = outputs_of(place)
    rows = place.rows[name] if name in place.rows else place.lines[name]
    if name == "out.log":
        example = rows[-1].split("\t")[0].split("-")[1]
        rows[:] = [line for line in rows if line.split("\t")[0].split("-")[1] != example]
    elif name == "out.nbest":
        del rows[-2:]
    elif place.rng.random() < 0.5:
        rows.pop()
    else:
        rows.append({"id": "test-99", "output": "a"} if name in place.rows else "one more")
    return [name]


def outputs_of(place: Place) -> str:
    """Return the file of recorded outputs."""
    return str(place.settings["models"]["theirs"]["outputs"])


@fault("an output for an example that is not there", "records", "scored")
def _(place: Place) -> Sequence[str]:
    name = outputs_of(place)
    if name == "theirs.jsonl":
        place.rng.choice(place.rows[name])["id"] = "nobody"
        return [name]
    old, new = ("3 |||", "33 |||") if name == "out.nbest" else ("-3\t", "-33\t")
    place.lines[name] = [line.replace(old, new) for line in place.lines[name]]
    return [name]


@fault("an id of an output that comes twice", "records")
def _(place: Place) -> Sequence[str]:
    one, other = place.rng.sample(place.rows["theirs.jsonl"], 2)
    one["id"] = other["id"]
    return ["theirs.jsonl", other["id"]]


@fault("an output that lacks its id or its text", "records")
def _(place: Place) -> Sequence[str]:
    del place.rng.choice(place.rows["theirs.jsonl"])[place.rng.choice(["id", "output"])]
    return ["theirs.jsonl"]


@fault("an output that is no text", "records")
def _(place: Place) -> Sequence[str]:
    place.rng.choice(place.rows["theirs.jsonl"])["output"] = place.rng.choice([None, {"a": 1}, [1], True])
    return ["theirs.jsonl"]


@fault("a line of outputs that is not JSON", "records", late=True)
def _(place: Place) -> Sequence[str]:
    lines = place.read("theirs.jsonl").splitlines()
    row = place.rng.randrange(len(lines))
    lines[row] = lines[row][: place.rng.randrange(1, len(lines[row]) - 1)]
    place.file("theirs.jsonl", b"\n".join(lines))
    return ["theirs.jsonl", str(row + 1)]


@fault("a field of outputs that they do not have", "records")
def _(place: Place) -> Sequence[str]:
    place.settings["models"]["theirs"]["fields"] = place.rng.choice([{"output": "answer"}, {"id": "doc.key"}])
    return ["theirs.jsonl"]


@fault("a broken line of another system's log", "scored")
def _(place: Place) -> Sequence[str]:
    name = outputs_of(place)
    lines = place.lines[name]
    row = place.rng.choice([row for row, line in enumerate(lines) if not line.startswith(("S-", "H-", "P-"))])
    lines[row] = "x ||| a" if name == "out.nbest" else lines[row].replace("\t", " ")
    return [name]


@fault("a format that the outputs do not have", "lines", "scored")
def _(place: Place) -> Sequence[str]:
    name = outputs_of(place)
    others = {
        "theirs.txt": ["moses-nbest", "fairseq", "jsonl"],
        "out.nbest": ["fairseq", "jsonl"],
        "out.log": ["moses-nbest", "jsonl"],
    }
    place.settings["models"]["theirs"]["format"] = place.rng.choice(others[name])
    return [name]


@fault("prompts beside outputs that are others", "lines")
def _(place: Place) -> Sequence[str]:
    place.lines["prompts.txt"] = [*place.lines["test.de"][1:], place.lines["test.de"][0]]
    place.settings["models"]["theirs"] |= {"check": "prompt", "prompts": {"test": "prompts.txt"}}
    return ["theirs.txt"]


@fault("prompts to be checked that outputs do not have", "records", "lines")
def _(place: Place) -> Sequence[str]:
    place.settings["models"]["theirs"]["check"] = "prompt"
    return [outputs_of(place)]


@fault("a seed without outputs", "lines", "scored")
def _(place: Place) -> Sequence[str]:
    theirs = place.settings["models"]["theirs"]
    theirs["outputs"] = {0: theirs["outputs"]}
    place.settings["seeds"] = 2
    return ["1"]


@fault("a split without outputs", "lines")
def _(place: Place) -> Sequence[str]:
    place.settings["splits"] = ["valid", "test"]
    return ["valid"]


@fault("outputs matched by names that examples do not have", "lines")
def _(place: Place) -> Sequence[str]:
    place.settings["models"]["theirs"]["match"] = "id"
    return ["theirs.txt"]


@fault("files of references of different lengths", "scored")
def _(place: Place) -> Sequence[str]:
    name = place.rng.choice(["one.ref", "two.ref", "sources.src"])
    place.lines[name].append("one more")
    return [name]


@fault("a server that is not there", "asked")
def _(place: Place) -> Sequence[str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    place.settings["models"]["tiny"]["url"] = f"http://127.0.0.1:{port}/v1"
    return [str(port)]


@fault("a host that is not there", "asked")
def _(place: Place) -> Sequence[str]:
    place.settings["models"]["tiny"]["url"] = "http://nowhere.invalid/v1"
    return ["nowhere.invalid"]


@fault("an address that has no such path", "asked")
def _(place: Place) -> Sequence[str]:
    place.settings["models"]["tiny"]["url"] = place.server.url.replace("/v1", place.rng.choice(["", "/v2", "/api"]))
    return ["404"]


@fault("an address that is none", "asked")
def _(place: Place) -> Sequence[str]:
    place.settings["models"]["tiny"]["url"] = place.rng.choice(
        ["localhost:8000", "ftp://localhost/v1", "http://", "http://:x"]
    )
    return ["url"]


@fault("a server with another model", "asked")
def _(place: Place) -> Sequence[str]:
    place.server.trouble = "other-model"
    return ["tiny", "another"]


@fault("a server that refuses", "asked")
def _(place: Place) -> Sequence[str]:
    place.server.trouble = place.rng.choice([401, 403, 404, 500])
    return [str(place.server.trouble)]


@fault("a server that is no server of models", "asked")
def _(place: Place) -> Sequence[str]:
    place.server.trouble = place.rng.choice(["html", "cut", "silent"])
    return [str(place.server.port)]


@fault("a server that wants a key", "asked")
def _(place: Place) -> Sequence[str]:
    place.server.needs_key = "sk-one-of-many-keys"
    return ["401"]


@fault("a key that the environment does not have", "asked")
def _(place: Place) -> Sequence[str]:
    place.settings["models"]["tiny"]["key_env"] = "NO_SUCH_KEY_HERE"
    return ["NO_SUCH_KEY_HERE"]


@fault("a folder of a tokenizer that is gone", "tokens", late=True)
def _(place: Place) -> Sequence[str]:
    shutil.rmtree(place.folder / "pieces")
    return ["pieces"]


@fault("a tokenizer that is broken", "tokens", late=True)
def _(place: Place) -> Sequence[str]:
    text = place.read("pieces/tokenizer.json")
    place.file(
        "pieces/tokenizer.json",
        place.rng.choice([b"", b"{}", text[:-9], text.replace(b"WordLevel", b"WordLevels"), b"\xff"]),
    )
    return ["tokenizer.json"]


@fault("a stop that a tokenizer does not have", "tokens")
def _(place: Place) -> Sequence[str]:
    place.task["tokenizer"]["stop"] = place.rng.choice(["</end>", None])
    if place.task["tokenizer"]["stop"] is None:
        del place.task["tokenizer"]["stop"]
    return ["stop"]


@fault("byte pair codes that are none", "codes")
def _(place: Place) -> Sequence[str]:
    place.lines["merges.codes"] = place.rng.choice([
        ["#version: 0.2", "t h", "the"], ["#version: 9", "t h"], ["t h e more"], ["#version: 0.2", "t h", "t h"],
    ])  # fmt: skip
    return ["merges.codes"]


@fault("a SentencePiece model that is none", "lines", late=True)
def _(place: Place) -> Sequence[str]:
    if place.rng.random() < 0.5:
        place.file("pieces.model", place.rng.choice([b"", b"no model", b"\x00" * 50]))
    place.task["tokenizer"] = {"kind": "sentencepiece", "model": "pieces.model"}
    place.suite.write_text(json.dumps(place.settings))
    return ["pieces.model"]


@fault("a file of a checkpoint that is gone", "published", late=True)
def _(place: Place) -> Sequence[str]:
    name = place.rng.choice(["config.json", "model.safetensors", "tokenizer.json"])
    (place.folder / "gpt2" / name).unlink()
    if name == "tokenizer.json":
        (place.folder / "gpt2" / "tokenizer_config.json").unlink()
    return ["gpt2"]


@fault("a file of a checkpoint that is broken", "published", late=True)
def _(place: Place) -> Sequence[str]:
    name = place.rng.choice(["config.json", "model.safetensors", "tokenizer.json"])
    content = (place.folder / "gpt2" / name).read_bytes()
    place.file(f"gpt2/{name}", place.rng.choice([b"", content[: len(content) // 2], b"\xff" + content]))
    return [name]


@fault("a checkpoint of another family", "published", late=True)
def _(place: Place) -> Sequence[str]:
    config = json.loads(place.read("gpt2/config.json"))
    config["model_type"] = place.rng.choice(["t5", "nobody-knows", "bert"])
    config["architectures"] = []
    place.file("gpt2/config.json", json.dumps(config).encode())
    return ["gpt2"]


@fault("a checkpoint whose folder is gone", "published")
def _(place: Place) -> Sequence[str]:
    place.settings["models"]["gpt2"]["path"] = "gpt-2"
    return ["gpt-2"]


@fault("initial weights that are none", "sentences", "lines", late=True)
def _(place: Place) -> Sequence[str]:
    if place.rng.random() < 0.7:
        place.file("w.safetensors", place.rng.choice([b"", b"no weights", b"\x08" + b"\x00" * 7 + b"{}      "]))
    place.settings["training"]["initial"] = "w.safetensors"
    place.suite.write_text(json.dumps(place.settings))
    return ["w.safetensors"]


TRAINED = (
    "records",
    "lines",
    "translation",
    "stories",
    "prefixes",
    "sentences",
    "stream",
    "tokens",
    "codes",
    "words",
    "captions",
)
EVERY = (*TRAINED, "asked", "scored", "published")


@fault("a part whose distribution is not installed", *EVERY)
def _(place: Place) -> Sequence[str]:
    kind = place.rng.choice(["tasks", "models", "metrics"])
    part = place.rng.choice(list(place.settings[kind].values()))
    part["name"] = place.rng.choice(["bench-news/", "news-"]) + part["name"]
    return [part["name"]]


@fault("a name of a part with a mistake", *EVERY)
def _(place: Place) -> Sequence[str]:
    kind = place.rng.choice([kind for kind in ("tasks", "models", "decoders", "metrics") if kind in place.settings])
    part = place.rng.choice(list(place.settings[kind].values()))
    part["name"] = part["name"][:-1]
    return [part["name"]]


@fault("a setting with a mistake in its name", *EVERY)
def _(place: Place) -> Sequence[str]:
    part = place.rng.choice([part for kind in ("tasks", "models") for part in place.settings[kind].values()])
    key = place.rng.choice([key for key in part if key != "name"])
    part[f"{key}x"] = part.pop(key)
    return [f"{key}x"]


@fault("a setting of the wrong type", *EVERY)
def _(place: Place) -> Sequence[str]:
    section, key = place.rng.choice([("training", "updates"), ("training", "batch_size"), ("limits", "max_tokens")])
    place.settings[section][key] = place.rng.choice(["many", [1], -1, 1.5])
    return [key]


@fault("a section that is a list", *EVERY)
def _(place: Place) -> Sequence[str]:
    place.settings["models"] = list(place.settings["models"].values())
    return ["models"]


@fault("a name that comes twice", *EVERY, late=True)
def _(place: Place) -> Sequence[str]:
    text = place.suite.read_text()
    kind = place.rng.choice(["tasks", "models"])
    (name, *_) = place.settings[kind]
    start = text.index(f'"{name}"', text.index(f'"{kind}"'))
    place.suite.write_text(f'{text[:start]}"{name}": {{"name": "rnn-lm"}}, {text[start:]}')
    return [name]


@fault("a model that cannot read what the task has", "lines", "stories", "asked")
def _(place: Place) -> Sequence[str]:
    name = next(iter(place.settings["models"]))
    place.settings["models"][name] = {"name": "rnn-lm" if "ours" in place.settings["models"] else "rnn-seq2seq"}
    return [name]


@fault("a metric that a task cannot have", "asked", "scored", "stream", "words")
def _(place: Place) -> Sequence[str]:
    place.settings["metrics"]["wrong"] = {
        "name": "exact-match" if "perplexity" in place.settings["metrics"] else "perplexity"
    }
    return ["wrong"]


@fault("a suite that is not YAML", *EVERY, late=True)
def _(place: Place) -> Sequence[str]:
    text = place.suite.read_text()
    place.suite.write_text(text[: place.rng.randrange(20, len(text) - 10)])
    return ["suite.yaml"]
