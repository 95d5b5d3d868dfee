"""Each stage depends on what it reads: every setting of the data tasks is changed, and every part of their files.

What `bench plan` computes again is compared with what differs in bytes when everything is computed from nothing.
"""

from __future__ import annotations

from copy import deepcopy

import pytest
from tried_suite import SPLITS, Tried

from bench_data.plugin import CompletionConfig, TextToTextConfig
from bench_data.settings import AlignedFiles, Data, Origin, RecordFields, RecordFiles

#: Kinds of stages that are planned again though their results stay, by what was changed, and why.
ALIKE = {
    "ids": ("decode score measure", "outputs of other systems are matched by ids, so ids are part of a test set"),
    "groups": ("score", "predictions have the groups of a test set, and so do those that have none to show"),
    "languages": ("decode score measure", "what stands between prompts and targets is by the language of these"),
    "between": ("decode score measure", "only models that read texts ask what stands between prompts and targets"),
    "references": ("decode score measure", "a test set is one, and likelihoods of its targets know no references"),
    "outputs": ("measure", "other predictions may have the same score"),
    "weights": ("train decode measure", "models and metrics may ignore the weights of examples"),
    "choices": ("train decode score measure", "the same weights may be the best by other examples"),
    "nothing": ("", "nothing reads it"),
    "selections": ("train decode score measure", "a selection by outputs reads the language of its split"),
    "files": ("train decode score measure", "a file is one, whichever of its fields are read"),
}


def lines(tried):
    """Have plain files side by side in place of records."""
    for split, rows in tried.records.items():
        for suffix, field in {"src": "q", "tgt": "a", "ref": "other"}.items():
            tried.texts[f"{split}.{suffix}"] = "".join(f"{row[field]}\n" for row in rows)
    side = "source" if tried.task["name"] == "text-to-text" else "prompt"
    origins = {
        split: {side: f"{split}.src", "target": f"{split}.tgt", "references": [f"{split}.ref"]} for split in SPLITS
    }
    tried.task["data"] = {split: origins[split] for split in ("train", "valid")}
    tried.task["data"]["tests"] = {split: origins[split] for split in ("old", "new")}
    tried.task["fields"] = {}


def judged_by_outputs(tried):
    tried.suite["training"] |= {"select": {"metric": "chrf", "decoder": "drawn"}}


def judged_by_words(tried):
    tried.suite["metrics"]["bleu"] = {"name": "bleu"}
    tried.suite["training"] |= {"select": {"metric": "bleu", "decoder": "drawn"}}


def by_words(tried):
    tried.suite["metrics"]["bleu"] = {"name": "bleu"}


def shorter(tried):
    tried.task["longest"] = 4 if tried.task["name"] == "text-to-text" else 8


def without_prompts(tried):
    tried.task["fields"].pop("prompt")
    tried.task["prefix"] = 1


def blank(tried):
    tried.records["train"][3]["a"] = " "
    tried.task["empty"] = "keep"


def without_likelihoods(tried):
    del tried.suite["metrics"]["nats"]


def settings(**changed):
    return lambda tried: tried.task.update(changed)


def field(**changed):
    return lambda tried: tried.task["fields"].update(changed)


def origin(split, **changed):
    def change(tried):
        data = tried.task["data"]
        (data if split in data else data["tests"])[split].update(changed)

    return change


def record(split, **changed):
    return lambda tried: tried.records[split][1].update(changed)


def text(name):
    return lambda tried: tried.texts.update({name: tried.texts[name].replace("the", "a", 1)})


def more(tried):
    tried.task["data"]["tests"]["third"] = {"files": "valid.jsonl"}
    tried.suite["splits"] = ["old", "new", "third"]


def fewer(tried):
    del tried.task["data"]["tests"]["old"]
    tried.suite["splits"] = ["new"]


def short_form(tried):
    tried.task["data"]["test"] = tried.task["data"]["tests"].pop("old")
    tried.suite["splits"] = ["test", "new"]


BOTH, TEXTS, REST = ("text-to-text", "completion"), ("text-to-text",), ("completion",)

#: What is changed, in which tasks, which setting that is of, from what the suite is first made, and what stays alike.
CHANGES = {
    "the target language": (settings(target_language="zh"), BOTH, "target_language", by_words, "languages"),
    "the source language": (settings(source_language="de"), TEXTS, "source_language", None, "languages"),
    "the language of a selection": (settings(target_language="zh"), TEXTS, "", judged_by_words, "selections"),
    "the longest": (shorter, BOTH, "longest", None, "outputs"),
    "what stands between": (settings(between="-"), BOTH, "between", None, "between"),
    "what blank texts do": (settings(empty="drop"), TEXTS, "empty", blank, ""),
    "the tokenizer": (settings(tokenizer="char"), BOTH, "tokenizer", None, ""),
    "whether tokens are shared": (settings(shared=True), TEXTS, "shared", None, ""),
    "the prefix": (settings(prefix=2), REST, "prefix", without_prompts, ""),
    "the source": (field(source="other"), TEXTS, "source", None, ""),
    "the prompt": (field(prompt="other"), REST, "prompt", None, ""),
    "the target": (field(target="other"), BOTH, "target", None, ""),
    "the references": (field(references=["more"]), BOTH, "references", None, "references"),
    "the references of a selection": (field(references=["other"]), TEXTS, "", judged_by_outputs, "references"),
    "the ids": (field(id="by"), BOTH, "id", None, "ids"),
    "no ids": (field(id=None), BOTH, "", None, "ids"),
    "the groups": (field(group="story"), BOTH, "group", None, "groups"),
    "no groups": (field(group=None), TEXTS, "", None, "groups"),
    "the groups of a share": (field(group="story"), TEXTS, "", origin("train", share=[0, 10]), "groups"),
    "the weights": (field(weight="weight"), BOTH, "weight", None, "weights"),
    "the fields of a test set": (origin("old", fields={"target": "other"}), BOTH, "fields", None, ""),
    "the records to train on": (origin("train", where={"kind": "x"}), BOTH, "where", None, ""),
    "the records of a test set": (origin("old", where={"kind": "x"}), BOTH, "", None, ""),
    "the share of a test set": (origin("new", share=[0, 2]), BOTH, "share", None, ""),
    "the targets of a test set": (origin("old", targets=False), TEXTS, "targets", without_likelihoods, "outputs"),
    "the file to train on": (origin("train", files="new.jsonl"), BOTH, "files", None, ""),
    "the file of a test set": (origin("new", files="valid.jsonl"), BOTH, "", None, ""),
    "one more test set": (more, BOTH, "tests", None, ""),
    "one test set fewer": (fewer, BOTH, "", None, ""),
    "the short form": (short_form, BOTH, "test", None, ""),
    "a target to train on": (record("train", a="red red"), BOTH, "train", None, ""),
    "a target to choose by": (record("valid", a="red red"), BOTH, "valid", None, "choices"),
    "an id to train on": (record("train", id="other"), BOTH, "", None, "files"),
    "a target of a test set": (record("old", a="red red"), BOTH, "", None, ""),
    "a reference of a test set": (record("old", more=["red red"]), BOTH, "", None, "references"),
    "a source of a test set": (record("new", q="red red"), BOTH, "", None, "files"),
    "an id of a test set": (record("new", id="other"), BOTH, "", None, "ids"),
    "what nobody reads": (record("new", other="red red"), BOTH, "", None, "files"),
    "a line of a reference": (text("old.ref"), BOTH, "", lines, "references"),
    "a line of a target": (text("new.tgt"), BOTH, "", lines, "files"),
    "a line of a source": (text("new.src"), TEXTS, "", lines, "files"),
    "a line of a reference to train by": (text("valid.ref"), TEXTS, "", lines, "nothing"),
}  # fmt: skip
CASES = [(name, kind) for name, (_, kinds, *_) in CHANGES.items() for kind in kinds]


@pytest.mark.slow(6)
@pytest.mark.parametrize(("name", "kind"), CASES)
def test_what_is_planned_again_is_what_differs_when_all_is_computed_from_nothing(name, kind, tmp_path):
    change, _, _, first, why = CHANGES[name]
    before = Tried(tmp_path / "before", kind)
    if first:
        first(before)
    after = Tried(tmp_path / "after", kind)
    after.suite, after.records, after.texts = map(deepcopy, (before.suite, before.records, before.texts))
    change(after)
    (keys, results), (others, found) = before.found(), after.found()
    both = keys.keys() & others.keys()
    planned, differing = (
        {one for one in both if old[one] != new[one]} for old, new in ((keys, others), (results, found))
    )
    assert differing <= planned, "stages that are not planned again give other results"
    alike = {kind for kind, _ in planned - differing}
    assert alike <= {*(ALIKE[why][0].split() if why else ())}, sorted(planned - differing)
    assert (planned or keys.keys() != others.keys()) != (why == "nothing")


def test_every_setting_of_the_tasks_and_their_data_is_changed():
    kinds = (TextToTextConfig, CompletionConfig, Data, Origin, RecordFiles, AlignedFiles, RecordFields)
    known = {name for kind in kinds for name in kind.model_fields}
    assert known - {setting for _, _, setting, _, _ in CHANGES.values()} == {"data"}
