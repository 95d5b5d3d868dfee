from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from pydantic import ValidationError
from safetensors.numpy import save_file
from transformers import GPT2Config, ResNetConfig, ResNetModel

from bench_captioning.plugin import CaptioningConfig
from bench_core import DataError, Purpose, Size

IMAGES = 13
VECTORS = np.arange(IMAGES * 5, dtype=np.float32).reshape(IMAGES, 5)
GRIDS = np.arange(IMAGES * 6, dtype=np.float16).reshape(IMAGES, 2, 3)


def of(path, **more):
    return {"features": {"kind": "precomputed", "path": path, **more}}


def sources(task, split):
    (batch,) = task.batches(split, Purpose.DECODE, Size(100))
    return batch.source.numpy()


@pytest.mark.parametrize(("form", "table"), [("vector", VECTORS), ("grid", GRIDS)])
def test_features_of_a_file_go_to_their_images(data, prepare, form, table):
    np.save(data / "f.npy", table)
    task, info = prepare(form=form, **of("f.npy"))
    assert info.source_shape == table.shape[1:]
    for split, rows in (("train", slice(0, 6)), ("valid", slice(6, 9)), ("test", slice(9, 13))):
        assert sources(task, split).dtype == np.float32
        assert (sources(task, split) == table[rows]).all()
    (batch,) = task.batches("test", Purpose.SCORE, Size(100))
    assert (batch.source.numpy() == table[9:].repeat(2, 0)).all()
    assert info.extras["features"].startswith("f.npy (")
    assert "notice" not in info.extras


@pytest.mark.parametrize("kind", ["json", "txt", "npy", "names"])
def test_rows_may_be_in_any_order_if_they_are_named(data, prepare, kind):
    order = np.random.default_rng(0).permutation(IMAGES)
    more = np.concatenate([VECTORS[order], VECTORS[:1] - 1])
    np.save(data / "f.npy", more)
    numbers = [*(100 + order).tolist(), 999]
    if kind == "npy":
        np.save(data / "ids.npy", numbers)
    elif kind == "txt":
        (data / "ids.txt").write_text("".join(f"{number}\n" for number in numbers))
    elif kind == "json":
        (data / "ids.json").write_text(json.dumps(numbers))
    else:
        (data / "ids.names").write_text("\n".join(f"{number - 100:03}.jpg" for number in numbers))
    task, _ = prepare(**of("f.npy", ids=f"ids.{kind}"))
    assert (sources(task, "test") == VECTORS[9:]).all()


def test_features_may_be_safetensors(data, prepare):
    save_file({"a": GRIDS, "b": VECTORS}, data / "f.safetensors")
    with pytest.raises(DataError, match=r"has several tensors: a, b\. Set the `tensor` of"):
        prepare(**of("f.safetensors"))
    task, _ = prepare(**of("f.safetensors", tensor="b"))
    assert (sources(task, "valid") == VECTORS[6:9]).all()
    task, _ = prepare(**of("f.safetensors", tensor="a"), form="grid")
    assert (sources(task, "valid") == GRIDS[6:9]).all()


WRONG = {
    r"features of shape \[13, 5\], but `form: grid` needs \[I, S, D\]": (VECTORS, {"form": "grid"}),
    r"features of shape \[13, 2, 3\], but `form: vector` needs \[I, D\]": (GRIDS, {}),
    r"shape \[13, 0\]": (VECTORS[:, :0], {}),
    r"has 12 rows, but a\.json .* has 13 images": (VECTORS[1:], {}),
    r"holds int64, not floating-point": (VECTORS.astype(np.int64), {}),
    r"features of image 110 \(010\.jpg\) are not all finite": (
        np.where(np.arange(IMAGES)[:, None] == 10, np.nan, VECTORS),
        {},
    ),
    r"cannot be read as an array of numbers": (np.array([{}] * IMAGES, dtype=object), {}),
}


@pytest.mark.parametrize("message", WRONG)
def test_features_that_do_not_fit_are_refused(data, prepare, message):
    table, settings = WRONG[message]
    np.save(data / "f.npy", table, allow_pickle=True)
    with pytest.raises(DataError, match=message):
        prepare(**of("f.npy"), **settings)


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        ([*range(100, 112)], "names 12 images, but .* has 13 rows"),
        ([*range(99, 112)], r"no features for 1 of 4 images of test: 112 \(012\.jpg\)"),
        ([100, *range(100, 112)], "names image '100' twice"),
        ({"a": 1}, "is not a list of ids"),
        ([1.5] * 13, "is not a list of ids"),
    ],
)
def test_ids_that_do_not_fit_are_refused(data, prepare, ids, message):
    np.save(data / "f.npy", VECTORS)
    (data / "ids.json").write_text(json.dumps(ids))
    with pytest.raises(DataError, match=message):
        prepare(**of("f.npy", ids="ids.json"))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("f.npy", b"\x93NUMPY damaged", "cannot be read"),
        ("f.npy", b"", "cannot be read"),
        ("f.safetensors", b"damaged", "not a safetensors file"),
        ("f.pt", b"x", r"neither \.npy nor \.safetensors"),
        ("other", b"x", r"missing: .*f\.npy. Correct `features:`"),
    ],
)
def test_damaged_files_are_named(data, prepare, name, content, message):
    (data / name).write_bytes(content)
    with pytest.raises(DataError, match=message):
        prepare(**of("f.npy" if name == "other" else name))


def test_precomputed_features_need_no_images(data, prepare):
    np.save(data / "f.npy", VECTORS)
    for path in (data / "images").iterdir():
        path.unlink()
    assert prepare(**of("f.npy"))[1].source_shape == (5,)


@pytest.mark.parametrize(("form", "shape"), [("vector", (6,)), ("grid", (16, 6))])
def test_a_random_network_says_that_it_is_random_and_is_scaled_by_the_training_images(prepare, form, shape):
    task, info = prepare(form=form)
    assert info.source_shape == shape
    assert "random ResNet (widths 4-6, depths 1-1, seed 0), 32 pixels" in info.extras["features"]
    assert "random" in info.extras["notice"]
    train = sources(task, "train")
    axes = tuple(range(train.ndim - 1))
    assert abs(train.mean(axes)).max() < 1e-5
    assert abs(train.std(axes) - 1).max() < 1e-4
    assert 0 < abs(sources(task, "test").mean(axes)).max() < 10


def test_a_seed_decides_the_random_network_and_leaves_torchs_generator_alone(prepare):
    state = torch.get_rng_state()
    one, same, other = (
        sources(prepare(features={"kind": "resnet", "widths": [4, 6], "size": 32, "seed": seed})[0], "test")
        for seed in (1, 1, 2)
    )
    assert (one == same).all()
    assert abs(one - other).max() > 0.1
    assert torch.equal(torch.get_rng_state(), state)


def test_vectors_are_means_of_grids_before_they_are_scaled(data, prepare):
    network = {"features": stored(data / "net")}
    vector, grid = (sources(prepare(form=form, **network)[0], "test") for form in ("vector", "grid"))
    assert grid.shape == (4, 16, 6)
    assert np.allclose(grid.mean(1), vector, atol=1e-6)


def stored(folder, **changed):
    torch.manual_seed(5)
    config = ResNetConfig(embedding_size=4, hidden_sizes=[4, 6], depths=[1, 1], layer_type="basic")
    ResNetModel(config).save_pretrained(folder)
    return {"kind": "resnet", "path": str(folder), "size": 32, **changed}


def test_weights_in_a_folder_are_used_as_they_are(data, prepare):
    settings = stored(data / "net", size=32)
    task, info = prepare(features=settings, form="vector")
    assert info.extras["features"].startswith("the ResNet net (")
    assert "notice" not in info.extras
    network = ResNetModel.from_pretrained(data / "net").eval()
    from PIL import Image

    image = Image.open(data / "images" / "009.jpg").resize((40, 32), Image.Resampling.BILINEAR).crop((4, 0, 36, 32))
    pixels = (np.asarray(image, np.float64) / 255 - [0.485, 0.456, 0.406]) / [0.229, 0.224, 0.225]
    with torch.no_grad():
        found = network(torch.tensor(pixels.transpose(2, 0, 1)[None], dtype=torch.float32)).pooler_output[0, :, 0, 0]
    assert np.allclose(sources(task, "test")[0], found.numpy(), atol=1e-5)


def test_weights_that_are_none_are_refused(data, prepare):
    settings = stored(data / "net")
    (data / "net" / "model.safetensors").write_bytes(b"damaged")
    with pytest.raises(DataError, match=r"the ResNet in .*net cannot be loaded"):
        prepare(features=settings)
    GPT2Config().save_pretrained(data / "net")
    with pytest.raises(DataError, match="type 'gpt2', not 'resnet'"):
        prepare(features=settings)
    (data / "net" / "config.json").unlink()
    with pytest.raises(DataError, match=r"missing: .*config\.json.*holds config\.json and model\.safetensors"):
        prepare(features=settings)


def test_weights_that_lack_a_part_are_refused(data, prepare):
    settings = stored(data / "net")
    save_file({"x": VECTORS}, data / "net" / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(DataError, match=r"lacks \d+ of the ResNet's weights"):
        prepare(features=settings)


@pytest.mark.parametrize("content", [b"no image", b"\xff\xd8\xff\xe0\0\x10JFIF\0\1\1", None])
def test_a_broken_image_is_named(data, prepare, content):
    image = data / "images" / "007.jpg"
    image.write_bytes(image.read_bytes()[:400] if content is None else content)
    with pytest.raises(DataError, match=r"007\.jpg, the file of image 107, is broken: "):
        prepare()


def test_images_that_are_missing_are_named(data, prepare):
    for name in ("002", "008", "009", "010"):
        (data / "images" / f"{name}.jpg").unlink()
    with pytest.raises(
        DataError, match=r"4 of 13 images of a\.json .* missing or empty: .*002\.jpg, .*009\.jpg \.\.\."
    ):
        prepare()


def test_settings_that_mean_nothing_are_refused():
    for features, message in (
        ({"kind": "resnet", "path": "net", "widths": [3]}, "settings of random networks: widths"),
        ({"kind": "resnet", "widths": [3, 4], "depths": [1]}, r"`depths` \(1\) and `widths` \(2\) must"),
        ({"kind": "vgg"}, "vgg"),
    ):
        with pytest.raises(ValidationError, match=message):
            CaptioningConfig.model_validate({"features": features})
