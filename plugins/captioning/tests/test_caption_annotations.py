from __future__ import annotations

import json

import pytest

from bench_captioning.annotations import pictures
from bench_captioning.corpus import load_corpus, reads
from bench_captioning.plugin import CaptioningConfig
from bench_core import DataError

OWN = {"file": "a.json", "images": "images"}


def corpus(said, data):
    return load_corpus(CaptioningConfig.model_validate({"corpus": said}).corpus, data)


def ids(found):
    return {split: [picture.id for picture in each] for split, each in found.splits.items()}


def put(path, content):
    path.parent.mkdir(exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return path


def karpathy(splits):
    """Return annotations in Karpathy's layout."""
    images = [
        {
            "filepath": "val2014",
            "filename": f"{place}.jpg",
            "imgid": place,
            "cocoid": 500 + place,
            "split": split,
            "sentids": [place],
            "sentences": [{"raw": f"Dog {place}.", "tokens": ["dog"], "imgid": place, "sentid": place}],
        }
        for place, split in enumerate(splits)
    ]
    return {"images": images, "dataset": "coco"}


def test_an_image_has_the_captions_that_name_it_in_their_order(data):
    first = pictures(data / "a.json")[0]
    assert (first.id, first.name, first.split) == (100, "000.jpg", "train")
    assert first.captions == ["Caption 0 of a train dog 0.", "Caption 1 of a train dog 1."]


def test_splits_are_known_by_their_usual_names(data):
    found = corpus(OWN, data)
    assert ids(found) == {"train": [*range(100, 106)], "valid": [*range(106, 109)], "test": [*range(109, 113)]}
    assert found.folders["test"] == data / "images"


def test_karpathys_split_trains_on_what_cocos_own_left_over(tmp_path):
    put(tmp_path / "coco" / "dataset_coco.json", karpathy(["train", "restval", "val", "test", "restval"]))
    found = corpus("coco", tmp_path)
    assert ids(found) == {"train": [500, 501, 504], "valid": [502], "test": [503]}
    assert found.splits["valid"][0].captions == ["Dog 2."]
    assert found.folders["train"] / found.splits["train"][0].name == tmp_path / "coco" / "val2014" / "0.jpg"


def test_coco_without_its_file_says_where_it_is_from(tmp_path):
    with pytest.raises(DataError, match=r"dataset_coco\.json is missing\. Put dataset_coco\.json of Karpathy's"):
        corpus("coco", tmp_path)


def test_half_of_the_validation_images_of_coco_mini_are_for_test(tmp_path, data):
    content = json.loads((data / "a.json").read_text())
    content["images"] = [image for image in content["images"] if image["split"] != "test"][::-1]
    known = {image["id"] for image in content["images"]}
    content["annotations"] = [each for each in content["annotations"] if each["image_id"] in known]
    put(tmp_path / "coco-mini" / "captions_coco_mini.json", content)
    assert ids(corpus("coco-mini", tmp_path)) == {
        "train": [*range(105, 99, -1)],
        "valid": [106, 108],
        "test": [107],
    }


def test_images_of_no_split_are_left_out(data, annotate):
    def unassign(content):
        content["images"][0]["split"] = "unassigned"
        content["images"][1].pop("split")

    annotate(unassign)
    found = corpus(OWN, data)
    assert ids(found)["train"] == [102, 103, 104, 105]
    assert len(found.every) == 13


def test_a_folder_of_the_data_directory_is_a_corpus(data):
    put(data / "mine" / "captions.json", (data / "a.json").read_text())
    assert corpus("mine", data).folders["train"] == data / "mine" / "images"


def test_each_split_may_have_a_file_of_its_own(data):
    content = json.loads((data / "a.json").read_text())
    for split in ("train", "val", "test"):
        images = [image for image in content["images"] if image["split"] == split]
        known = {image["id"] for image in images}
        annotations = [each for each in content["annotations"] if each["image_id"] in known]
        put(data / f"{split}.json", {"images": images, "annotations": annotations})
    own = {"train": "train.json", "valid": "val.json", "test": "test.json"}
    assert ids(corpus(own, data)) == ids(corpus(OWN, data))
    assert [picture.id for picture in corpus(own, data).every] == [*range(100, 113)]
    with pytest.raises(DataError, match=r"image 100 \(000\.jpg\) of train\.json .* is in both train and test"):
        corpus(own | {"test": "train.json"}, data)


def test_a_user_may_say_what_the_splits_are_called(data, annotate):
    def rename(content):
        for image in content["images"]:
            image["split"] = {"train": "Tr", "val": "Va", "test": "Te"}[image["split"]]

    annotate(rename)
    with pytest.raises(DataError, match=r"unknown split, 'Te', such as image 109; known splits are train, restval"):
        corpus(OWN, data)
    splits = {"train": ["Tr", "Te"], "valid": ["Va"], "test": ["Va"]}
    wanted = {"train": ["Tr"], "valid": ["Va"], "test": ["Te"]}
    assert len(ids(corpus(OWN | {"splits": wanted}, data))["train"]) == 6
    with pytest.raises(DataError, match=r"has images of Te, Tr, Va, not of 'X'"):
        corpus(OWN | {"splits": wanted | {"train": ["Tr", "X"]}}, data)
    with pytest.raises(ValueError, match="'Va' is listed under both valid and test"):
        corpus(OWN | {"splits": splits}, data)


WRONG = {
    "no list of `images`": lambda content: content.pop("images"),
    "image 2 of `images`, counted from 0, is 'x', not a mapping": lambda content: content["images"].insert(2, "x"),
    r"no list of `annotations`": lambda content: content.pop("annotations"),
    r"images with the same id: 101": lambda content: content["images"].append(content["images"][1]),
    r"annotations with the same id: 1020": lambda content: content["annotations"].append(content["annotations"][2]),
    r"2 captions of images that are not in `images`: 7, 'y'": lambda content: content["annotations"].extend(
        [{"id": 1, "image_id": 7, "caption": "a"}, {"id": 2, "image_id": "y", "caption": "b"}]
    ),
    r"1 captions of images that are not in `images`: \[1\]": lambda content: content["annotations"].append(
        {"image_id": [1], "caption": "a"}
    ),
    r"annotation 3, counted from 0, has a `caption` that is 5, not text": lambda content: content["annotations"][
        3
    ].update(caption=5),
    r"annotation 26, counted from 0, is .*; it needs an `image_id` and a `caption`": lambda content: content[
        "annotations"
    ].append({"id": 1}),
    r"the id of image 0, counted from 0, is 1\.5": lambda content: content["images"][0].update(id=1.5),
    r"the file of image 100 is \['x'\], not a name": lambda content: content["images"][0].update(file_name=["x"]),
    r"the `split` of image 100 is 3, not a name": lambda content: content["images"][0].update(split=3),
    r"1 of 6 images in the train split of a\.json .* have no caption with a word: 100 \(000\.jpg\)": lambda content: [
        content["annotations"].pop(13),
        content["annotations"].pop(0),
    ],
    r"no images in its valid split": lambda content: [
        image.update(split="train") for image in content["images"] if image["split"] == "val"
    ],
}


@pytest.mark.parametrize("message", WRONG)
def test_what_is_wrong_in_a_file_is_named(data, annotate, message):
    annotate(WRONG[message])
    with pytest.raises(DataError, match=message):
        corpus(OWN, data)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"images": [1,\n 2,}', r"is not JSON: .* in line 2, column 4"),
        ("[" * 100_000, "nested too deeply"),
        ("[]", "is not an annotation file"),
    ],
)
def test_a_file_that_is_no_annotations_is_refused(data, text, message):
    put(data / "a.json", text)
    with pytest.raises(DataError, match=message):
        corpus(OWN, data)


def test_hostile_captions_are_one_line_and_empty_ones_are_left_out(data, annotate):
    def spoil(content):
        captions = ["a\nb\u2028c\r\n d\x0b e", "one ||| two", "", "...", " \u2029 ", "dog " * 3000]
        content["annotations"] += [{"image_id": 100, "caption": caption} for caption in captions]

    annotate(spoil)
    first = pictures(data / "a.json")[0]
    assert first.captions[2:4] == ["a b c d e", "one ||| two"]
    assert (len(first.captions), len(first.captions[4].split()), first.empty) == (5, 3000, 3)


def test_no_such_corpus_names_what_there_is(tmp_path):
    with pytest.raises(DataError, match=r"no corpus is called 'flickr8k-mimi'\. Did you mean 'flickr8k-mini'"):
        corpus("flickr8k-mimi", tmp_path)
    with pytest.raises(DataError, match=r"corpus 'ptb' has no images\. Known: .*scenes"):
        corpus("ptb", tmp_path)
    with pytest.raises(DataError, match=r"corpus 'coco-mini' is incomplete"):
        corpus("coco-mini", tmp_path)
    with pytest.raises(DataError, match=r"missing or empty: .*b\.json"):
        corpus({"file": "b.json"}, tmp_path)


def test_digests_are_of_all_that_is_read_and_tell_of_a_changed_image(data):
    config = CaptioningConfig.model_validate({"corpus": OWN})
    before = dict(config.reads(data))
    assert set(before) == {"a.json", "images"}
    image = data / "images" / "004.jpg"
    image.write_bytes(image.read_bytes() + b"\0")
    after = config.reads(data)
    assert after["a.json"] == before["a.json"]
    assert after["images"] != before["images"]
    image.unlink()
    (data / "images" / "005.jpg").write_bytes(b"")
    with pytest.raises(DataError, match=r"2 of 13 images of a\.json .* are missing or empty: .*004\.jpg, .*005\.jpg"):
        reads(config.corpus, config.features, data)


def test_images_in_the_data_directory_have_a_digest_each(data):
    config = CaptioningConfig.model_validate({"corpus": {"file": "a.json"}})
    images = [image.rename(data / image.name).name for image in (data / "images").iterdir()]
    assert set(config.reads(data)) == {"a.json", *images}


def test_scenes_read_nothing(tmp_path):
    assert CaptioningConfig().reads(tmp_path) == {}
