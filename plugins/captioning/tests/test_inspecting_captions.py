"""`bench check` says that it opens no images, whether or not it can read all annotations."""

from __future__ import annotations

import json

import pytest

from bench_captioning.inspecting import inspect
from bench_captioning.plugin import CaptioningConfig
from bench_core import Inspection, inspection

IMAGES = [
    {
        "imgid": place,
        "filename": f"{place}.png",
        "split": split,
        "sentences": [{"raw": "a red cat"}, {"raw": "a cat"}],
    }
    for place, split in enumerate(["train"] * 4 + ["val", "test"])
]


@pytest.mark.parametrize("largest", [1, 10**6])
def test_images_are_told_as_not_checked(tmp_path, monkeypatch, largest):
    monkeypatch.setattr(inspection, "MAX_BYTES", largest)
    path = tmp_path / "captions.json"
    path.write_text(json.dumps({"images": IMAGES}))
    looked = Inspection(tmp_path)
    with looked.noting():
        inspect(CaptioningConfig.model_validate({"corpus": {"file": path}}), looked)
    assert looked.problems == []
    assert f"the images of {path}" in looked.skipped
