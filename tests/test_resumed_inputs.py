"""A training that continues from a checkpoint depends on what it read before, although no key has it."""

from __future__ import annotations

import json
import sys
from importlib import import_module
from itertools import count

import pytest

import bench_core
from bench_core import registry
from bench_core.execution.progress import ProgressDisplay
from bench_training.checkpoint import WEIGHTS, Checkpoints
from bench_training.trainer import Trainer
from process_watch import observed_inputs

SUITE = """
suite: scaled
tasks: {words: {name: letters}}
models: {scaled: {name: scaled}}
decoders: {argmax: {name: argmax}}
metrics: {nats: {name: nats}}
training: {updates: 12, evaluate_every: 12, lr: 0.1, batch_size: 8, select: {metric: nats}}
limits: {max_tokens: 6}
hardware: {threads: 1, device: cpu}
"""

PARTS = """
from torch import nn

from bench_core import hookimpl
from bench_core.kit import BatchFirstRNN, LanguageModel, LanguageModelConfig


class ScaledConfig(LanguageModelConfig):
    name, target = "scaled", "{module}:Scaled"


def factor():
    with open({file!r}) as file:
        return float(file.read())


class Scaled(LanguageModel):
    def __init__(self, config, info):
        super().__init__()
        self.embed = nn.Embedding(len(info.vocabulary), 4)
        self.layers = BatchFirstRNN(nn.GRU(4, 4, batch_first=True))
        self.head = nn.Linear(4, len(info.vocabulary))
        self.register_buffer("factor", self.head.bias.new_zeros(()))
        if {early}:
            self.factor += factor()

    def forward(self, tokens, past=None):
        if not self.factor:  # read once: later processes have it of the checkpoint
            self.factor += factor()
        states, past = self.layers(self.embed(tokens), past)
        return states * self.factor, past


@hookimpl
def bench_models():
    return [ScaledConfig]
"""


class Warned(ProgressDisplay):
    """The warnings of a run."""

    def __init__(self):
        self.texts = []

    def warn(self, text):
        self.texts.append(text)


class Scaled:
    """A suite with a model that multiplies its states by what a file has."""

    def __init__(self, folder, monkeypatch, early):
        self.folder, self.monkeypatch, self.file = folder, monkeypatch, folder / "factor.txt"
        (folder / "suite.yaml").write_text(SUITE)
        self.module = f"bench_scaled_in_{folder.name}"  # what modules have read is remembered by their names
        (folder / f"{self.module}.py").write_text(PARTS.format(file=str(self.file), early=early, module=self.module))
        monkeypatch.syspath_prepend(folder)

    def run(self, store="store", stopped_at=1e6, **settings):
        """Run the suite; return its weights, the manifest of its training, and what was said."""
        asked, heard = count(1), Warned()
        with self.monkeypatch.context() as patch, registry.extra(import_module(self.module)):
            patch.setattr(observed_inputs, "_readings", {})  # as in a process of its own
            patch.setattr(Checkpoints, "over", lambda kept: next(asked) >= stopped_at)
            run = bench_core.run(
                self.folder / "suite.yaml", store=self.folder / store, out=self.folder / "runs", workers=0,
                stop_after=1e6, progress=heard, **settings,
            )  # fmt: skip
        (self.cell,) = run.cells
        places = [*(self.folder / store / "train").glob("*/manifest.json")]
        about = json.loads(places[0].read_text()) if places else None
        weights = (places[0].parent / WEIGHTS).read_bytes() if places else None
        return weights, about, heard.texts


@pytest.fixture(params=[True, False], ids=["when it is built", "at its first update"])
def scaled(request, small, tmp_path, monkeypatch):
    made = Scaled(tmp_path, monkeypatch, request.param)
    yield made
    sys.modules.pop(made.module, None)


def unused(texts):
    return [text for text in texts if "is ignored" in text]


def test_it_is_trained_from_its_beginning_if_a_file_that_it_read_before_has_changed(scaled):
    scaled.file.write_text("3")
    wanted, _, _ = scaled.run(store="undisturbed")
    scaled.file.write_text("1")
    assert scaled.run(stopped_at=6)[0] is None
    scaled.file.write_text("3")
    found, about, texts = scaled.run()
    (told,) = unused(texts)
    assert str(scaled.file) in told
    assert found == wanted
    assert str(scaled.file) in about["observed"]["file"]


def test_it_goes_on_if_nothing_has_changed_and_depends_on_what_only_the_first_process_read(scaled):
    scaled.file.write_text("3")
    wanted, _, _ = scaled.run(store="undisturbed")
    assert scaled.run(stopped_at=6)[0] is None
    found, about, texts = scaled.run()
    assert unused(texts) == []
    assert found == wanted
    assert str(scaled.file) in about["observed"]["file"]
    scaled.file.write_text("1")
    other, _, texts = scaled.run()
    assert other != wanted
    assert any("is computed again" in text and str(scaled.file) in text for text in texts)


def test_a_file_that_changes_while_it_is_trained_ends_it_at_the_next_checkpoint(scaled, monkeypatch):
    scaled.file.write_text("3")
    updates = edited_after(4, scaled, monkeypatch)
    assert scaled.run(checkpoint_every=0.0)[0] is None
    assert scaled.cell.status == "failed"
    assert f"{scaled.file}: changed after a stage had read it" in scaled.cell.reason
    assert len(updates) == 4


def edited_after(updates, scaled, monkeypatch):
    """Edit the file after so many updates of this process."""
    update, made = Trainer._update, []

    def edited(self, *about):
        update(self, *about)
        made.append(about)
        if len(made) == updates:
            scaled.file.write_text("1")

    monkeypatch.setattr(Trainer, "_update", edited)
    return made


def test_so_does_one_that_only_an_earlier_process_read(scaled, monkeypatch):
    scaled.file.write_text("3")
    assert scaled.run(stopped_at=6)[0] is None
    with monkeypatch.context() as patch:
        made = edited_after(2, scaled, patch)
        assert scaled.run(checkpoint_every=0.0)[0] is None
    assert "changed after" in scaled.cell.reason
    assert len(made) == 2
    found, _, texts = scaled.run()
    assert len(unused(texts)) > 0
    assert found == scaled.run(store="undisturbed")[0]


def test_child_processes_of_other_modules_than_before_end_no_training(tmp_path, small, monkeypatch):
    made = Scaled(tmp_path, monkeypatch, early=False)
    made.file.write_text("3")
    (tmp_path / f"{made.module}_other.py").write_text(
        "import subprocess\n\n\ndef start():\n    subprocess.run(['true'])\n"
    )
    parts = tmp_path / f"{made.module}.py"
    text = parts.read_text().replace(
        "from torch import nn\n", f"import subprocess\n\nfrom torch import nn\n\nimport {made.module}_other\n"
    )
    text = text.replace("        self.embed", "        subprocess.run(['true'])\n        self.embed", 1)
    parts.write_text(
        text.replace(
            "            self.factor += factor()\n        states",
            f"            {made.module}_other.start()\n            self.factor += factor()\n        states",
        )
    )
    wanted, _, _ = made.run(store="undisturbed")
    assert made.run(stopped_at=6)[0] is None
    found, about, texts = made.run()
    assert unused(texts) == []
    assert found == wanted
    assert about["observed"]["unobserved"]
    for name in (made.module, f"{made.module}_other"):
        sys.modules.pop(name, None)


def test_strict_runs_refuse_it_at_its_first_checkpoint(scaled, monkeypatch):
    scaled.file.write_text("3")
    update, updates = Trainer._update, []
    monkeypatch.setattr(Trainer, "_update", lambda self, *about: (updates.append(about), update(self, *about))[1])
    assert scaled.run(checkpoint_every=0.0, strict=True)[0] is None
    assert scaled.cell.status == "failed"
    assert "which no cache key covers" in scaled.cell.reason
    assert len(updates) == 1
