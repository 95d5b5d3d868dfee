from __future__ import annotations

import json
import subprocess
import sys

import pytest
import torch

from bench_authors.testing import TaskCase, check_task
from bench_captioning.plugin import CaptioningConfig
from bench_core import STOP, DataError, Purpose, Rng, Size

SMALL = {"name": "scenes", "images": 12, "pixels": 32}
TINY = {"kind": "resnet", "widths": [4, 6], "size": 32}


@pytest.mark.quick(2, 1)
@pytest.mark.parametrize(
    "settings", [{}, {"form": "grid", "min_count": 2}, {"vocab_size": 9, "longest": 8, "documents": ["valid"]}]
)
def test_the_task_keeps_all_contracts(tmp_path, settings):
    config = CaptioningConfig.model_validate({"corpus": SMALL, "features": TINY, "min_count": 1, **settings})
    assert len(check_task(TaskCase.of(config, tmp_path, tmp_path))) == 12


def test_the_task_of_files_keeps_all_contracts(data):
    corpus = {"file": "a.json", "images": "images"}
    (data / "folder").mkdir()
    config = CaptioningConfig.model_validate({"corpus": corpus, "features": TINY, "min_count": 1})
    assert len(check_task(TaskCase.of(config, data, data / "folder"))) == 12


def test_one_trains_and_scores_captions_and_decodes_images(prepare):
    task, info = prepare()
    for purpose in (Purpose.TRAIN, Purpose.SCORE):
        (batch,) = task.batches("test", purpose, Size(100))
        assert batch.ids.tolist() == [0, 1, 10, 11, 20, 21, 30, 31]
        assert task.text(batch.gold[1, : batch.length[1] - 1].tolist()) == "caption 1 of a ⍰ dog 1"
    (batch,) = task.batches("test", Purpose.DECODE, Size(100))
    assert batch.ids.tolist() == [0, 10, 20, 30]
    assert task.text(batch.gold[1, : batch.length[1] - 1].tolist()) == "caption 0 of a ⍰ dog 0"
    assert (batch.prompt == STOP).all()
    assert batch.source.dtype == torch.float32
    assert list(task.references("test")) == list(task.sources("test")) == batch.ids.tolist()
    assert task.references("test")[10] == ["Caption 0 of a test dog 0.", "Caption 1 of a test dog 1."]
    assert task.sources("test")[10] == "010.jpg"
    assert info.extras["corpus"].startswith("a.json (")
    assert not info.extras["embedded"]


def test_more_than_ten_captions_make_ids_wider(data, annotate, prepare):
    annotate(
        lambda content: content["annotations"].extend({"image_id": 109, "caption": f"dog {n}"} for n in range(9))
    )
    task, info = prepare()
    (batch,) = task.batches("test", Purpose.SCORE, Size(100))
    assert batch.ids.tolist() == [*range(11), 100, 101, 200, 201, 300, 301]
    assert info.extras["statistics"]["test"]["most_captions"] == 11


def test_each_caption_stays_with_its_image_in_every_order(prepare):
    task, _ = prepare()

    def rows(batches):
        return {
            number: (gold[:length], source)
            for batch in batches
            for number, gold, length, source in zip(
                batch.ids.tolist(), batch.gold.tolist(), batch.length.tolist(), batch.source.tolist(), strict=True
            )
        }

    plain = rows(task.batches("train", Purpose.SCORE, Size(100)))
    assert len({tuple(source) for _, source in plain.values()}) == 6
    assert rows(task.batches("train", Purpose.TRAIN, Size(5), Rng(3))) == plain
    assert rows(task.batches("train", Purpose.TRAIN, Size(30, "tokens"), Rng(4))) == plain


def test_the_vocabulary_is_of_training_captions_alone(prepare):
    _, info = prepare(documents=["valid"])
    counts = dict(zip(info.vocabulary, info.counts, strict=True))
    assert counts == {
        "<stop>": 12,
        "<unk>": 0,
        "caption": 12,
        "of": 12,
        "a": 12,
        "dog": 12,
        "train": 12,
        "0": 12,
        "1": 12,
    }
    assert info.extras["statistics"]["test"]["unknown"] == 8
    assert info.extras["documents"] == {"valid": [["Caption 0 of a val dog 0.", "Caption 1 of a val dog 1."]] * 3}
    json.dumps(info.extras)


def test_rare_words_and_those_beyond_the_limit_are_unknown(prepare, annotate):
    annotate(lambda content: content["annotations"].append({"image_id": 100, "caption": "a rare dog"}))
    assert "rare" not in prepare(min_count=2)[1].vocabulary
    vocabulary = prepare(vocab_size=4)[1].vocabulary
    assert vocabulary == ["<stop>", "<unk>", "a", "dog"]
    with pytest.raises(DataError, match="no word occurs 50 times in the 13 training captions"):
        prepare(min_count=50)


def test_long_captions_are_not_trained_on_and_never_lost_elsewhere(prepare, annotate):
    def lengthen(content):
        for image in (100, 101, 109):
            content["annotations"].append({"image_id": image, "caption": "one long sentence of a very tired dog"})

    annotate(lengthen)
    task, info = prepare(longest=7)
    (train,) = task.batches("train", Purpose.TRAIN, Size(100))
    assert train.ids.tolist() == [0, 1, 10, 11, 20, 21, 30, 31, 40, 41, 50, 51]
    assert "tired" not in info.vocabulary
    assert info.counts[0] == 12
    assert info.counts[info.vocabulary.index("dog")] == 12
    assert info.extras["statistics"]["train"]["left_out_long"] == 2
    assert info.extras["statistics"]["test"]["left_out_long"] == 0
    assert len(next(task.batches("test", Purpose.SCORE, Size(100)))) == 9
    assert len(task.references("train")[0]) == 3
    with pytest.raises(DataError, match=r"all captions of .* have more than `longest: 2` words"):
        prepare(longest=2)


def test_scenes_are_the_default_and_may_be_shown(tmp_path):
    assert CaptioningConfig().corpus.name == "scenes"
    config = CaptioningConfig.model_validate({"corpus": SMALL, "features": TINY})
    task = config.load()(config, tmp_path)
    info = task.prepare(tmp_path)
    assert info.extras["embedded"]
    assert info.extras["corpus"] == "scenes (images 12, pixels 32, seed 0)"
    assert all(len(each) == 5 for each in task.references("valid").values())
    assert " at " in task.sources("test")[0]


def test_a_split_that_there_is_not_has_no_purpose():
    assert CaptioningConfig().purposes("train") == set(Purpose)
    assert CaptioningConfig().purposes("val") == set()


def test_the_plugin_imports_nothing_heavy_and_its_metrics_no_torch():
    code = """
import sys
from bench_captioning.plugin import bench_metrics, bench_tasks
assert not {"torch", "numpy", "transformers", "PIL", "pycocoevalcap"} & set(sys.modules)
for config in bench_metrics():
    config.load()
assert "torch" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_captions_of_an_image_are_a_group(prepare):
    """Wherever a caption is scored, its group is the image that it is of."""
    task, _ = prepare()
    groups = task.groups("test")
    first = [*task.references("test")]
    for batch in task.batches("test", Purpose.SCORE, Size(7)):
        for number in batch.ids.tolist():
            image = max(place for place, one in enumerate(first) if one <= number)
            assert groups[number] == image
    assert len({groups[one] for one in first}) == len(first)
