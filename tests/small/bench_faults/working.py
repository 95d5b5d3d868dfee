"""Suites that work, each with files of its own."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from random import Random
from typing import Any

from bench_faults.place import Place

SIZES = {"train": 12, "valid": 5, "test": 7}
SMALL: dict[str, Any] = {"hidden": 4, "layers": 1}
GERMAN = ["der", "die", "das", "hund", "katze", "haus", "sieht", "liebt", "ein", "kleine"]
ENGLISH = ["the", "dog", "cat", "house", "sees", "loves", "a", "small", "big", "red"]


def sentence(rng: Random, words: list[str], mark: str = "") -> str:
    """Return a sentence of four to seven words, and a mark that no other has."""
    return " ".join([*rng.choices(words, k=rng.randint(4, 7)), *([mark] if mark else [])])


def suite(**settings: Any) -> dict[str, Any]:
    """Return a suite that trains for one update."""
    return {
        "suite": "working",
        "metrics": {"exact": {"name": "exact-match"}},
        "training": {"updates": 1, "batch_size": 4},
        "hardware": {"device": "cpu", "threads": 1},
        "limits": {"max_tokens": 4, "batch_size": 8},
        **settings,
    }


def _pairs(rng: Random, split: str) -> list[dict[str, Any]]:
    return [
        {
            "key": f"{split}-{row}", "topic": rng.choice(["zoo", "home"]), "de": sentence(rng, GERMAN, f"{split[1]}{row}"),
            "en": sentence(rng, ENGLISH, f"{split[2]}{row}"), "others": sentence(rng, ENGLISH), "doc": f"d{row // 3}", "weight": 1,
        }
        for row in range(SIZES[split])
    ]  # fmt: skip


def records(place: Place) -> None:
    """Pairs in files of records, with outputs of last year's system by id."""
    ending = place.rng.choice(["jsonl", "ndjson", "json", "csv", "tsv", "jsonl.gz", "csv.gz"])
    for split in SIZES:
        place.rows[f"{split}.{ending}"] = _pairs(place.rng, split)
    outputs = [{"id": row["key"], "output": row["others"]} for row in place.rows[f"test.{ending}"]]
    place.rows["theirs.jsonl"] = place.rng.sample(outputs, len(outputs))
    fields = {"source": "{topic}: {de}", "target": "en", "references": ["en", "others"]}
    fields |= {"id": "key", "group": "doc", "weight": "weight"}
    data = {split: f"{split}.{ending}" for split in SIZES}
    place.settings = suite(
        tasks={"notes": {"name": "text-to-text", "data": data, "fields": fields}},
        models={"ours": {"name": "rnn-seq2seq", **SMALL}, "theirs": {"name": "recorded", "outputs": "theirs.jsonl"}},
        decoders={"greedy": {"name": "greedy"}, "recorded": {"name": "as-recorded"}},
    )


def lines(place: Place) -> None:
    """Pairs in plain files side by side, with outputs in the order of lines."""
    for split, size in SIZES.items():
        place.lines[f"{split}.de"] = [sentence(place.rng, GERMAN, f"{split[1]}{row}") for row in range(size)]
        place.lines[f"{split}.en"] = [sentence(place.rng, ENGLISH) for _ in range(size)]
    place.lines["second.en"] = [sentence(place.rng, ENGLISH) for _ in range(SIZES["test"])]
    place.lines["theirs.txt"] = [sentence(place.rng, ENGLISH) for _ in range(SIZES["test"])]
    data: dict[str, Any] = {split: {"source": f"{split}.de", "target": f"{split}.en"} for split in SIZES}
    data["test"]["references"] = ["second.en"]
    place.settings = suite(
        tasks={"notes": {"name": "text-to-text", "data": data}},
        models={"ours": {"name": "rnn-seq2seq", **SMALL}, "theirs": {"name": "recorded", "outputs": "theirs.txt"}},
        decoders={"greedy": {"name": "greedy"}, "recorded": {"name": "as-recorded"}},
    )


def translation(place: Place) -> None:
    """The task of translation on files of one's own."""
    lines(place)
    data = place.task["data"]
    place.settings["tasks"] = {"notes": {"name": "translation", "pair": "de-en", "corpus": data}}


def stories(place: Place) -> None:
    """Prompts and what follows them, in one table of which splits take shares."""
    ending = place.rng.choice(["csv", "tsv", "jsonl", "json"])
    place.rows[f"stories.{ending}"] = [
        {"key": f"s{row}", "title": sentence(place.rng, ENGLISH, f"t{row}"), "story": sentence(place.rng, ENGLISH)}
        for row in range(30)
    ]
    shares = {"train": [0, 12], "valid": [12, 18], "test": [18, 100]}
    data = {split: {"files": f"stories.{ending}", "share": share} for split, share in shares.items()}
    fields = {"prompt": "title", "target": "story", "id": "key"}
    place.settings = suite(
        tasks={"stories": {"name": "completion", "data": data, "fields": fields}},
        models={"lstm": {"name": "rnn-lm", **SMALL}},
        decoders={"greedy": {"name": "greedy"}},
    )


def _texts(place: Place) -> dict[str, str]:
    for split, size in SIZES.items():
        place.lines[f"{split}.txt"] = [sentence(place.rng, ENGLISH) for _ in range(size)]
    return {split: f"{split}.txt" for split in SIZES}


def prefixes(place: Place) -> None:
    """Whole texts, the first two tokens of which are given."""
    place.settings = suite(
        tasks={"texts": {"name": "completion", "data": _texts(place), "prefix": 2}},
        models={"lstm": {"name": "rnn-lm", **SMALL}},
        decoders={"greedy": {"name": "greedy"}},
    )


def sentences(place: Place) -> None:
    """Completion of sentences in files of one's own."""
    task = {"name": "sequence-completion", "corpus": _texts(place), "prefix": 2, "sentences": "lines"}
    place.settings = suite(
        tasks={"texts": task}, models={"lstm": {"name": "rnn-lm", **SMALL}}, decoders={"greedy": {"name": "greedy"}}
    )


def stream(place: Place) -> None:
    """A stream of tokens, which is scored."""
    place.settings = suite(
        tasks={"texts": {"name": "language-modeling", "corpus": _texts(place), "window": 5}},
        models={"lstm": {"name": "rnn-lm", **SMALL}},
        metrics={"perplexity": {"name": "perplexity"}},
    )


def tokens(place: Place) -> None:
    """Completion in the tokens of a folder."""
    sentences(place)
    vocabulary = {word: number for number, word in enumerate(["<s>", "<unk>", *ENGLISH])}
    place.file("pieces/tokenizer.json", json.dumps({
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None,
        "pre_tokenizer": {"type": "Whitespace"}, "post_processor": None, "decoder": None,
        "model": {"type": "WordLevel", "vocab": vocabulary, "unk_token": "<unk>"},
    }).encode())  # fmt: skip
    place.file("pieces/config.json", b"{}")
    place.task["tokenizer"] = {"kind": "pretrained", "path": "pieces", "stop": "<s>"}


def codes(place: Place) -> None:
    """Pairs in byte pair codes that are given."""
    lines(place)
    place.lines["merges.codes"] = ["#version: 0.2", "t h", "th e</w>", "d o"]
    place.task["tokenizer"] = {"kind": "codes", "codes": "merges.codes"}


def asked(place: Place) -> None:
    """A model behind an address."""
    place.rows["test.jsonl"] = [
        {"title": sentence(place.rng, ENGLISH), "story": sentence(place.rng, ENGLISH)} for _ in range(SIZES["test"])
    ]
    place.settings = suite(
        tasks={"stories": {
            "name": "completion", "data": {"test": "test.jsonl"}, "fields": {"prompt": "title", "target": "story"},
        }},
        models={"tiny": {
            "name": "served", "url": place.server.url, "model": "tiny", "revision": "1", "retries": 0, "timeout": 1,
        }},
        decoders={"asked": {"name": "request"}},
    )  # fmt: skip


def scored(place: Place) -> None:
    """References in files, and outputs of another system in a format of its own."""
    size = SIZES["test"]
    place.lines["one.ref"] = [sentence(place.rng, ENGLISH) for _ in range(size)]
    place.lines["two.ref"] = [sentence(place.rng, ENGLISH) for _ in range(size)]
    place.lines["sources.src"] = [sentence(place.rng, GERMAN) for _ in range(size)]
    if place.rng.random() < 0.5:
        name = "out.nbest"
        place.lines[name] = [
            f"{row} ||| {sentence(place.rng, ENGLISH)} ||| LM0= -1 ||| {-1 - best}"
            for row in range(size)
            for best in range(2)
        ]
    else:
        name = "out.log"
        place.lines[name] = [
            f"{kind}-{row}\t{rest}"
            for row in place.rng.sample(range(size), size)
            for kind, rest in (
                ("S", "ein Hund"),
                ("H", "-0.5\ta d@@ og"),
                ("D", "-0.5\ta dog"),
                ("P", "-0.5 -0.5 -0.5 -0.5"),
            )
        ]
    place.settings = suite(
        tasks={"refs": {"name": "references", "references": ["one.ref", "two.ref"], "sources": "sources.src"}},
        models={"theirs": {"name": "recorded", "outputs": name}},
        decoders={"recorded": {"name": "as-recorded"}},
    )


def words(place: Place) -> None:
    """Words and their counts."""
    found = sorted({"".join(place.rng.choices("abcde", k=place.rng.randint(2, 5))) for _ in range(60)})
    place.lines["words.tsv"] = [f"{word}\t{place.rng.randint(10, 50)}" for word in found]
    task = {"name": "word-generation", "corpus": {"file": "words.tsv"}, "samples": 6}
    place.settings = suite(
        tasks={"words": task}, models={"lstm": {"name": "rnn-lm", **SMALL}}, decoders={"greedy": {"name": "greedy"}},
        metrics={"length": {"name": "length"}},
    )  # fmt: skip


def captions(place: Place) -> None:
    """Images, of which there are features, and their captions."""
    import numpy

    sizes = [(split, row) for split, size in SIZES.items() for row in range(size)]
    images = [{"id": n, "file_name": f"{split}-{row}.jpg", "split": split} for n, (split, row) in enumerate(sizes)]
    captions = [{"id": n, "image_id": n, "caption": sentence(place.rng, ENGLISH)} for n in range(len(images))]
    place.file("captions.json", json.dumps({"images": images, "annotations": captions}).encode())
    numpy.save(place.folder / "features.npy", numpy.ones((len(images), 3), dtype="float32"))
    features = {"kind": "precomputed", "path": "features.npy"}
    task = {"name": "captioning", "corpus": {"file": "captions.json"}, "features": features, "min_count": 1}
    place.settings = suite(
        tasks={"images": task},
        models={"lstm": {"name": "ecoc-lm", "hidden": 4, "embedding": 4}},
        decoders={"greedy": {"name": "greedy"}},
    )


def published(place: Place) -> None:
    """A published model in a folder; `published.py` of the tests of bench-huggingface writes it."""
    from published import publish

    asked(place)
    publish(place.folder / "gpt2", "gpt2")
    place.settings["models"] = {"gpt2": {"name": "hf-pretrained-lm", "path": "gpt2"}}
    place.settings["decoders"] = {"greedy": {"name": "greedy"}}


WORKING: Mapping[str, Callable[[Place], None]] = {
    function.__name__: function
    for function in (
        records, lines, translation, stories, prefixes, sentences, stream, tokens, codes, asked, scored, words, captions,
        published,
    )
}  # fmt: skip
