"""Features in a folder: one array per image, found by its name."""

from __future__ import annotations

import numpy as np
import pytest
from safetensors.numpy import save_file

from bench_captioning.inspecting import inspect
from bench_captioning.plugin import CaptioningConfig
from bench_core import DataError, Inspection, Purpose, Size, Source
from bench_core.planning.plan import plan
from bench_core.suites.load import load

IMAGES = 13
VECTORS = np.arange(IMAGES * 5, dtype=np.float32).reshape(IMAGES, 5)
GRIDS = np.arange(IMAGES * 6, dtype=np.float16).reshape(IMAGES, 2, 3)
NAMES = {
    "id": lambda place: f"{100 + place}.npy",
    "file": lambda place: f"{place:03}.jpg.npy",
    "stem": lambda place: f"{place:03}.npy",
}


@pytest.fixture
def folder(data):
    """Return a folder with a vector of each image."""
    (data / "f").mkdir()
    for place, vector in enumerate(VECTORS):
        np.save(data / "f" / f"{place:03}.npy", vector)
    return data / "f"


def sources(task, split="test"):
    (batch,) = task.batches(split, Purpose.DECODE, Size(100))
    return batch.source.numpy()


@pytest.mark.parametrize("kind", NAMES)
def test_files_are_named_by_id_or_file(data, prepare, kind):
    (data / "f").mkdir()
    for place in np.random.default_rng(0).permutation(IMAGES):
        np.save(data / "f" / NAMES[kind](place), VECTORS[place])
    task, info = prepare(features={"folder": data / "f"})
    assert (info.source_shape, info.extras["features"]) == ((5,), "the folder f")
    for split, rows in (("train", slice(0, 6)), ("valid", slice(6, 9)), ("test", slice(9, 13))):
        assert (sources(task, split) == VECTORS[rows]).all()


@pytest.mark.parametrize("names", [range(100, 113), [f"{place:03}.jpg" for place in range(IMAGES)]])
def test_tensors_of_one_or_several_files_are_named_by_id_or_file(data, prepare, names):
    (data / "f").mkdir()
    named = {str(name): grid for name, grid in zip(names, GRIDS, strict=True)}
    halves = [dict([*named.items()][:5]), dict([*named.items()][5:])]
    for number, half in enumerate(halves):
        save_file(half, data / "f" / f"{number}.safetensors")
    task, _ = prepare(features={"folder": data / "f"}, form="grid")
    assert task.config.source is Source.GRID
    assert (sources(task) == GRIDS[9:]).all()


def test_subfolders_are_parts_of_names(data, annotate, prepare):
    annotate(lambda content: [image.update(file_name=f"val/{image['file_name']}") for image in content["images"]])
    (data / "f" / "val").mkdir(parents=True)
    for place, vector in enumerate(VECTORS):
        np.save(data / "f" / "val" / f"{place:03}.npy", vector)
    assert (sources(prepare(features={"folder": data / "f"})[0]) == VECTORS[9:]).all()


def remove(folder):
    (folder / "010.npy").unlink()


def empty(folder):
    for path in folder.iterdir():
        path.unlink()


WRONG = {
    r"no features for 1 of 4 images of test: 110 \(010\.jpg\)": remove,
    r"\S+f has no \.npy or \.safetensors files": empty,
    r"010\.npy has shape \[6\], but \S+000\.npy has \[5\]": lambda f: np.save(f / "010.npy", np.ones(6, np.float32)),
    r"features of image 110 \(010\.jpg\) are not all finite": lambda f: np.save(
        f / "010.npy", np.full(5, np.nan, np.float32)
    ),
    r"010\.npy holds int64, not floating-point numbers": lambda f: np.save(f / "010.npy", np.ones(5, np.int64)),
    r"010\.npy cannot be read as an array": lambda f: (f / "010.npy").write_bytes(b"damaged"),
    r"f has features named 110 and others named 010\.jpg, which are one image": lambda f: np.save(
        f / "110.npy", VECTORS[0]
    ),
    r"010\.npy and \S+t\.safetensors: '010' are both named after image '010'": lambda f: save_file(
        {"010": VECTORS[0]}, f / "t.safetensors"
    ),
    r"t\.safetensors is not a safetensors file": lambda f: (f / "t.safetensors").write_bytes(b"damaged"),
    r"000\.npy cannot be read as an array": lambda f: np.save(f / "000.npy", np.array([{}]), allow_pickle=True),
}


@pytest.mark.parametrize("message", WRONG)
def test_what_is_wrong_in_a_folder_is_named(folder, prepare, message):
    WRONG[message](folder)
    with pytest.raises(DataError, match=message):
        prepare(features={"folder": folder})


def test_a_folder_that_is_missing_or_of_the_other_form_is_named(data, folder, prepare):
    with pytest.raises(DataError, match=r"missing: \S+nowhere\. Correct `features:`"):
        prepare(features={"folder": "nowhere"})
    with pytest.raises(DataError, match=r"features of shape \[13, 5\], but `form: grid` needs"):
        prepare(features={"folder": folder}, form="grid")


def test_bench_check_finds_an_array_of_another_shape_and_reports_what_it_skips(data, folder):
    corpus = {"file": data / "a.json", "images": "images"}
    config = CaptioningConfig.model_validate({"corpus": corpus, "features": {"folder": folder}, "min_count": 1})
    inspection = Inspection(data)
    inspect(config, inspection)
    assert inspection.skipped == [f"{folder} after the first 64 images of each split"]
    np.save(folder / "012.npy", np.ones((5, 1), np.float32))
    with pytest.raises(DataError, match=r"012\.npy has shape \[5, 1\]"):
        inspect(config, inspection)


SUITE = """
suite: folder
tasks: {own: {name: captioning, corpus: {file: a.json, images: images}, features: {folder: f}, min_count: 1}}
models: {lm: {name: softmax-lm, hidden: 4, embedding: 4}}
metrics: {perplexity: {name: perplexity}}
training: {updates: 1}
tables: [{id: t, rows: [model], values: [perplexity]}]
"""


def test_a_changed_file_of_the_folder_changes_the_keys(data, folder):
    (data / "suite.yaml").write_text(SUITE)

    def keys():
        return {stage.key for stage in plan(load(data / "suite.yaml"), data).stages.values()}

    before = keys()
    assert keys() == before
    np.save(folder / "012.npy", VECTORS[0])
    assert not keys() & before
